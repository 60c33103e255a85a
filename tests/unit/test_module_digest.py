"""When two digests are of the same program: see ``core/drift/module_digest.py``."""

import pytest

from holdfast.core.drift.module_digest import digest_text, is_same_module


@pytest.mark.parametrize(
    ("recorded", "now", "is_same"),
    [
        ("c1.t1@3.11", "c1.t1@3.11", True),
        ("c1.t1@3.11", "c1.t2@3.11", True),  # a comment
        ("c1.t1@3.11", "c2.t2@3.11", False),
        ("c1.t1@3.11", "c2.t1@3.11", False),  # what ran was not what lay there: python -O, an edit meanwhile
        ("c1.t1@3.11", "c2.t1@3.12", True),
        ("c1.t1@3.11", "c2.t2@3.12", False),
        ("c1", "c1.t1@3.11", True),  # recorded before there was a hash of the text
        ("c1", "c2.t1@3.12", False),
        ("c1", "c2", False),
        ("c1.t1@3.11", "c1", True),
    ],
)
def test_the_text_counts_between_two_pythons_only(recorded: str, now: str, is_same: bool) -> None:
    """Planted: the Python left out of the comparison, and the text compared always."""
    assert is_same_module(recorded, now) is is_same


def test_a_module_without_source_has_the_hash_of_its_code() -> None:
    """As every module had before."""
    assert digest_text("c1", "", "3.11") == "c1"
    assert digest_text("c1", "t1", "3.11") == "c1.t1@3.11"

"""Every input that is kept, and a few changes of them, through every surface; ``make fuzz`` goes on from there.

Each ``found-…`` in the corpus did harm once: planted again, its defect makes it fail here.
"""

from pathlib import Path

import pytest
from tests.fuzz.corpus import DIRECTORY, inputs_of
from tests.fuzz.engine import Findings, check_of, seeded
from tests.fuzz.surfaces import SURFACES

SHARES = {"handoffs": 15, "imports": 10, "inspector_requests": 6, "mcp_calls": 3, "proxy_requests": 20}
SIZE_BYTES_MAX = 50_000


def test_every_surface_has_a_corpus() -> None:
    """A valid input at least, none of them large; and nothing in the folder belongs to no surface."""
    assert sorted(path.name for path in DIRECTORY.iterdir()) == sorted(SURFACES)
    for surface in SURFACES:
        assert any(path.name.startswith("valid") for path in (DIRECTORY / surface).iterdir()), surface
        assert all(len(data) <= SIZE_BYTES_MAX for data in inputs_of(surface)), surface


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.filterwarnings("ignore")  # what others wrote may warn
def test_what_was_found_once_does_no_harm(surface: str) -> None:
    """Each input of the corpus: sound, or refused with an error of ours."""
    for data in inputs_of(surface):
        check_of(surface)(data)


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.filterwarnings("ignore")
def test_changed_inputs_do_no_harm(surface: str, tmp_path: Path) -> None:
    """The first changes of seed 0. Seen: the lease_s of a URL that url_of wrote with a plus, found by these."""
    findings = Findings(surface, tmp_path)
    seeded(surface, findings, seed=0, count=SHARES.get(surface, 150))
    assert not findings.places

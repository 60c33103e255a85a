"""Which files are the user's own: not Python's, not an installed package's, not Holdfast's."""

import os
import sysconfig
from pathlib import Path

import pytest

import holdfast
from holdfast.engine.steps.own_code import is_own_file

STDLIB = Path(sysconfig.get_path("stdlib"))
PACKAGE = Path(holdfast.__file__).parent


@pytest.mark.parametrize(
    "path",
    [STDLIB / "json" / "decoder.py", PACKAGE / "api" / "run.py", "/any/lib/site-packages/agents/run.py"],
)
def test_a_file_of_others_is_known_by_its_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a look at the file system: a process has hundreds of such modules, and asks for each.

    Planted: the real path first, as it was.
    """
    is_own_file.cache_clear()
    monkeypatch.setattr(os.path, "realpath", None)
    assert not is_own_file(str(path))


def test_a_link_leads_to_the_real_file(tmp_path: Path) -> None:
    """A link to a file of Python's is Python's; any other file is the user's."""
    (tmp_path / "mine.py").touch()
    (tmp_path / "theirs.py").symlink_to(STDLIB / "json" / "decoder.py")
    assert is_own_file(str(tmp_path / "mine.py"))
    assert not is_own_file(str(tmp_path / "theirs.py"))

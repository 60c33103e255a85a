"""The two tables: every tampered situation is found, and no innocent one is flagged.

Planted once, and caught here: hashing only when size or times differ; noting a file anew on replay; a fingerprint over lines
instead of tokens; looking only at what the program declares and not at what it made; a tool known by its names alone.
"""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.behaviour.premises.changed_cases import TAMPERED
from tests.behaviour.premises.scenario import Scene
from tests.behaviour.premises.unchanged_cases import INNOCENT


@pytest.fixture(autouse=True)
def _where_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("HOLDFAST_URL", "HOLDFAST_RUN"):
        monkeypatch.delenv(name, raising=False)
    before = Path.cwd()
    yield
    os.chdir(before)


ONLY = {"source": {"plan"}, "tool": {"run"}, "model": {"run"}}
"""Who has to notice, where it is not both: the run comes to a function later; tools and models only the program knows."""


@cache
def missed(name: str) -> str:
    """What is wrong with how a tampered situation was noticed; empty if it was."""
    with TemporaryDirectory(prefix="holdfast-") as place:
        scene = Scene(Path(place) / "project")
        try:
            found, expected = TAMPERED[name](scene)
        finally:
            scene.store.close()
    premise, verdict, act = expected.split()
    kinds = [one for one in found if one.premise == premise or one.premise.partition(":")[0] == premise]
    if not kinds:
        return f"{name}: nobody noticed; found {found}"
    wrong = [one for one in kinds if (one.verdict, one.act) != (verdict, act)]
    if wrong:
        return f"{name}: {wrong} instead of {expected}"
    unaware = ONLY.get(premise.partition(":")[0], {"plan", "run"}) - {one.by for one in kinds}
    return f"{name}: not by the {unaware}" if unaware else ""


@cache
def flagged(name: str) -> str:
    """What was said about an innocent situation; empty if nothing."""
    with TemporaryDirectory(prefix="holdfast-") as place:
        scene = Scene(Path(place) / "project")
        try:
            found = INNOCENT[name](scene)
        finally:
            scene.store.close()
    return f"{name}: {found}" if found else ""


@pytest.mark.parametrize("name", TAMPERED)
def test_tampering_is_found(name: str) -> None:
    """By the plan or on entering or when the program comes to it, with the verdict and what follows."""
    assert not missed(name)


@pytest.mark.parametrize("name", INNOCENT)
def test_innocence_is_not_flagged(name: str) -> None:
    """Neither by the plan, nor on entering, nor as the program runs."""
    assert not flagged(name)


@pytest.mark.slow
def test_the_two_counts() -> None:
    """At least forty of each: all found, none flagged."""
    lost = [told for name in TAMPERED if (told := missed(name))]
    wrong = [told for name in INNOCENT if (told := flagged(name))]
    counts = (
        f"{len(TAMPERED) - len(lost)} of {len(TAMPERED)} tampered situations found, "
        f"{len(wrong)} of {len(INNOCENT)} innocent ones flagged"
    )
    assert min(len(TAMPERED), len(INNOCENT)) >= 40, counts
    assert not lost, (counts, lost)
    assert not wrong, (counts, wrong)

"""A run is begun by one Python, goes on under the next, and ends under the one after that.

Its program is the same text, compiled to other code by each. It is not silent: the plan tells of another Python, and
what is changed in the text itself is still a question. It does not stop for the Python alone. Seen to fail with digests of the
code alone (``text`` empty in ``program._digest_of``): the third attempt stops.
"""

import json
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
AGENT = Path(__file__).with_name("agent.py")
WANTED = ("3.11", "3.12", "3.13")
ORDERS = [
    ("3.11", "3.12", "3.13"),
    ("3.13", "3.12", "3.11"),
    ("3.12", "3.12", "3.13"),
    ("3.11", "3.11", "3.11"),
]


def interpreter(version: str) -> str:
    """An interpreter of that version, on the path or where pyenv keeps them."""
    found = shutil.which(f"python{version}")
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if found is None or subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode:
        assert kept, f"there is no Python {version} here"
        return str(kept[-1])
    return found


@pytest.fixture(scope="session")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment of each version with what Holdfast needs to run."""
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    made = {}
    for version in WANTED:
        place = tmp_path_factory.mktemp("venv") / version
        subprocess.run([interpreter(version), "-m", "venv", str(place)], check=True)
        subprocess.run(
            [str(place / "bin" / "pip"), "install", "-q", *needs], check=True, stderr=subprocess.DEVNULL
        )
        made[version] = str(place / "bin" / "python")
    return made


def attempt(python: str, place: Path, stage: int, agent: Path = AGENT) -> subprocess.CompletedProcess[str]:
    command = [python, str(agent), f"sqlite:///{place / 'store.db'}", str(place / "ledger"), str(stage)]
    return subprocess.run(
        command,
        env={"PYTHONPATH": str(ROOT / "src")},
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def paid(place: Path) -> list[str]:
    lines = (place / "ledger").read_text().splitlines()
    assert len(set(lines)) == len(lines)
    return [line.partition(" ")[0] for line in lines]


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_a_run_outlives_its_python(pythons: dict[str, str], order: tuple[str, ...], tmp_path: Path) -> None:
    """Nothing runs twice, nothing stops, and every value is what it was."""
    for stage in (1, 2):
        ended = attempt(pythons[order[stage - 1]], tmp_path, stage)
        assert ended.returncode == 9, ended.stderr
    assert paid(tmp_path) == ["ada", "bob"]
    ended = attempt(pythons[order[2]], tmp_path, 3)
    assert ended.returncode == 0, ended.stderr
    assert paid(tmp_path) == ["ada", "bob", "eve"]
    found = json.loads(ended.stdout)
    assert found[1] == [1, "6.1", [1, 2], {"ada": 3, "bob": 3, "eve": 3}]
    assert found[3:] == [[name, f"paid {name} 1.50 by 6.1, at most 3"] for name in ("ada", "bob", "eve")]
    assert ("relies on package:python" in ended.stderr) == (order[1] != order[2])
    again = attempt(pythons[order[0]], tmp_path, 3)
    assert again.stdout == ended.stdout
    assert paid(tmp_path) == ["ada", "bob", "eve"]
    doctor = [
        pythons[order[0]],
        "-m",
        "holdfast.cli",
        "doctor",
        "--full",
        "--store",
        str(tmp_path / "store.db"),
    ]
    told = subprocess.run(
        doctor, env={"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout


def test_an_edit_beside_a_newer_python_is_a_question(pythons: dict[str, str], tmp_path: Path) -> None:
    """The new text is another program under any Python: the payment stops before it is made."""
    edited = tmp_path / "agent.py"
    text = AGENT.read_text()
    edited.write_text(text)
    for stage in (1, 2):
        assert attempt(pythons["3.11"], tmp_path, stage, edited).returncode == 9
    edited.write_text(text.replace('"""An effect: a line in a file."""', "print('edited')"))
    ended = attempt(pythons["3.12"], tmp_path, 3, edited)
    assert ended.returncode != 0
    assert "is not sure that 'pay' is new" in ended.stderr
    assert paid(tmp_path) == ["ada", "bob"]

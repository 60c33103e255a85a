"""``docs/commands.md`` and ``docs/limits.md`` say what is so: commands, options, JSON fields, limits."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

import holdfast
from holdfast import limits
from holdfast.cli.app import COMMANDS, app

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "commands.md").read_text(encoding="utf-8")


def sections() -> dict[str, str]:
    """The page by command."""
    parts = re.split(r"^## `holdfast (\w+)`$", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def command_of(name: str) -> click.Command:
    command = app.get_command(click.Context(app), name)
    assert command is not None, name
    return command


def test_every_command_is_on_the_page() -> None:
    """In the same order as in the help; none is missing from either."""
    assert tuple(sections()) == tuple(app.list_commands(click.Context(app))) == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_on_the_page(name: str) -> None:
    """The first column of the command's table is exactly its options."""
    options = [p for p in command_of(name).params if isinstance(p, click.Option)]
    assert set(re.findall(r"^\| `(--[\w-]+)` \|", sections()[name], flags=re.MULTILINE)) == {
        option.opts[0] for option in options
    }
    assert all(option.help for option in options), name


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_helps(name: str) -> None:
    """A summary, an example in the help and on the page, ``--json``, and ``--store`` where a store is looked at."""
    command = command_of(name)
    text = command.get_help(click.Context(command, info_name=f"holdfast {name}"))
    assert re.search(rf"Examples?:\n +holdfast {name}\b", text)
    assert re.search(rf"```\n(?:.*\n)*holdfast {name}\b", sections()[name])
    assert {"--json", "--store"} - {option for p in command.params for option in p.opts} == (
        {"--store"} if name == "demo" else set()
    )
    assert max(map(len, text.splitlines())) <= 80


def paths(content: Any, before: str = "") -> Iterator[str]:
    """The path of every field in a JSON document, as the page writes it."""
    if isinstance(content, dict):
        for name, part in content.items():
            yield f"{before}{name}"
            yield from paths(part, f"{before}{name}.")
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, dict):
                yield from paths(part, f"{before[:-1]}[].")


def documented(name: str, begin: str = "", end: str = "## ") -> set[str]:
    """The fields in the tables of a command's section, from one phrase to another."""
    part = sections()[name].split(begin, 1)[1] if begin else sections()[name]
    return (
        set(re.findall(r"^\| `([a-z_][\w.\[\]]*)` \|", part.split(end, 1)[0], flags=re.MULTILINE)) - STATUSES
    )


STATUSES = set(
    re.findall(
        r"^\| `(\w+)` \|", sections()["runs"].split("The statuses:")[1].split("| field |")[0], re.MULTILINE
    )
)


def tops(found: set[str]) -> set[str]:
    """Fields without the lists and objects that only hold others."""
    return {path for path in found if not any(other.startswith((f"{path}.", f"{path}[]")) for other in found)}


def test_the_fields_of_runs(shop: "Shop") -> None:
    """Documented and printed fields are the same."""
    assert tops(set(paths(json.loads(shop("runs", "--json").out)))) == tops(documented("runs"))


def test_the_fields_of_show(shop: "Shop") -> None:
    """A run has the fields of its line in ``runs`` and those of the table."""
    line = {path.removeprefix("runs[].") for path in documented("runs") if path.startswith("runs[].")}
    found = tops(
        {
            p
            for p in paths(json.loads(shop("show", "debt-cycles", "--json").out))
            if not p.startswith(("inputs.", "spent."))
        }
    )
    # The run of this test has none of these; tests of their own compare what they show.
    empty = {path for path in documented("show") if path.startswith(("stopped[].", "children[]."))}
    assert found | empty == tops(documented("show", end="`show RUN@44`") | line) | {"stopped", "children"}


def test_the_fields_of_a_step(shop: "Shop") -> None:
    """A point, a label and a failure have the same fields; those of ``step`` and ``events[]`` stand elsewhere."""
    wanted = {path.removesuffix("[]") for path in documented("show", "`show RUN@44`", "`show RUN@#1203`")}
    steps = {path.removeprefix("steps[].") for path in documented("show") if path.startswith("steps[].")}
    for place in ("debt-cycles@1", "debt-cycles@draft-1", "ledger@1"):
        content = json.loads(shop("show", place, "--json").out)
        assert set(content) == wanted
        assert set(content["step"]) == steps
        assert set(content["events"][0]) == documented("log")


def test_the_fields_of_an_event(shop: "Shop") -> None:
    """An event as recorded."""
    content = json.loads(shop("show", "debt-cycles@#5", "--json").out)
    assert set(content) == documented("show", "`show RUN@#1203`")


def test_the_fields_of_log(shop: "Shop") -> None:
    """Every line has every field."""
    for line in shop("log", "debt-cycles", "--json").out.splitlines():
        assert set(json.loads(line)) == documented("log")


def test_the_fields_of_resolve(own_shop: "Shop") -> None:
    """Of the list, and of the answer."""
    own_shop.work("debt-cycles", "crash")
    listed = json.loads(own_shop("resolve", "debt-cycles", "--json").out)
    answer = json.loads(own_shop("resolve", "debt-cycles", "--retry", "--json").out)
    doubts = {path.removeprefix("doubts[].") for path in documented("show") if path.startswith("doubts[].")}
    assert set(listed["in_doubt"][0]) == doubts
    lists = {"in_doubt[]", "stopped[]", "resolved[]"}
    assert tops(set(paths(answer)) | lists) == tops(documented("resolve"))


def test_the_fields_of_prune(own_shop: "Shop") -> None:
    """Of a plan; those of what stays are those of what goes."""
    with holdfast.run("talk", store=own_shop.store) as run:
        for i in range(3):
            run.checkpoint({"i": i})
    found = set(paths(json.loads(own_shop("prune", "--dry-run", "--keep-checkpoints", "1", "--json").out)))
    found = {path for path in found if not path.startswith("runs[].stays")} | {"runs[].stays[]", "notes[]"}
    assert tops(found - {"notes"}) == tops(documented("prune"))


def test_the_fields_of_doctor(shop: "Shop") -> None:
    """Documented and printed fields are the same."""
    assert tops(set(paths(json.loads(shop("doctor", "--json").out)))) == tops(documented("doctor"))


def test_the_fields_of_export_import_and_erase(own_shop: "Shop", tmp_path: Path) -> None:
    """Documented and printed fields are the same."""
    own_shop.work("debt-cycles", "finish")
    file = str(tmp_path / "x.holdfast")
    for args in (
        ("export", "debt-cycles", "-o", file),
        ("import", file),
        ("erase", "debt-cycles~1", "--yes"),
    ):
        found = json.loads(own_shop(*args, "--json").out)
        assert set(found) == documented(args[0]), args[0]


def test_the_fields_of_copy(own_shop: "Shop", tmp_path: Path) -> None:
    """Documented and printed fields are the same."""
    own_shop.work("debt-cycles", "finish")
    found = json.loads(own_shop("copy", "--to", str(tmp_path / "other.db"), "--json").out)
    assert tops(set(paths(found))) == tops(documented("copy"))


def test_the_statuses_are_those_that_can_be_seen() -> None:
    """The page explains every status that is recorded or found by looking."""
    from holdfast.model.store_rows import Status

    recorded = {value for name, value in vars(Status).items() if name.isupper()}
    assert recorded | {"crashed", "stale", "damaged", "not_begun", "set_aside"} == STATUSES


def test_every_limit_is_explained() -> None:
    """``docs/limits.md`` has each constant of ``limits.py`` once, with its value, and no other."""
    page = (DOCS / "limits.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([A-Z_]+)` \| ([\d,.]+)(?: s)? \|", page, flags=re.MULTILINE)
    told = dict(rows)
    assert len(told) == len(rows), "each stands once"
    known = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert {name: float(text.replace(",", "")) for name, text in told.items()} == known


def test_the_fields_of_checkpoints(shop: "Shop") -> None:
    """Of the list and of each checkpoint."""
    content = json.loads(shop("checkpoints", "debt-cycles", "--json").out)
    assert tops(set(paths(content))) == tops(documented("checkpoints"))

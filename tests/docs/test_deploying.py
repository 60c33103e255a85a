"""The recipes of ``docs/deploying.md`` hold together, and every command line in the docs is one that Holdfast takes.

Planted once, and caught here: an option that no command has, a command that there is not, an option without its value, a drain
longer than the time a manifest gives, a selector that matches no pod, a setting in the wrong section of the unit.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from holdfast.cli.app import app
from holdfast.limits import DRAIN_S

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
PAGES = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]


def blocks(language: str, page: str = PAGE) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)


# -- command lines -------------------------------------------------------------------------------------------------


def command_lines(page: str) -> Iterator[tuple[list[str], bool]]:
    """The words of every ``holdfast …`` on a page, in a block, a unit, a manifest or inline; and whether it is a whole line."""
    fenced = re.findall(r"^```(\w*)[^\n]*\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    for language, block in fenced:
        if language == "yaml":
            for listed in re.findall(r"\[\"holdfast\".*?\]", block):
                yield json.loads(listed), True
        elif language in {"", "console", "ini", "bash", "text"}:
            for line in block.replace("\\\n", " ").splitlines():
                found = re.match(r"(?:\$ |ExecStart=\S*/)?(?:kubectl exec \S+ -- )?(holdfast .*)", line)
                if found:
                    yield shlex.split(found[1].split(" && ")[0], comments=True), True
    inline = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    for text in re.findall(r"`(holdfast [a-z][^`\n]*)`", inline):
        yield _words(text), False


def _words(text: str) -> list[str]:
    """Words of a line that may be no whole one: with brackets, choices and things left out."""
    plain = re.sub(r"[\[\]]", "", text)
    try:
        return shlex.split(plain)
    except ValueError:  # an apostrophe
        return plain.split()


LINES = {page: [*command_lines((ROOT / page).read_text(encoding="utf-8"))] for page in PAGES}


def check(words: list[str]) -> None:
    """The command is there, and takes these options, each with its value. click.UsageError."""
    options = list(words[1:])
    while options and options[0].startswith("-"):
        assert options.pop(0) in {"--version", "--help", "-h"}
    if not options:
        return
    command = app.get_command(click.Context(app), options[0])
    assert command is not None, f"there is no `holdfast {options[0]}`"
    context = click.Context(command, info_name=options[0])
    command.make_parser(context).parse_args(options[1:])


PAST = {"docs/history.md"}
"""Pages that say what commands were."""


@pytest.mark.parametrize("page", [page for page in PAGES if LINES[page] and page not in PAST])
def test_every_command_line_is_one_that_is_taken(page: str) -> None:
    """Commands and options that are on a page are those of the program; what is mentioned may leave values out."""
    wrong = []
    for words, is_whole in LINES[page]:
        try:
            check(words)
        except click.UsageError as refused:
            if is_whole or not isinstance(refused, click.BadOptionUsage):
                wrong.append(f"{shlex.join(words)}: {refused.format_message()}")
    assert wrong == []


def test_the_check_looks_at_something_and_can_fail() -> None:
    """It finds the lines of all kinds, and what is wrong with them."""
    assert sum(map(len, LINES.values())) > 150
    found = [words[1:3] for words, _ in command_lines(PAGE)]
    assert found.count(["worker", "my_agents"]) == 3, "a unit, a Deployment, a StatefulSet"
    assert ["submit", "auditor"] in found
    assert ["runs"] in found
    for wrong in ("holdfast runs --nothing", "holdfast prune --keep-checkpoints"):
        with pytest.raises(click.UsageError):
            check(shlex.split(wrong))
    with pytest.raises(AssertionError, match="there is no `holdfast frobnicate`"):
        check(["holdfast", "frobnicate"])


# -- manifests -----------------------------------------------------------------------------------------------------


def option_of(words: list[str], name: str) -> float | None:
    return float(words[words.index(name) + 1]) if name in words else None


@pytest.fixture(scope="module")
def manifests() -> list[dict[str, Any]]:
    """The YAML blocks, read by a YAML library: there is one in the environment of the tests' DynamoDB."""
    python = ROOT / ".venv-aws" / "bin" / "python"
    assert python.exists(), f"{python} is not there: run `make .venv-aws/.ready`"
    code = "import json, sys, yaml; json.dump([yaml.safe_load(text) for text in json.load(sys.stdin)], sys.stdout)"
    done = subprocess.run(
        [python, "-c", code], input=json.dumps(blocks("yaml")), capture_output=True, text=True, check=True
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_the_manifests_hold_together(manifests: list[dict[str, Any]]) -> None:
    """Selectors find their pods, volumes are mounted, and a pod has more time to end than its worker takes."""
    assert [one["kind"] for one in manifests] == ["Deployment", "StatefulSet"]
    for one in manifests:
        spec, pod = one["spec"], one["spec"]["template"]["spec"]
        assert one["apiVersion"] == "apps/v1"
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
        (container,) = pod["containers"]
        words = container["command"]
        assert words[:3] == ["holdfast", "worker", "my_agents"]
        assert pod["terminationGracePeriodSeconds"] >= (option_of(words, "--drain-s") or 0) + DRAIN_S
        assert "livenessProbe" not in container
        claimed = {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", ())}
        assert {mount["name"] for mount in container.get("volumeMounts", ())} == claimed


def test_each_manifest_has_the_store_that_suits_it(manifests: list[dict[str, Any]]) -> None:
    """Many pods share a server, whose URL is a secret; one pod has a file, on its volume."""
    deployment, stateful = manifests
    assert deployment["spec"]["replicas"] > 1
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (secret,) = container["env"]
    assert secret["name"] == "HOLDFAST_URL"
    key = secret["valueFrom"]["secretKeyRef"]
    assert f"kubectl create secret generic {key['name']} --from-literal={key['key']}=" in PAGE
    assert stateful["spec"]["replicas"] == 1
    (container,) = stateful["spec"]["template"]["spec"]["containers"]
    (mount,) = container["volumeMounts"]
    assert f"sqlite:///{mount['mountPath']}/agents.db" in container["command"]


def unit() -> dict[str, dict[str, str]]:
    """The unit's settings by section. A line of it is a comment, a section or a setting."""
    sections: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for line in blocks("ini")[0].splitlines():
        if found := re.fullmatch(r"\[(\w+)\]", line):
            current = sections.setdefault(found[1], {})
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            assert value, line
            current[name] = value
    return sections


def test_the_unit_holds_together() -> None:
    """It restarts always, stops with SIGTERM, and gives its worker more time than the drain."""
    service = unit()["Service"]
    assert (service["Restart"], service["KillSignal"]) == ("always", "SIGTERM")
    words = shlex.split(service["ExecStart"])
    assert float(service["TimeoutStopSec"]) >= (option_of(words, "--drain-s") or 0) + DRAIN_S
    assert "HOLDFAST_URL" in blocks("ini")[0]
    assert set(unit()) == {"Unit", "Service", "Install"}


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """As systemd itself says, where it is installed: it knows every setting, and each is in its section."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:  # a machine without systemd: the test above has looked at what matters to us
        return
    file = tmp_path / "holdfast-worker.service"
    text = blocks("ini")[0]
    file.write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={sys.executable}", text, flags=re.MULTILINE))
    done = subprocess.run(
        [analyze, "verify", "--man=no", str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    told = [line for line in done.stderr.splitlines() if file.name in line]
    assert not told


def test_the_actor_on_the_page_is_the_one_that_is_tested() -> None:
    """The block is a piece of the example."""
    example = (ROOT / "examples" / "ray_actor.py").read_text(encoding="utf-8")
    (shown,) = blocks("python")
    assert shown in example

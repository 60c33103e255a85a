"""``holdfast artifacts``: the files that a run made."""

from typing import Final

import click

from holdfast.api.store.store import Store
from holdfast.cli.errors import EXIT_DONE, EXIT_MISUSE, EXIT_REFUSED, RefusedError
from holdfast.cli.options import PlaceArgument, command_builder, common_options, open_existing
from holdfast.cli.output import render
from holdfast.cli.output.blocks import (
    Block,
    Column,
    Commands,
    Gap,
    Heading,
    Mood,
    Span,
    Table,
    Verbatim,
    text,
)
from holdfast.core.lineage.points import parse_place
from holdfast.errors import UnknownArtifact
from holdfast.model.artifacts import Artifact, Restored, Version
from holdfast.views.artifacts import (
    ArtifactLine,
    FileDiff,
    VersionLine,
    artifact_lines,
    changes,
    differs,
    is_whole,
    version_lines,
)
from holdfast.views.json_shape import as_plain
from holdfast.views.next_commands import CommandBuilder
from holdfast.views.value_text import count, moment, size


@click.command()
@click.argument("place", cls=PlaceArgument, metavar="RUN[@POINT]")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Every version of every file. A named PATH always shows its versions.",
)
@click.option("--verify", is_flag=True, help="Exit with 1 unless every file matches its record.")
@click.option("--restore", "to", metavar="DIR", help="Write the files to this directory.")
@click.option("--in-place", is_flag=True, help="Write the files back to their own paths.")
@click.option("--force", is_flag=True, help="Overwrite files that another program changed.")
@click.option(
    "--trust", is_flag=True, help="With --in-place: write an imported run's files to the paths that it names."
)
@click.option("--orphans", "root", metavar="ROOT", help="List files below ROOT that no run has recorded.")
@click.option(
    "--diff",
    "sides",
    nargs=2,
    metavar="A B",
    help="Compare two points of the run, or two versions of a named PATH.",
)
@common_options
def command(
    *,
    place: str,
    paths: tuple[str, ...],
    every: bool,
    verify: bool,
    to: str | None,
    in_place: bool,
    force: bool,
    trust: bool,
    root: str | None,
    sides: tuple[str, str] | None,
    url: str | None,
    as_json: bool,
) -> int:
    """List the files that a run made, restore them, or compare them.

    The list shows the latest version of each file, the step that made it, and whether the file on disk still
    matches. The store has a copy of every version. RUN@#EVENT names the point right after a version.
    Restoring never overwrites a file that another program changed, unless you add --force.

    \b
    Example:
      holdfast artifacts debt-cycles
      holdfast artifacts debt-cycles report.md --diff 1 3
      holdfast artifacts debt-cycles@44 --restore /tmp/then
    """  # noqa: D301 - click's own mark
    chosen = sum([verify, to is not None or in_place, root is not None, sides is not None])
    if chosen > 1 or (to is not None and in_place):
        raise RefusedError(
            "only one of --verify, --restore, --in-place, --orphans and --diff at a time",
            "run it once for each",
            code=EXIT_MISUSE,
        )
    store = open_existing(url)
    if root is not None:
        return _orphans(store, root, as_json=as_json)
    if sides is not None:
        return _diff(store, place, paths, sides, as_json=as_json)
    if to is not None or in_place:
        return _restore(store, place, paths, to, force=force, trust=trust, as_json=as_json)
    if every or (paths and not verify):
        return _history(store, place, paths, command_builder(url), as_json=as_json)
    return _list(store, place, paths, command_builder(url), verify=verify, as_json=as_json)


# -- list ----------------------------------------------------------------------------------------------------

_VERSION: Final = (
    Column("FILE", grows=True),
    Column("VERSION", right=True),
    Column("SIZE", right=True),
    Column("SHA256", drops=3),
    Column("STEP", drops=1),
    Column("AFTER", drops=4),
)
_COLUMNS: Final = (
    *_VERSION,
    Column("EVENT", right=True, drops=5),
    Column("MADE", drops=2),
    Column("ON DISK"),
)
_MOODS: Final[dict[str, Mood]] = {
    "as recorded": "good",
    "changed": "doubt",
    "missing": "bad",
    "an orphan": "doubt",
}


def _list(
    store: Store, place: str, paths: tuple[str, ...], at: CommandBuilder, *, verify: bool, as_json: bool
) -> int:
    found = store.artifacts(place)
    wanted = {store.artifact_versions(place, path)[0].path for path in paths}
    chosen = [artifact for artifact in found if not paths or artifact.version.path in wanted]
    code = EXIT_REFUSED if verify and differs(chosen) else EXIT_DONE
    if as_json:
        render.show_json({"store": store.url, "place": place, "artifacts": as_plain(artifact_lines(chosen))})
        return code
    if not chosen:
        render.show([text(f"no files in {place}; run.artifact(path) or run.open(path, 'w') records them")])
        return code
    lines = artifact_lines(chosen)
    blocks: list[Block] = [Table(_COLUMNS, [_row(line) for line in lines])]
    blocks += _differing(chosen)
    run = parse_place(place).run
    most = max(lines, key=lambda line: line.versions)
    moves = [(at.holdfast("artifacts", run, most.path), "its versions")]
    if differs(chosen):
        moves.append((at.holdfast("artifacts", place, "--in-place"), "restore what was recorded"))
    render.show([*blocks, Gap(), Commands(moves)])
    return code


def _row(line: ArtifactLine) -> tuple[Span, ...]:
    versions = f"{line.version} of {line.versions}" if line.versions > 1 else "1"
    return (
        Span(line.path, "strong"),
        Span(versions),
        Span(size(line.size_bytes)),
        Span(line.sha256[:12], "dim"),
        Span(line.step, "dim"),
        Span(f"point {line.point:,}", "dim"),
        Span(f"#{line.seq}", "dim"),
        Span(moment(line.at), "dim"),
        Span(line.on_disk, _MOODS.get(line.on_disk, "dim")),
    )


def _differing(artifacts: list[Artifact]) -> list[Block]:
    """One warning for each file that differs from its record."""
    rows = [
        (Span(a.version.path, _MOODS.get(a.on_disk, "dim")), Span(f"{a.place} {_said(a)}"))
        for a in artifacts
        if a.text
    ]
    return [Gap(), Table((Column(), Column(grows=True, wraps=True)), rows)] if rows else []


def _said(artifact: Artifact) -> str:
    if artifact.on_disk == "an orphan":
        return f"{artifact.text}: an attempt wrote it and was killed before it could record it"
    return artifact.text


_VERSION_COLUMNS: Final = (
    *_VERSION,
    Column("EVENT", right=True),
    Column("MADE", drops=2),
    Column("COPY"),
)


def _history(store: Store, place: str, paths: tuple[str, ...], at: CommandBuilder, *, as_json: bool) -> int:
    versions = (
        [version for path in paths for version in store.artifact_versions(place, path)]
        if paths
        else store.artifact_versions(place)
    )
    lines = version_lines(versions)
    if as_json:
        render.show_json({"store": store.url, "place": place, "versions": as_plain(lines)})
        return EXIT_DONE
    if not lines:
        render.show([text(f"no files in {place}; run.artifact(path) or run.open(path, 'w') records them")])
        return EXIT_DONE
    blocks: list[Block] = [Table(_VERSION_COLUMNS, [_version_row(line) for line in lines])]
    last = lines[-1]
    if last.version > 1:
        numbers = ("--diff", str(last.version - 1), str(last.version))
        blocks += [
            Gap(),
            Commands([(at.holdfast("artifacts", place, last.path, *numbers), "what changed last")]),
        ]
    render.show(blocks)
    return EXIT_DONE


def _version_row(line: VersionLine) -> tuple[Span, ...]:
    return (
        Span(line.path, "strong"),
        Span(str(line.version)),
        Span(size(line.size_bytes)),
        Span(line.sha256[:12], "dim"),
        Span(line.step, "dim"),
        Span(f"point {line.point:,}", "dim"),
        Span(f"#{line.seq}", "dim"),
        Span(moment(line.at), "dim"),
        Span(line.copy, "plain" if line.copy == "kept" else "dim"),
    )


# -- restore -------------------------------------------------------------------------------------------------

_OUTCOME_MOODS: Final[dict[str, Mood]] = {
    "written": "good",
    "kept": "doubt",
    "no copy": "bad",
    "refused": "bad",
}


def _restore(
    store: Store,
    place: str,
    paths: tuple[str, ...],
    to: str | None,
    *,
    force: bool,
    trust: bool,
    as_json: bool,
) -> int:
    found = store.restore_artifacts(place, to, paths=paths, force=force, trust=trust)
    if as_json:
        render.show_json({"store": store.url, "place": place, "files": as_plain(found)})
    elif not found:
        render.show([text(f"no files in {place}")])
    else:
        render.show(restored_blocks(found))
    return EXIT_DONE if is_whole(found) else EXIT_REFUSED


def restored_blocks(found: list[Restored]) -> list[Block]:
    """One line per file: what was done with it."""
    columns = (
        Column("FILE"),
        Column("VERSION", right=True),
        Column("WHAT"),
        Column("WHERE", grows=True, wraps=True),
    )
    rows = [
        (
            Span(one.path, "strong"),
            Span(str(one.number)),
            Span(one.outcome, _OUTCOME_MOODS.get(one.outcome, "dim")),
            Span(f"{one.place}: {one.text}" if one.text else one.place, "dim"),
        )
        for one in found
    ]
    return [Table(columns, rows)]


def _orphans(store: Store, root: str, *, as_json: bool) -> int:
    found = store.orphans(root)
    if as_json:
        render.show_json({"store": store.url, "root": root, "orphans": as_plain(found)})
    elif not found:
        render.show([text(f"every file below {root} is recorded by some run")])
    else:
        columns = (Column("FILE", grows=True), Column("SIZE", right=True), Column("KNOWN OF IT"))
        rows = [(Span(one.place), Span(size(one.size_bytes)), Span(one.text, "doubt")) for one in found]
        render.show(
            [Table(columns, rows), Gap(), text(f"{count(len(found), 'file')} that no run has recorded")]
        )
    return EXIT_DONE


# -- compare -------------------------------------------------------------------------------------------------


def _diff(store: Store, place: str, paths: tuple[str, ...], sides: tuple[str, str], *, as_json: bool) -> int:
    before, after = (_side(store, place, paths, side) for side in sides)
    run = parse_place(place).run
    contents = _contents(store, run, [*before.values(), *after.values()])
    names = tuple(f"version {side}" if paths else f"{run}@{side}" for side in sides)
    found = changes(before, after, contents, (names[0], names[1]))
    if as_json:
        render.show_json({"store": store.url, "place": place, "files": as_plain(found)})
    else:
        render.show(_diff_blocks(found))
    return EXIT_DONE


def _side(store: Store, place: str, paths: tuple[str, ...], side: str) -> dict[str, Version]:
    """The files on one side: that version of the named paths, or else every file as of that point."""
    if not paths:
        at = f"{parse_place(place).run}@{side}"
        return {artifact.version.path: artifact.version for artifact in store.artifacts(at)}
    if not side.isdecimal():
        raise RefusedError(
            f"--diff {side!r} is no version of {paths[0]}",
            "name two versions by their numbers; without a PATH, two points of the run",
            code=EXIT_MISUSE,
        )
    found = {}
    for path in paths:
        known = store.artifact_versions(place, path)
        chosen = next((version for version in known if version.number == int(side)), None)
        if chosen is None:
            raise UnknownArtifact(
                run=parse_place(place).run,
                what=f"{path}, version {side}",
                problem=f"is not there: there are versions {known[0].number} to {known[-1].number}",
            )
        found[chosen.path] = chosen
    return found


def _contents(store: Store, run: str, versions: list[Version]) -> dict[str, bytes]:
    """The contents that can still be read, by hash, each once."""
    found: dict[str, bytes] = {}
    for version in versions:
        if version.copy == "kept" and version.sha256 not in found:
            found[version.sha256] = store.read_version(run, version)
    return found


def _diff_blocks(found: list[FileDiff]) -> list[Block]:
    changed = [one for one in found if one.how != "same"]
    if not changed:
        return [
            text(f"{count(len(found), 'file')}, and all are the same" if found else "no files on either side")
        ]
    blocks: list[Block] = []
    for one in changed:
        blocks += [Gap()] if blocks else []
        blocks.append(Heading(f"{one.path} {one.how}", _sizes(one)))
        blocks.append(Verbatim(one.lines) if one.lines else text(f"  {one.text or 'empty'}", "dim"))
    same = len(found) - len(changed)
    return [*blocks, Gap(), text(f"{count(same, 'other file')} the same", "dim")] if same else blocks


def _sizes(one: FileDiff) -> str:
    told = [
        f"version {side.version}, {size(side.size_bytes)}"
        for side in (one.a, one.b)
        if side.version is not None
    ]
    return " -> ".join(told)

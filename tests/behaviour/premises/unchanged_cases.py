"""Situations in which nothing that a run relies on has changed, though something did: nobody is to be stopped or warned."""

# mypy: disable-error-code="func-returns-value"
# What happens in a scene is told in one expression, often of several things that are done one after the other.

import os
import shutil
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.behaviour.premises.changed_cases import asking, making, relying, tool, tree, workspace
from tests.behaviour.premises.scenario import Scene

import holdfast

INNOCENT: dict[str, Callable[[Scene], Any]] = {}


def innocent(play: Callable[[Scene], Any]) -> Callable[[Scene], Any]:
    INNOCENT[play.__name__] = play
    return play


def nothing(*_: Any) -> None:
    return None


# -- files ---------------------------------------------------------------------------------------------------------


@innocent
def a_file_is_untouched(scene: Scene) -> Any:
    return relying(scene, nothing)


@innocent
def a_file_was_touched(scene: Scene) -> Any:
    return relying(scene, Path.touch)


@innocent
def a_file_was_written_again_as_it_was(scene: Scene) -> Any:
    return relying(scene, lambda path: path.write_text(path.read_text()))


@innocent
def a_file_was_replaced_by_its_copy(scene: Scene) -> Any:
    return relying(scene, lambda path: (shutil.copy(path, "copy"), os.replace("copy", path)))


@innocent
def a_file_was_made_read_only(scene: Scene) -> Any:
    return relying(scene, lambda path: path.chmod(0o444))


@innocent
def a_file_got_a_second_name(scene: Scene) -> Any:
    return relying(scene, lambda path: os.link(path, "second"))


@innocent
def a_neighbour_was_edited(scene: Scene) -> Any:
    return relying(scene, lambda path: path.with_name("other.csv").write_text("x"))


@innocent
def a_log_that_nobody_declared_has_grown(scene: Scene) -> Any:
    scene.write("agent.log", "one\n")
    return relying(scene, lambda _: scene.append("agent.log", "two\n"))


@innocent
def a_link_is_still_a_link(scene: Scene) -> Any:
    scene.write("v1", "one")
    (scene.place / "latest").symlink_to("v1")
    scene.attempt(lambda run, _: run.depends_on("latest"))
    (scene.place / "v1").touch()
    return scene.resume()


@innocent
def a_file_was_put_back_as_it_was(scene: Scene) -> Any:
    scene.write("data.csv", "one")
    scene.attempt(lambda run, _: run.depends_on("data.csv"))
    scene.write("data.csv", "two")
    assert scene.resume()
    scene.write("data.csv", "one")
    return scene.resume()


@innocent
def a_changed_file_was_accepted(scene: Scene) -> Any:
    scene.write("data.csv", "one")
    scene.attempt(lambda run, _: run.depends_on("data.csv"))
    scene.write("data.csv", "two")
    scene.store.accept_premise(scene.run, "file:data.csv")
    return scene.resume()


@innocent
def a_missing_file_was_accepted(scene: Scene) -> Any:
    path = scene.write("data.csv", "one")
    scene.attempt(lambda run, _: run.depends_on("data.csv"))
    path.unlink()
    scene.store.accept_premise(scene.run, "file:data.csv")
    return scene.resume() + scene.resume()


@innocent
def a_warning_is_given_once(scene: Scene) -> Any:
    scene.write("data.csv", "one")
    scene.attempt(lambda run, _: run.depends_on("data.csv", on_change="warn"))
    scene.write("data.csv", "two")
    assert scene.resume()
    return scene.resume()


@innocent
def a_file_that_the_run_rewrites_and_declares_again(scene: Scene) -> Any:
    scene.write("data.csv", "one")

    def work(run: holdfast.Run, _: Any) -> None:
        run.depends_on("data.csv")
        run.step("rewrite", scene.write, "data.csv", "two")
        run.depends_on("data.csv")

    scene.attempt(work)
    return scene.resume(work)


@innocent
def a_file_that_the_run_makes_its_own(scene: Scene) -> Any:
    scene.write("data.csv", "one")

    def work(run: holdfast.Run, _: Any) -> None:
        run.depends_on("data.csv")
        run.step("rewrite", scene.write, "data.csv", "two")
        run.artifact("data.csv")

    scene.attempt(work)
    return scene.resume(work)


@innocent
def an_artifact_that_grows_with_every_attempt(scene: Scene) -> Any:
    def work(run: holdfast.Run, _: Any) -> None:
        for number in range(run.attempt):
            run.step("add", scene.write, "report.md", f"part {number}")
            run.artifact("report.md")

    scene.attempt(work)
    return scene.resume(work) + scene.resume(work)


@innocent
def an_artifact_is_untouched(scene: Scene) -> Any:
    return making(scene, nothing)


@innocent
def an_artifact_was_touched(scene: Scene) -> Any:
    return making(scene, Path.touch)


@innocent
def a_file_of_the_workspace_is_untouched(scene: Scene) -> Any:
    return workspace(scene, nothing)


@innocent
def another_file_of_the_workspace_was_edited(scene: Scene) -> Any:
    return workspace(scene, lambda path: path.with_name("mine.md").write_text("hello"))


# -- directories ---------------------------------------------------------------------------------------------------


@innocent
def a_directory_is_untouched(scene: Scene) -> Any:
    return tree(scene, nothing)


@innocent
def the_files_of_a_directory_were_touched(scene: Scene) -> Any:
    return tree(scene, lambda folder: [path.touch() for path in folder.rglob("*")])


@innocent
def a_directory_was_copied_and_put_back(scene: Scene) -> Any:
    return tree(
        scene,
        lambda folder: (shutil.copytree(folder, "copy"), shutil.rmtree(folder), os.rename("copy", folder)),
    )


@innocent
def python_has_cached_its_bytecode_in_a_directory(scene: Scene) -> Any:
    return tree(scene, lambda _: scene.write("corpus/__pycache__/a.pyc", "x"))


@innocent
def a_directory_is_under_version_control(scene: Scene) -> Any:
    return tree(scene, lambda _: scene.write("corpus/.git/index", "x"))


@innocent
def a_directory_holds_the_store_itself(scene: Scene) -> Any:
    return tree(scene, lambda _: scene.write("corpus/.holdfast/runs.db-wal", "x"))


# -- endpoints -----------------------------------------------------------------------------------------------------


@innocent
def an_endpoint_is_there(scene: Scene) -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        scene.attempt(lambda run, _: run.depends_on(f"http://127.0.0.1:{server.getsockname()[1]}"))
        return scene.resume()


@innocent
def an_endpoint_was_restarted(scene: Scene) -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        scene.attempt(lambda run, _: run.depends_on(f"http://127.0.0.1:{port}"))
    with socket.create_server(("127.0.0.1", port)):
        return scene.resume()


@innocent
def the_password_of_an_endpoint_was_changed(scene: Scene) -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}/db"
        scene.attempt(lambda run, _: run.depends_on(f"postgresql://me:secret1@{place}"))
        found = scene.resume(lambda run, _: run.depends_on(f"postgresql://me:secret2@{place}"))
    assert not any(b"secret" in event.body for event in scene.store.events(scene.run))
    return found


# -- code ----------------------------------------------------------------------------------------------------------


@innocent
def code_is_untouched(scene: Scene) -> Any:
    return tool(scene, "", "")


@innocent
def a_comment_was_edited(scene: Scene) -> Any:
    return tool(scene, "# twice", "# two times, as agreed")


@innocent
def a_docstring_was_edited(scene: Scene) -> Any:
    return tool(scene, '"""Compare it with the others."""', '"""Compare it,\n\n    and say so.\n    """')


@innocent
def a_docstring_was_removed(scene: Scene) -> Any:
    return tool(scene, '    """Compare it with the others."""\n', "")


@innocent
def blanks_were_changed(scene: Scene) -> Any:
    return tool(scene, "total = len(country) * 2", "total  =  len( country )*2")


@innocent
def a_line_was_broken(scene: Scene) -> Any:
    return tool(scene, '["debt", "cycles"]', '[\n        "debt",\n        "cycles"\n    ]')


@innocent
def blank_lines_were_added(scene: Scene) -> Any:
    return tool(scene, "    if total > 2:", "\n\n    if total > 2:\n")


@innocent
def the_indentation_was_changed(scene: Scene) -> Any:
    return tool(scene, "        return f", "          return f")


@innocent
def a_function_was_moved(scene: Scene) -> Any:
    return tool(scene, "RATE = 3\n", "RATE = 3\n" + "\n" * 40)


@innocent
def a_function_was_moved_behind_another(scene: Scene) -> Any:
    text = (scene.place / "agent.py").read_text()
    moved = text[text.index("def compare") : text.index("def untouched")]
    scene.attempt(nothing)
    scene.write("agent.py", text.replace(moved, "").replace("def main", moved + "def main"))
    return scene.resume()


@innocent
def another_function_was_edited(scene: Scene) -> Any:
    return tool(scene, "return number", "return number + 1")


@innocent
def a_constant_beside_it_was_changed(scene: Scene) -> Any:
    """What a function reads from its module is not its source; the guide says so."""
    return tool(scene, "RATE = 3", "RATE = 4")


@innocent
def an_import_was_added(scene: Scene) -> Any:
    return tool(scene, "import holdfast", "import os\nimport holdfast")


@innocent
def how_a_tool_is_retried_was_changed(scene: Scene) -> Any:
    return tool(
        scene,
        '@holdfast.tool(effect="read")\ndef search',
        '@holdfast.tool(effect="read", retries=2)\ndef search',
    )


@innocent
def annotations_became_texts(scene: Scene) -> Any:
    return tool(scene, "import holdfast", "from __future__ import annotations\nimport holdfast")


@innocent
def another_tool_was_changed(scene: Scene) -> Any:
    return tool(scene, "def lookup(name: str) -> str:", "def lookup(name: str, deep: bool = False) -> str:")


@innocent
def a_tool_was_added(scene: Scene) -> Any:
    return tool(
        scene,
        "def main(run):\n",
        "@holdfast.tool\ndef fresh() -> int:\n    return 1\n\n\ndef main(run):\n    fresh()\n",
    )


@innocent
def a_step_was_added(scene: Scene) -> Any:
    return tool(scene, "def main(run):\n", 'def main(run):\n    run.step("untouched", untouched, 1)\n')


@innocent
def a_lambda_was_edited(scene: Scene) -> Any:
    """Nobody can tell one from another: it is not known."""
    scene.attempt(lambda run, _: run.step("inline", lambda: 1))
    return scene.resume(lambda run, _: run.step("inline", lambda: 2))


@innocent
def a_builtin_is_called(scene: Scene) -> Any:
    scene.attempt(lambda run, _: run.step("upper", str.upper, "a"))
    return scene.resume(lambda run, _: run.step("upper", str.upper, "b"))


@innocent
def code_that_is_in_no_file(scene: Scene) -> Any:
    def work(run: holdfast.Run, number: int) -> None:
        space: dict[str, Any] = {}
        exec(f"def made(): return {number}", space)
        run.step("made", space["made"])

    scene.attempt(lambda run, _: work(run, 1))
    return scene.resume(lambda run, _: work(run, 2))


@innocent
def two_functions_under_one_name_take_turns(scene: Scene) -> Any:
    def work(run: holdfast.Run, program: Any) -> None:
        for number in range(run.attempt):
            run.step("both", program.untouched, number)
            run.step("both", program.compare, str(number))

    scene.attempt(lambda run, program: run.step("both", program.untouched, 0))
    return scene.resume(work) + scene.resume(work)


@innocent
def two_methods_of_the_same_name_take_turns(scene: Scene) -> Any:
    def work(run: holdfast.Run, program: Any) -> None:
        for number in range(run.attempt):
            run.step("go", program.Second().go, number)
            run.step("go", program.First().go, -number - 10)

    scene.attempt(lambda run, program: run.step("go", program.Second().go, 0))
    return scene.resume(work) + scene.resume(work)


@innocent
def bound_methods_and_partials(scene: Scene) -> Any:
    def work(run: holdfast.Run, program: Any) -> None:
        run.step("partial", partial(program.untouched, run.attempt))
        run.step("method", run.id.upper)

    scene.attempt(work)
    return scene.resume(work)


@innocent
def the_program_moved_to_another_directory(scene: Scene) -> Any:
    scene.attempt(nothing)
    (scene.place / "agent.py").rename(scene.place / "old.py")
    os.makedirs(scene.place / "v2")
    text = (scene.place / "old.py").read_text()
    (scene.place / "old.py").unlink()
    scene.place = scene.place / "v2"
    scene.write("agent.py", text)
    return scene.resume()


# -- models, packages, time ------------------------------------------------------------------------------------------


@innocent
def the_same_model_is_asked(scene: Scene) -> Any:
    return asking(scene, "gpt-4o", "openai")


@innocent
def a_model_that_was_asked_before(scene: Scene) -> Any:
    def work(*models: str) -> Callable[[holdfast.Run, Any], object]:
        return lambda run, _: [
            run.model("chat", lambda _: "hm", {"prompt": f"{run.attempt} {model}"}, model=model)
            for model in models
        ]

    scene.options = {"on_drift": "warn"}
    scene.attempt(work("gpt-4o", "smollm2"))
    return scene.resume(work("smollm2"))


@innocent
def an_unrelated_package_was_upgraded(scene: Scene) -> Any:
    fake: Any = ModuleType("unrelated")
    sys.modules["unrelated"] = fake
    try:
        fake.__version__ = "1"
        scene.attempt(nothing)
        fake.__version__ = "2"
        return scene.resume()
    finally:
        del sys.modules["unrelated"]


@innocent
def a_package_is_new(scene: Scene) -> Any:
    scene.attempt(nothing)
    sys.modules["vllm"] = fake = ModuleType("vllm")
    fake.__version__ = "1"  # type: ignore[attr-defined]
    try:
        return scene.resume()
    finally:
        del sys.modules["vllm"]


@innocent
def a_year_has_passed(scene: Scene) -> Any:
    scene.attempt(nothing)
    scene.clock.at += 365 * 86_400
    return scene.resume()


@innocent
def the_clock_was_set_right_by_a_second(scene: Scene) -> Any:
    scene.attempt(nothing)
    scene.clock.at -= 3
    return scene.resume()


# -- runs that went on elsewhere or otherwise ---------------------------------------------------------------------------


def prepared(scene: Scene) -> None:
    scene.write("data.csv", "one")

    def work(run: holdfast.Run, program: Any) -> None:
        run.depends_on("data.csv")
        run.step("draft", scene.write, "report.md", "the draft")
        run.artifact("report.md")
        run.step("untouched", program.untouched, 1)

    scene.attempt(work)


@innocent
def it_is_resumed_again_and_again(scene: Scene) -> Any:
    prepared(scene)
    return scene.resume() + scene.resume() + scene.resume()


@innocent
def it_was_finished_and_is_reopened(scene: Scene) -> Any:
    prepared(scene)
    scene.attempt(nothing, finishes=True)
    scene.options = {"if_finished": "reopen"}
    return scene.resume()


@innocent
def it_was_forked(scene: Scene) -> Any:
    prepared(scene)
    scene.store.fork(scene.run, as_="other")
    scene.run = "other"
    return scene.resume()


@innocent
def it_was_rewound_to_before_it_relied_on_anything(scene: Scene) -> Any:
    prepared(scene)
    scene.store.rewind(f"{scene.run}@1")
    scene.write("data.csv", "two")
    return scene.resume()


@innocent
def it_was_exported_and_imported_beside_its_files(scene: Scene) -> Any:
    prepared(scene)
    scene.store.export(scene.run, "job.holdfast")
    scene.url = f"sqlite:///{scene.place.parent}/imported.db"
    there = holdfast.store(scene.url)
    there._session.clock = scene.clock
    scene.run = there.import_("job.holdfast").run
    return scene.resume()


@innocent
def it_was_moved_together_with_its_directory(scene: Scene) -> Any:
    prepared(scene)
    moved = scene.place.with_name("moved")
    os.rename(scene.place, moved)
    os.chdir(moved)
    scene.place = moved
    # The plan from outside looks where the last attempt was; the attempt looks where it is.
    plan, scene.planned = scene.planned, list  # type: ignore[method-assign]
    try:
        return scene.resume()
    finally:
        scene.planned = plan  # type: ignore[method-assign]


@innocent
def it_is_resumed_from_another_directory(scene: Scene) -> Any:
    prepared(scene)
    os.chdir(scene.place.parent)
    return scene.resume()


# -- effects and policies -----------------------------------------------------------------------------------------------


@innocent
def an_effect_is_done(scene: Scene) -> Any:
    def work(run: holdfast.Run, _: Any) -> None:
        run.once("pay", str.upper, "Ada")

    scene.attempt(work)
    return scene.resume(work)


@innocent
def a_read_was_cut_off(scene: Scene) -> Any:
    def cut() -> None:
        raise KeyboardInterrupt

    try:
        scene.attempt(lambda run, _: run.step("read", cut))
    except KeyboardInterrupt:
        return scene.resume(lambda run, _: run.step("read", str))
    raise AssertionError


@innocent
def a_change_that_is_to_be_ignored(scene: Scene) -> Any:
    scene.options = {"premises": {"source": "ignore"}}
    scene.attempt(nothing)
    scene.edit("* 2  # twice", "* 3  # twice")
    plan, scene.planned = scene.planned, list  # type: ignore[method-assign]  # it shows what is ignored, too
    assert {found.act for found in plan()} == {"ignore"}
    return scene.resume()

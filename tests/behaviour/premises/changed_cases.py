"""Situations in which a resumed run must be told, or stopped: something that it relies on is not what it was."""

# mypy: disable-error-code="func-returns-value"
# What happens in a scene is told in one expression, often of several things that are done one after the other.

import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.behaviour.premises.scenario import Scene

import holdfast

Situation = Callable[[Scene], tuple[list[Any], str]]
TAMPERED: dict[str, Situation] = {}
"""By name: plays the scene; what was found, and what should be: ``file:data.csv changed pause``."""


def tampered(expected: str) -> Callable[[Callable[[Scene], Any]], Callable[[Scene], Any]]:
    def note(play: Callable[[Scene], Any]) -> Callable[[Scene], Any]:
        TAMPERED[play.__name__] = lambda scene: (play(scene), expected)
        return play

    return note


def relying(scene: Scene, tamper: Callable[[Path], object], name: str = "data.csv", **options: Any) -> Any:
    """The run depends on a file; something happens to it."""
    path = scene.write(name, "debt,year\n1,2\n")
    scene.attempt(lambda run, _: run.depends_on(name, **options))
    tamper(path)
    return scene.resume()


def making(scene: Scene, tamper: Callable[[Path], object]) -> Any:
    """The run has made a file; something happens to it."""

    def work(run: holdfast.Run, _: Any) -> None:
        run.step("draft", scene.write, "report.md", "the draft")
        run.artifact("report.md")

    scene.attempt(work)
    tamper(scene.place / "report.md")
    return scene.resume()


# -- files ---------------------------------------------------------------------------------------------------------

FILE = "file:data.csv changed pause"
GONE = "file:data.csv missing pause"


@tampered(FILE)
def a_file_was_edited(scene: Scene) -> Any:
    return relying(scene, lambda path: path.write_text("debt,year\n9,2\n9"))


@tampered(FILE)
def a_file_was_truncated(scene: Scene) -> Any:
    return relying(scene, lambda path: os.truncate(path, 4))


@tampered(FILE)
def a_file_was_emptied(scene: Scene) -> Any:
    return relying(scene, lambda path: path.write_bytes(b""))


@tampered(FILE)
def a_line_was_added(scene: Scene) -> Any:
    return relying(scene, lambda path: scene.append("data.csv", "3,4\n"))


@tampered(GONE)
def a_file_was_deleted(scene: Scene) -> Any:
    return relying(scene, Path.unlink)


@tampered(GONE)
def a_file_was_renamed(scene: Scene) -> Any:
    return relying(scene, lambda path: path.rename(path.with_name("data.old.csv")))


@tampered(FILE)
def a_file_became_a_directory(scene: Scene) -> Any:
    return relying(scene, lambda path: (path.unlink(), path.mkdir()))


@tampered(FILE)
def a_file_became_a_link_to_something_else(scene: Scene) -> Any:
    other = scene.write("other.csv", "something else")
    return relying(scene, lambda path: (path.unlink(), path.symlink_to(other)))


@tampered(FILE)
def a_file_became_a_link_to_its_copy(scene: Scene) -> Any:
    return relying(
        scene, lambda path: (shutil.copy(path, "copy.csv"), path.unlink(), path.symlink_to("copy.csv"))
    )


@tampered(GONE)
def a_file_became_a_link_to_nothing(scene: Scene) -> Any:
    return relying(scene, lambda path: (path.unlink(), path.symlink_to("nowhere")))


@tampered(GONE)
def a_file_became_a_link_to_itself(scene: Scene) -> Any:
    return relying(scene, lambda path: (path.unlink(), path.symlink_to(path)))


@tampered(FILE)
def a_file_became_a_pipe(scene: Scene) -> Any:
    return relying(scene, lambda path: (path.unlink(), os.mkfifo(path)))


@tampered(FILE)
def other_bytes_under_the_same_size_and_times(scene: Scene) -> Any:
    return relying(scene, lambda _: scene.secretly("data.csv", "debt,year\n9,2\n"))


@tampered(FILE)
def one_bit_was_flipped_under_the_same_size_and_times(scene: Scene) -> Any:
    return relying(scene, lambda _: scene.secretly("data.csv", "debt,year\n1,3\n"))


@tampered("file:in/data.csv missing pause")
def its_directory_was_removed(scene: Scene) -> Any:
    return relying(scene, lambda path: shutil.rmtree(path.parent), "in/data.csv")


@tampered("file:in/data.csv missing pause")
def its_directory_became_a_file(scene: Scene) -> Any:
    return relying(
        scene, lambda path: (shutil.rmtree(path.parent), path.parent.write_text("x")), "in/data.csv"
    )


@tampered("file changed pause")
def a_file_elsewhere_was_edited(scene: Scene) -> Any:
    path = str(scene.place.parent / f"{scene.place.name}-elsewhere.csv")
    return relying(scene, lambda path: path.write_text("other"), path)


@tampered("file:data.csv changed warn")
def a_file_that_is_only_to_be_warned_about_was_edited(scene: Scene) -> Any:
    return relying(scene, lambda path: path.write_text("other"), on_change="warn")


@tampered("file:data.csv missing warn")
def a_file_that_a_policy_only_warns_about_is_gone(scene: Scene) -> Any:
    scene.options = {"premises": {"file:data.csv": "warn"}}
    return relying(scene, Path.unlink)


@tampered("file:latest changed pause")
def a_link_was_put_elsewhere(scene: Scene) -> Any:
    scene.write("v1", "one")
    scene.write("v2", "two")
    (scene.place / "latest").symlink_to("v1")
    scene.attempt(lambda run, _: run.depends_on("latest"))
    (scene.place / "latest").unlink()
    (scene.place / "latest").symlink_to("v2")
    return scene.resume()


# -- directories ---------------------------------------------------------------------------------------------------


def tree(scene: Scene, tamper: Callable[[Path], object]) -> Any:
    scene.write("corpus/a.txt", "aaa")
    scene.write("corpus/deep/b.txt", "bbb")
    scene.attempt(lambda run, _: run.depends_on("corpus"))
    tamper(scene.place / "corpus")
    return scene.resume()


CORPUS = "file:corpus changed pause"


@tampered(CORPUS)
def a_file_in_a_directory_was_edited(scene: Scene) -> Any:
    return tree(scene, lambda folder: (folder / "a.txt").write_text("aab"))


@tampered(CORPUS)
def a_file_deep_in_a_directory_was_edited_secretly(scene: Scene) -> Any:
    return tree(scene, lambda _: scene.secretly("corpus/deep/b.txt", "bbc"))


@tampered(CORPUS)
def a_file_in_a_directory_was_deleted(scene: Scene) -> Any:
    return tree(scene, lambda folder: (folder / "a.txt").unlink())


@tampered(CORPUS)
def a_file_was_added_to_a_directory(scene: Scene) -> Any:
    return tree(scene, lambda folder: (folder / "c.txt").write_text(""))


@tampered(CORPUS)
def a_file_in_a_directory_was_renamed(scene: Scene) -> Any:
    return tree(scene, lambda folder: (folder / "a.txt").rename(folder / "z.txt"))


@tampered(CORPUS)
def a_directory_became_a_file(scene: Scene) -> Any:
    return tree(scene, lambda folder: (shutil.rmtree(folder), folder.write_text("x")))


# -- artifacts -----------------------------------------------------------------------------------------------------


@tampered("artifact:report.md changed pause")
def an_artifact_was_edited(scene: Scene) -> Any:
    return making(scene, lambda path: path.write_text("another draft"))


@tampered("artifact:report.md changed pause")
def an_artifact_was_edited_secretly(scene: Scene) -> Any:
    return making(scene, lambda _: scene.secretly("report.md", "The draft"))


@tampered("artifact:report.md missing pause")
def an_artifact_was_deleted(scene: Scene) -> Any:
    return making(scene, Path.unlink)


@tampered("artifact:report.md changed pause")
def an_artifact_became_a_directory(scene: Scene) -> Any:
    return making(scene, lambda path: (path.unlink(), path.mkdir()))


@tampered("artifact:data.csv changed pause")
def a_file_that_the_run_has_made_its_own_was_edited(scene: Scene) -> Any:
    path = scene.write("data.csv", "one")

    def work(run: holdfast.Run, _: Any) -> None:
        run.depends_on("data.csv")
        run.step("rewrite", scene.write, "data.csv", "two")
        run.artifact("data.csv")

    scene.attempt(work)
    path.write_text("one")  # as it was before the run: not what it relies on now
    return scene.resume()


@tampered("file:data.csv changed pause")
def a_file_was_edited_although_the_replay_declares_it_again(scene: Scene) -> Any:
    """It was edited after an attempt had looked: noted again on replay, what it holds now would become the premise."""
    path = scene.write("data.csv", "one")
    scene.attempt(lambda run, _: run.depends_on("data.csv"))
    assert not scene.resume(lambda run, _: (path.write_text("two"), run.depends_on("data.csv")))
    return scene.resume()


# -- the workspace -------------------------------------------------------------------------------------------------


def workspace(scene: Scene, tamper: Callable[[Path], object]) -> Any:
    scene.options = {"workspace": scene.place / "desk"}
    scene.write("desk/notes.md", "one")
    scene.attempt(lambda run, _: run.depends_on("desk/notes.md"))
    tamper(scene.place / "desk" / "notes.md")
    return scene.resume()


@tampered("file:desk/notes.md changed warn")
def a_person_edited_a_file_of_the_workspace(scene: Scene) -> Any:
    return workspace(scene, lambda path: path.write_text("one, and a word of mine"))


@tampered("file:desk/notes.md missing pause")
def a_file_of_the_workspace_was_deleted(scene: Scene) -> Any:
    return workspace(scene, Path.unlink)


@tampered("artifact:desk/draft.md changed warn")
def a_person_edited_an_artifact_in_the_workspace(scene: Scene) -> Any:
    scene.options = {"workspace": scene.place / "desk"}
    path = scene.write("desk/draft.md", "one")
    scene.attempt(lambda run, _: run.artifact("desk/draft.md"))
    path.write_text("two")
    return scene.resume()


# -- endpoints -----------------------------------------------------------------------------------------------------


@tampered("endpoint missing pause")
def an_endpoint_is_gone(scene: Scene) -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        scene.attempt(lambda run, _: run.depends_on(url))
    return scene.resume()


@tampered("endpoint missing warn")
def an_endpoint_that_is_only_to_be_warned_about_is_gone(scene: Scene) -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        scene.attempt(lambda run, _: run.depends_on(url, on_change="warn"))
    return scene.resume()


# -- tools ---------------------------------------------------------------------------------------------------------


def tool(scene: Scene, old: str, new: str) -> Any:
    """The run has called a tool; it is declared otherwise now, and the program calls it again."""
    scene.attempt(lambda *_: None)
    scene.edit(old, new)
    return scene.resume()


TOOL = "tool:search changed warn"


@tampered(TOOL)
def an_argument_was_renamed(scene: Scene) -> Any:
    return tool(scene, "search(query: str", "search(question: str")


@tampered(TOOL)
def an_argument_was_removed(scene: Scene) -> Any:
    return tool(scene, "query: str, limit: int = 3", "query: str")


@tampered(TOOL)
def an_argument_was_added(scene: Scene) -> Any:
    scene.edit('search("debt")', 'search(**{"query": "debt", **MORE})\n')
    scene.edit("RATE = 3", "RATE = 3\nMORE = {}")
    scene.attempt(lambda *_: None)
    scene.edit("MORE = {}", 'MORE = {"topic": "IMF"}')
    scene.edit("search(query: str", "search(query: str, topic: str")
    return scene.resume()


@tampered(TOOL)
def an_optional_argument_was_added(scene: Scene) -> Any:
    """Its default is part of every call's identity: recorded calls are not found any more."""
    return tool(scene, "limit: int = 3", "limit: int = 3, safe: bool = True")


@tampered(TOOL)
def a_default_was_changed(scene: Scene) -> Any:
    return tool(scene, "limit: int = 3", "limit: int = 4")


@tampered(TOOL)
def an_annotation_was_changed(scene: Scene) -> Any:
    return tool(scene, "limit: int = 3", "limit: float = 3")


@tampered(TOOL)
def what_it_returns_was_changed(scene: Scene) -> Any:
    return tool(scene, "-> list[str]", "-> list[object]")


@tampered(TOOL)
def an_argument_became_keyword_only(scene: Scene) -> Any:
    return tool(scene, "query: str, limit", "query: str, *, limit")


@tampered(TOOL)
def an_effect_was_changed(scene: Scene) -> Any:
    return tool(
        scene, '@holdfast.tool(effect="read")\ndef search', '@holdfast.tool(effect="idempotent")\ndef search'
    )


@tampered("tool:search changed pause")
def an_effect_was_changed_and_a_policy_pauses(scene: Scene) -> Any:
    scene.options = {"premises": {"tool": "pause"}}
    return tool(scene, '@holdfast.tool(effect="read")\ndef search', "@holdfast.tool\ndef search")


# -- source --------------------------------------------------------------------------------------------------------

SOURCE = "source:compare changed warn"


@tampered(SOURCE)
def a_number_was_changed(scene: Scene) -> Any:
    return tool(scene, "* 2  # twice", "* 3  # twice")


@tampered(SOURCE)
def an_operator_was_changed(scene: Scene) -> Any:
    return tool(scene, "total > 2", "total >= 2")


@tampered(SOURCE)
def a_text_was_changed(scene: Scene) -> Any:
    return tool(scene, '"cycles"', '"crises"')


@tampered(SOURCE)
def a_format_was_changed(scene: Scene) -> Any:
    return tool(scene, "{words!r}", "{words}")


@tampered(SOURCE)
def a_line_was_moved_into_a_block(scene: Scene) -> Any:
    return tool(scene, '\n    return "none"', '\n        return "none"')


@tampered("source:search changed warn")
def the_body_of_a_tool_was_changed(scene: Scene) -> Any:
    return tool(scene, '"twice"', '"once"')


@tampered("source:compare missing warn")
def a_function_was_renamed(scene: Scene) -> Any:
    return tool(scene, "compare", "contrast")


@tampered("source:compare changed pause")
def a_number_was_changed_and_a_policy_pauses(scene: Scene) -> Any:
    scene.options = {"premises": {"source:compare": "pause"}}
    return tool(scene, "* 2  # twice", "* 3  # twice")


# -- models --------------------------------------------------------------------------------------------------------


def asking(scene: Scene, model: str, provider: str) -> Any:
    """The run has asked a model, and now asks again."""

    def ask(run: holdfast.Run, prompt: str, model: str, provider: str) -> None:
        run.model("chat", lambda _: "hm", {"prompt": prompt}, model=model, provider=provider)

    scene.attempt(lambda run, _: ask(run, "one", "gpt-4o", "openai"))
    return scene.resume(
        lambda run, _: (ask(run, "one", "gpt-4o", "openai"), ask(run, "two", model, provider))
    )


@tampered("model:chat changed warn")
def another_model_is_asked(scene: Scene) -> Any:
    return asking(scene, "smollm2", "openai")


@tampered("model:chat changed warn")
def another_provider_is_asked(scene: Scene) -> Any:
    return asking(scene, "gpt-4o", "azure")


@tampered("model:chat changed warn")
def another_model_is_asked_where_one_stands_recorded(scene: Scene) -> Any:
    """It is drift too, and nothing is sent; but why is told first."""

    def ask(model: str) -> Callable[[holdfast.Run, Any], object]:
        return lambda run, _: run.model("chat", lambda _: "hm", {"model": model, "prompt": "one"})

    scene.attempt(ask("gpt-4o"))
    return scene.resume(ask("smollm2"))


# -- packages and time ---------------------------------------------------------------------------------------------


def package(scene: Scene, before: str, after: str | None) -> Any:
    fake: Any = ModuleType("vllm")
    try:
        sys.modules["vllm"] = fake
        fake.__version__ = before
        scene.attempt(lambda *_: None)
        if after is None:
            del sys.modules["vllm"]
        fake.__version__ = after
        return scene.resume()
    finally:
        sys.modules.pop("vllm", None)


@tampered("package:vllm changed warn")
def a_package_was_upgraded(scene: Scene) -> Any:
    return package(scene, "0.6.1", "0.7.0")


@tampered("package:vllm missing warn")
def a_package_was_removed(scene: Scene) -> Any:
    return package(scene, "0.6.1", None)


@tampered("clock:wall changed warn")
def the_clock_was_moved_back(scene: Scene) -> Any:
    scene.attempt(lambda *_: None)
    scene.clock.at -= 3600
    return scene.resume()


# -- effects -------------------------------------------------------------------------------------------------------


@tampered("effect unknown pause")
def an_effect_is_in_doubt(scene: Scene) -> Any:
    def pay(_: str) -> None:
        raise TimeoutError("no answer from the bank")

    def work(run: holdfast.Run, _: Any) -> None:
        run.once("pay", pay, "Ada")

    try:
        scene.attempt(work)
    except holdfast.StepInDoubt:
        return scene.resume(work)
    raise AssertionError

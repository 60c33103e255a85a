"""What a process of some version of the package does, one act a line. Names that versions differ in are not used.

It is a script: it must import no other package of the tests, which know today's version alone.
"""

import sys
from typing import Any

import holdfast

held: list[Any] = []


class Unfinished(Exception):
    """Leaves the run to be resumed."""


def note(number: int) -> int:
    return number


def pay(number: int, *, idempotency_key: str = holdfast.KEY) -> str:
    with open("payments", "a") as file:
        file.write(f"{number}-{idempotency_key}\n")
    return f"paid {number}"


def work(run: Any, upto: int, begun: int = 0) -> list[Any]:
    """Steps, effects and states, as many as asked for; all of what is recorded answers."""
    found: list[Any] = []
    for number in range(begun, upto):
        found += [run.step("note", note, number), run.once("pay", pay, number)]
        run.checkpoint({"found": found, "text": "kelp " * 2000})
    return found


def act(url: str, verb: str, *given: str) -> Any:
    """One act."""
    if verb == "work":  # enter, work up to a number, and leave the run unfinished
        try:
            with holdfast.run(given[0], store=url) as run:
                found = work(run, int(given[1]))
                raise Unfinished
        except Unfinished:
            return len(found)
    if verb == "hold":
        run = holdfast.run(given[0], store=url).open()
        held.append(run)
        return len(work(run, int(given[1])))
    if verb == "more":
        return len(work(held[-1], int(given[1]), int(given[0])))
    if verb == "letgo":
        return held.pop().close()
    store = holdfast.store(url)
    if verb == "runs":
        return sorted(info.run for info in store.runs())
    if verb == "fork":
        store.fork(given[0], as_=given[1])
        return "forked"
    if verb == "prune":
        store.prune()
        return "pruned"
    if verb == "export":
        store.export(given[0], given[1])
        return "exported"
    if verb == "import":
        return store.import_(given[0], as_=given[1]).run
    if verb == "examine":
        return [one.text for one in store.examine() if one.verdict == "failure"]
    raise AssertionError(verb)


def main(url: str) -> None:
    for line in sys.stdin:
        try:
            answer = f"ok {act(url, *line.split())}"
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        print(answer.replace("\n", " "), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

"""The agent that gets killed: an ordinary program that prepares for this only by using ``holdfast``.

It asks a model about each topic, files every finding in a ledger, and sums up. It prints each step it has
passed, so that its parent can tell a replayed step from one that was never reached.
"""

import argparse
import json
import os
from pathlib import Path

import holdfast
from holdfast.cli.demo.model_client import ATTEMPT_HEADER, complete, text_of

GOAL = "Explain how a kelp forest survives a storm"
TOPICS = ("holdfasts", "fronds", "urchins")
PROGRAM = ("plan", *(f"{act} {topic}" for topic in TOPICS for act in ("ask", "file")), "summarise")
"""The steps that the agent passes, in order."""

ANSWER_TOKENS_MAX = 80
ANSWER_TIMEOUT_S = 300.0


def ask(endpoint: str, model: str, topic: str) -> str:
    """One model call. It costs money but changes nothing, so it is a ``read`` step."""
    return _ask(endpoint, model, question_about(topic))


def summarise(endpoint: str, model: str, findings: list[str]) -> str:
    """The last model call."""
    return _ask(endpoint, model, question_of_summary(findings))


def find_in_ledger(ledger: str, topic: str, *, idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    """Whether the ledger has the entry with this key. Called after a kill, when the outcome is unknown."""
    for number, entry in enumerate(read_ledger(Path(ledger)), start=1):
        if entry["key"] == idempotency_key:
            return holdfast.Done(number)
    return holdfast.NotDone(f"no line about {topic} with this key")


# settle_s=0: a file has no messages in flight, so the write of a dead process is visible at once.
@holdfast.tool(effect="once", name="file", verify=find_in_ledger, settle_s=0)
def file_finding(ledger: str, topic: str, finding: str, *, idempotency_key: str = holdfast.KEY) -> int:
    """Append a finding to the ledger, where nothing may stand twice; the number of its line."""
    entry = {"key": idempotency_key, "topic": topic, "finding": finding}
    with Path(ledger).open("ab", buffering=0) as file:
        file.write(json.dumps(entry).encode() + b"\n")
        os.fsync(file.fileno())
    return len(read_ledger(Path(ledger)))


def research(run: holdfast.Run, endpoint: str, model: str, ledger: str) -> str:
    """The complete agent."""
    here = holdfast.ephemeral(endpoint)  # the port may change between attempts; the question stays the same
    run.plan(["ask", "file", "summarise"])
    _passed("plan")
    findings = []
    for topic in TOPICS:
        finding = run.step("ask", ask, here, model, topic)
        _passed(f"ask {topic}")
        file_finding(ledger, topic, finding)
        _passed(f"file {topic}")
        findings.append(finding)
    summary = run.step("summarise", summarise, here, model, findings)
    _passed("summarise")
    return summary


def read_ledger(ledger: Path) -> list[dict[str, str]]:
    """The entries of the ledger; empty if there is no file yet."""
    if not ledger.exists():
        return []
    return [json.loads(line) for line in ledger.read_text().splitlines()]


def question_about(topic: str) -> str:
    """The question to the model about a topic."""
    return f"In one short sentence: what do {topic} mean for a kelp forest in a storm?"


def question_of_summary(findings: list[str]) -> str:
    """The last question to the model."""
    return "Sum these findings up in one short sentence:\n" + "\n".join(
        f"- {finding}" for finding in findings
    )


def _ask(endpoint: str, model: str, question: str) -> str:
    payload = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": ANSWER_TOKENS_MAX,
    }
    headers = {ATTEMPT_HEADER: str(holdfast.current().attempt)}
    return text_of(complete(endpoint, payload, timeout_s=ANSWER_TIMEOUT_S, headers=headers))


def _passed(what: str) -> None:
    print(what, flush=True)


def main() -> None:
    """Start the run, or resume it: the same line does both."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--run", "--store", "--ledger", "--endpoint", "--model"):
        parser.add_argument(option, required=True)
    given = parser.parse_args()
    with holdfast.run(given.run, goal=GOAL, store=given.store) as run:
        run.finish(research(run, given.endpoint, given.model, given.ledger))


if __name__ == "__main__":
    main()

"""The agent that gets killed: an ordinary program, with nothing in it that prepares for that but ``holdfast``.

It asks a model about each topic, files every finding in a ledger, and sums up. It prints what it got past, so that
whoever watches can tell a replayed step from one that was never reached.
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
"""What the agent gets past, in order."""

ANSWER_TOKENS_MAX = 80
ANSWER_TIMEOUT_S = 300.0


def ask(endpoint: str, model: str, topic: str) -> str:
    """One model call. Asking costs money but changes nothing: a ``read`` step."""
    return _ask(endpoint, model, question_about(topic))


def summarise(endpoint: str, model: str, findings: list[str]) -> str:
    """The last model call."""
    return _ask(endpoint, model, question_of_summary(findings))


def find_in_ledger(ledger: str, topic: str, *, idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    """Whether the entry with this key stands in the ledger: asked after a kill, when nobody knows."""
    for number, entry in enumerate(read_ledger(Path(ledger)), start=1):
        if entry["key"] == idempotency_key:
            return holdfast.Done(number)
    return holdfast.NotDone(f"no line about {topic} with this key")


# settle_s=0: what a dead process wrote to a file is there at once, nothing can be on its way any more.
@holdfast.tool(effect="once", name="file", verify=find_in_ledger, settle_s=0)
def file_finding(ledger: str, topic: str, finding: str, *, idempotency_key: str = holdfast.KEY) -> int:
    """Append a finding to the ledger, where nothing may stand twice; the number of its line."""
    entry = {"key": idempotency_key, "topic": topic, "finding": finding}
    with Path(ledger).open("ab", buffering=0) as file:
        file.write(json.dumps(entry).encode() + b"\n")
        os.fsync(file.fileno())
    return len(read_ledger(Path(ledger)))


def research(run: holdfast.Run, endpoint: str, model: str, ledger: str) -> str:
    """The whole agent."""
    here = holdfast.ephemeral(endpoint)  # another port is not another question
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
    """The entries of the ledger; none where there is no file yet."""
    if not ledger.exists():
        return []
    return [json.loads(line) for line in ledger.read_text().splitlines()]


def question_about(topic: str) -> str:
    """What the model is asked about a topic."""
    return f"In one short sentence: what do {topic} mean for a kelp forest in a storm?"


def question_of_summary(findings: list[str]) -> str:
    """What the model is asked in the end."""
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
    """Start the run, or go on with it: the same line."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--run", "--store", "--ledger", "--endpoint", "--model"):
        parser.add_argument(option, required=True)
    given = parser.parse_args()
    with holdfast.run(given.run, goal=GOAL, store=given.store) as run:
        run.finish(research(run, given.endpoint, given.model, given.ledger))


if __name__ == "__main__":
    main()

"""Decides whether a premise still holds, and what to do, from what was noted and what was found.

If a file, artifact or endpoint that the run relies on changed or is gone, the run pauses, because a model
that continues would invent what is missing. Code, packages and models change with every deploy: the run warns
and continues. A file in the run's workspace that a person edited is a contribution: the run warns too. What
cannot be checked is unknown and stops nothing.
"""

from collections.abc import Mapping
from typing import Final

from holdfast.core.journal.event_check import UNSOUND
from holdfast.core.premises.source_change import judge_source
from holdfast.core.text.times import moment
from holdfast.errors import Misuse
from holdfast.limits import CLOCK_BACK_S
from holdfast.model.premises import (
    ACTS,
    KINDS,
    Act,
    Facts,
    Judged,
    Observation,
    Policies,
    Premise,
    Verdict,
)

_RELIED_ON: Final = frozenset({"file", "artifact", "endpoint"})
"""Kinds that pause the run by default."""
_GOVERNED: Final = tuple(kind for kind in KINDS if kind != "effect")
"""Kinds that ``premises=`` can set a policy for.

The tool of an effect declares what to do with it in doubt.
"""
_DIGEST_CHARS: Final = 12
NOTHING: Final[Facts] = {"is": "nothing"}
"""The facts of a path where nothing exists."""


def judge(premise: Premise, observation: Observation) -> Judged:
    """Compare a premise with what was found. ``act_on`` decides what to do about it."""
    # The run continued without the file, and the file is still gone.
    if observation.is_gone and is_absence(premise):
        return Judged(premise, "holds", None, "")
    if observation.facts is None:
        verdict: Verdict = "missing" if observation.is_gone else "unknown"
        return Judged(premise, verdict, None, observation.problem)
    if premise.facts is None:  # a person accepted any content
        return Judged(premise, "holds", observation.facts, "is taken as it is")
    try:
        verdict, text = _COMPARISONS[premise.kind](premise.facts, observation.facts)
    except UNSOUND:  # imported facts can have any shape
        return Judged(premise, "unknown", observation.facts, "what is recorded of it makes no sense")
    return Judged(premise, verdict, observation.facts, text)


def act_on(judged: Judged, policies: Mapping[str, Act]) -> Judged:
    """Add what to do: by the policy of this premise or of its kind, or by default."""
    if not is_broken(judged):
        return judged._replace(act="ignore")
    return judged._replace(act=_policy(judged.premise, policies) or _default(judged))


def orphaned(premise: Premise, found: Facts, attempt: int, policies: Mapping[str, Act]) -> Judged:
    """Judge a file whose attempt moved it into place and was killed before it recorded it. It only warns."""
    text = f"was written by attempt {attempt}, which was killed before it could record it: an orphan"
    return Judged(premise, "changed", found, text, _policy(premise, policies) or "warn")


def is_absence(premise: Premise) -> bool:
    """Whether the premise is that nothing exists: the file was gone, and that was accepted."""
    return (premise.facts or {}).get("is") == "nothing"


def is_broken(judged: Judged) -> bool:
    """Whether the premise is known not to hold."""
    return judged.verdict in {"changed", "missing"}


def check_policies(policies: Mapping[str, str] | None) -> Policies:
    """The policies of ``premises=``. Raises Misuse for an unknown kind or act."""
    for name, act in (policies or {}).items():
        if name.partition(":")[0] not in _GOVERNED:
            raise Misuse(
                problem=f"premises={{{name!r}: …}}: no such premises can be governed here",
                advice=f"name a kind ({', '.join(_GOVERNED)}), or one premise like 'file:data.csv'",
            )
        check_act(f"premises={{{name!r}: …}}", act)
    return dict(policies or {})  # type: ignore[arg-type]  # just checked


def check_act(what: str, act: object) -> None:
    """Raise Misuse if this is no act on a premise."""
    if act not in ACTS:
        raise Misuse(problem=f"{what} says {act!r}", advice=f"use one of {', '.join(ACTS)}")


def _policy(premise: Premise, policies: Mapping[str, Act]) -> Act | None:
    """The most specific policy: of this very premise, of its declaration, or of its kind."""
    step = premise.name.partition(" (")[0] if premise.kind == "source" else premise.name
    return (
        policies.get(premise.id)
        or policies.get(f"{premise.kind}:{step}")
        or premise.policy
        or policies.get(premise.kind)
    )


def _default(judged: Judged) -> Act:
    if judged.premise.kind not in _RELIED_ON:
        return "warn"
    noted = judged.premise.facts or {}
    # A person edited a file in the workspace, or a missing file is back: the agent should know, and can
    # continue.
    is_news = judged.verdict == "changed" and (noted.get("workspace") or noted.get("is") == "nothing")
    return "warn" if is_news else "pause"


# -- by kind: the verdict, and its text ----------------------------------------------------------------------


def _place(noted: Facts, found: Facts) -> tuple[Verdict, str]:
    was, now = noted["is"], found["is"]
    if was != now:
        return (
            "changed",
            "is there now" if was == "nothing" else f"is {_NOUNS[now]} now and was {_NOUNS[was]}",
        )
    if bool(noted.get("link")) != bool(found.get("link")):
        return "changed", f"is {'a' if found.get('link') else 'no'} symbolic link now"
    if was == "nothing" or (noted.get("sha256") and noted["sha256"] == found.get("sha256")):
        return "holds", ""
    if noted.get("sha256") or found.get("sha256") or noted.get("bytes") != found.get("bytes"):
        return "changed", f"has changed: {_content(found)}, and was {_content(noted)}"
    return "unknown", "is too large to be compared, or holds nothing that can be"


_NOUNS: Final = {
    "file": "a file",
    "directory": "a directory",
    "other": "neither file nor directory",
    "nothing": "not there",
}


def _content(facts: Facts) -> str:
    if "bytes" not in facts:
        return "too large to be compared"
    from holdfast.core.text.value_text import count

    digest = f", sha256 {facts['sha256'][:_DIGEST_CHARS]}" if facts.get("sha256") else ""
    return f"{count(facts['bytes'], 'byte')}{digest}"


def _endpoint(noted: Facts, found: Facts) -> tuple[Verdict, str]:  # noqa: ARG001 - that it answered is enough
    return "holds", ""


def _tool(noted: Facts, found: Facts) -> tuple[Verdict, str]:
    changes = [
        f"{what} was {noted[name]} and is {found[name]}"
        for name, what in (("effect", "its effect"), ("signature", "its signature"))
        if noted[name] != found[name]
    ]
    return ("changed", "is declared otherwise: " + "; ".join(changes)) if changes else ("holds", "")


def _model(noted: Facts, found: Facts) -> tuple[Verdict, str]:
    now = [found["model"], found["provider"]]
    if now in noted["asked"]:
        return "holds", ""
    return "changed", f"asks {_model_name(now)} now and asked {' or '.join(map(_model_name, noted['asked']))}"


def _model_name(asked: list[str]) -> str:
    model, provider = asked
    return f"{model or 'a model'}{' of ' if provider else ''}{provider}"


def _package(noted: Facts, found: Facts) -> tuple[Verdict, str]:
    if noted["version"] == found["version"]:
        return "holds", ""
    return "changed", f"is {found['version']} now and was {noted['version']}"


def _clock(noted: Facts, found: Facts) -> tuple[Verdict, str]:
    if found["at"] >= noted["at"] - CLOCK_BACK_S:
        return "holds", ""
    return "changed", f"shows {moment(found['at'])}, and the last record was made at {moment(noted['at'])}"


_COMPARISONS: Final = {
    "file": _place,
    "artifact": _place,
    "endpoint": _endpoint,
    "tool": _tool,
    "source": judge_source,
    "model": _model,
    "package": _package,
    "clock": _clock,
}

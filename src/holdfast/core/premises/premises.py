"""Whether a premise still holds, and what follows: decided from what was noted and what was found, never from a feeling.

What the run made or was told to rely on must be as it was: changed or gone, it pauses, because a model that goes on
would fill the gap. Code, packages and models move on with every deploy: that is told, and the run goes on. What cannot be told
is said to be unknown, and stops nobody. A file in the run's workspace that somebody edited is somebody's contribution: told too.
"""

from collections.abc import Mapping
from typing import Final

from holdfast.core.journal.event_check import UNSOUND
from holdfast.core.text.times import moment
from holdfast.core.text.value_text import count
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
"""Kinds that pause by themselves."""
_GOVERNED: Final = tuple(kind for kind in KINDS if kind != "effect")
"""What becomes of an effect in doubt, its tool declares."""
_DIGEST_CHARS: Final = 12
NOTHING: Final[Facts] = {"is": "nothing"}
"""The facts of what is not there."""


def judge(premise: Premise, observation: Observation) -> Judged:
    """What became of a premise, given what was found. What follows is for ``act_on`` to say."""
    if observation.is_gone and is_absence(premise):
        return Judged(premise, "holds", None, "")
    if observation.facts is None:
        verdict: Verdict = "missing" if observation.is_gone else "unknown"
        return Judged(premise, verdict, None, observation.problem)
    if premise.facts is None:  # somebody has accepted whatever there would be
        return Judged(premise, "holds", observation.facts, "is taken as it is")
    try:
        verdict, text = _COMPARISONS[premise.kind](premise.facts, observation.facts)
    except UNSOUND:  # facts that came from elsewhere, and that nobody here would have noted like this
        return Judged(premise, "unknown", observation.facts, "what is recorded of it makes no sense")
    return Judged(premise, verdict, observation.facts, text)


def act_on(judged: Judged, policies: Mapping[str, Act]) -> Judged:
    """The same with what follows: by what was said of this premise, of its kind, or by default."""
    if not is_broken(judged):
        return judged._replace(act="ignore")
    return judged._replace(act=_policy(judged.premise, policies) or _default(judged))


def orphaned(premise: Premise, found: Facts, attempt: int, policies: Mapping[str, Act]) -> Judged:
    """A file that an attempt put in its place and was killed before it could record: told, and no reason to stop."""
    text = f"was written by attempt {attempt}, which was killed before it could record it: an orphan"
    return Judged(premise, "changed", found, text, _policy(premise, policies) or "warn")


def is_absence(premise: Premise) -> bool:
    """Whether what the run relies on is that there is nothing: somebody knows, and lets it go on."""
    return (premise.facts or {}).get("is") == "nothing"


def is_broken(judged: Judged) -> bool:
    """Whether it is known not to hold."""
    return judged.verdict in {"changed", "missing"}


def check_policies(policies: Mapping[str, str] | None) -> Policies:
    """The policies that ``premises=`` gives. Misuse if they cannot be."""
    for name, act in (policies or {}).items():
        if name.partition(":")[0] not in _GOVERNED:
            raise Misuse(
                problem=f"premises={{{name!r}: …}}: no such premises can be governed here",
                advice=f"name a kind ({', '.join(_GOVERNED)}), or one premise like 'file:data.csv'",
            )
        check_act(f"premises={{{name!r}: …}}", act)
    return dict(policies or {})  # type: ignore[arg-type]  # just checked


def check_act(what: str, act: object) -> None:
    """Refuse what is nothing to do about a premise."""
    if act not in ACTS:
        raise Misuse(problem=f"{what} says {act!r}", advice=f"use one of {', '.join(ACTS)}")


def _policy(premise: Premise, policies: Mapping[str, Act]) -> Act | None:
    """The most particular word: about this very premise, in its declaration, about its kind."""
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
    # Somebody wrote into the workspace, or what was missing has come back: the agent is to know, and can go on.
    is_news = judged.verdict == "changed" and (noted.get("workspace") or noted.get("is") == "nothing")
    return "warn" if is_news else "pause"


# -- kind by kind: the verdict, and what is to be said of it ------------------------------------------------------


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
    digest = f", sha256 {facts['sha256'][:_DIGEST_CHARS]}" if facts.get("sha256") else ""
    return f"{count(facts['bytes'], 'byte')}{digest}"


def _endpoint(noted: Facts, found: Facts) -> tuple[Verdict, str]:  # noqa: ARG001 - it is there, which is all
    return "holds", ""


def _tool(noted: Facts, found: Facts) -> tuple[Verdict, str]:
    told = [
        f"{what} was {noted[name]} and is {found[name]}"
        for name, what in (("effect", "its effect"), ("signature", "its signature"))
        if noted[name] != found[name]
    ]
    return ("changed", "is declared otherwise: " + "; ".join(told)) if told else ("holds", "")


def _source(noted: Facts, found: Facts) -> tuple[Verdict, str]:
    if noted["hash"] == found["hash"]:
        return "holds", ""
    return "changed", f"is other code now: {found['function']} in {found['file']}"


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
    "source": _source,
    "model": _model,
    "package": _package,
    "clock": _clock,
}

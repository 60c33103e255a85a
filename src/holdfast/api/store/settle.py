"""The part of a store handle that talks to runs: resolutions, answers, cancellations, accepted premises.

It posts letters to inboxes, because only the holder writes to a journal. Only a run without a holder is
cancelled at once, under its lease. After posting, methods check again that the run was not moved away
meanwhile: the letter might have stayed behind.
"""

import getpass
import os
from collections.abc import Mapping
from typing import Any, Literal

from orjson import dumps, loads

from holdfast.api.store.read_runs import Reading
from holdfast.codec.blobs import address_of
from holdfast.codec.exceptions import encode_failure
from holdfast.codec.values import encode
from holdfast.core.journal.lineage import effective
from holdfast.core.journal.names import check_name
from holdfast.core.journal.recorded_calls import doubtful
from holdfast.core.people.questions import UnfitError, fit, offered, plain_of, told_end
from holdfast.core.premises.noted_premises import PREMISES
from holdfast.core.premises.premises import NOTHING
from holdfast.core.text.times import moment
from holdfast.engine.journal import inbox
from holdfast.engine.journal.journal import read_all
from holdfast.engine.run.cancel import cancel
from holdfast.engine.run.entry import Entry
from holdfast.engine.run.open import queue
from holdfast.engine.run.sealed import check_may_act
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.errors import (
    AlreadyAnswered,
    AlreadyResolved,
    BadAnswer,
    Misuse,
    QuestionExpired,
    RunOver,
    UnknownStep,
)
from holdfast.limits import STEP_NAME_CHARS_MAX
from holdfast.model.calls import Call
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind
from holdfast.model.premises import Premise
from holdfast.model.recorded_command import Command
from holdfast.model.run_info import Doubt, OpenQuestion, RunInfo, UnclaimedEffect
from holdfast.model.store_rows import OVER

How = Literal["done", "retry", "failed", "abandon", "same", "new"]


class Settling(Reading):
    """The part of a store handle that talks to runs."""

    def resolve(
        self,
        run: str,
        step: str,
        how: How,
        *,
        value: Any = None,
        message: str = "",
        asked: str | None = None,
        by: str | None = None,
    ) -> Doubt:
        """Say how a step in doubt ended, or what a stopped call is.

        ``step`` is an id such as ``d7``, a name or a key. ``done`` with the value that the call would have
        returned; ``failed`` with a message; ``retry`` to run it again under the same idempotency key;
        ``abandon`` for a recorded call that the program no longer makes. ``same``: the call that was stopped
        for this effect is this effect; ``new``: it is a new one, and is made. If several calls were stopped
        for the effect, ``asked`` is the key of one. Durable when it returns; the run reads it when it
        continues.
        """
        if how in {"same", "new"}:
            return self._claim(run, step, how, asked, by=by or whoami())
        if how not in {"done", "failed", "retry", "abandon"}:
            raise Misuse(
                problem=f"how={how!r} is not a way to resolve",
                advice="use done, retry, failed or abandon; for a stopped call same, new or abandon",
            )
        if how == "abandon" and (other := self._other(run, step)) is not None:
            return self.resolve(other.run, other.key, how, by=by)
        call = self._find(run, step, how)
        body: dict[str, Any] = {"how": how}
        if how == "done":
            body["value"] = loads(encode(value, what=f"value for {step!r}"))
        elif how == "failed":
            body["error"] = encode_failure(RuntimeError(message or "resolved as failed"))
        check_may_act(self._port, self._row(run))
        content = {"kind": "resolve", "key": call.key, "how": how, "body": body, "by": by or whoami()}
        if not inbox.post(self._port, run, f"resolve-{call.key}", content, at=self._session.clock.wall()):
            raise AlreadyResolved(run=run, step=call.name, state="a resolution waits in its inbox already")
        check_may_act(self._port, self._row(run))
        return _doubt_of(run, call, how)

    def _claim(self, run: str, step: str, how: How, asked: str | None, *, by: str) -> Doubt:
        """Post what a stopped call is. ``step`` names the effect that the call was stopped for."""
        stopped = self.stopped_calls(run)
        found = [
            (one, effect)
            for one in stopped
            for effect in one.effects
            if step in {effect.id, effect.key, effect.step}
            and asked in {None, one.key}
            and one.pending is None
        ]
        if not found:
            known = ", ".join(f"{effect.step} ({effect.id})" for one in stopped for effect in one.effects)
            raise UnknownStep(
                run=run, step=step, state="no stopped call waits for", candidates=known or "none"
            )
        if len({effect.id for _, effect in found}) > 1 and how == "same":
            names = ", ".join(f"{effect.step} ({effect.id})" for _, effect in found)
            raise UnknownStep(run=run, step=step, state="several effects", candidates=names)
        one, effect = found[0]
        check_may_act(self._port, self._row(run))
        content = {
            "kind": "claim",
            "key": effect.key,
            "asked": one.key,
            "name": effect.step,
            "how": how,
            "by": by,
            **({"run": effect.run} if effect.run else {}),
        }
        if not inbox.post(self._port, run, f"claim-{one.key}", content, at=self._session.clock.wall()):
            raise AlreadyResolved(run=run, step=one.step, state="a decision waits in its inbox already")
        check_may_act(self._port, self._row(run))
        return _doubt_of(run, self.view(effect.run or run).calls[effect.key], how)

    def _other(self, run: str, step: str) -> UnclaimedEffect | None:
        """The effect of another run that stopped a call of this one, by its id."""
        effects = [effect for one in self.stopped_calls(run) for effect in one.effects if effect.run]
        return next((effect for effect in effects if effect.id == step), None)

    def submit(self, agent: str, run: str, inputs: Mapping[str, Any] | None = None) -> bool:
        """Queue a run of an agent for a worker. A run that has stopped is tried again.

        Durable when it returns. False if there is nothing to do: the run is queued, running, or over already.
        Raises InputsChanged if the run has other inputs.
        """
        entry = Entry(
            run,
            inputs=None if inputs is None else dict(inputs),
            agent=check_name("agent", agent, STEP_NAME_CHARS_MAX),
        )
        return drive(queue(BLOCKING, self._session, entry))

    def answer(
        self, run: str, value: Any, question: str | None = None, *, by: str | None = None, reason: str = ""
    ) -> OpenQuestion:
        """Answer a question of a run; leave out ``question`` if the run asks only one.

        The value is of the type in ``returns=``, or plain data for it. Durable when it returns. A waiting run
        continues at once, a parked one when it is started again. Raises UnknownQuestion, AlreadyAnswered,
        QuestionExpired or BadAnswer.
        """
        asked = self.find_question(run, question)
        if asked.is_expired:
            assert asked.expires_at is not None
            raise QuestionExpired(
                run=run, question=asked.id, text=asked.question, expired_at=moment(asked.expires_at)
            )
        try:
            plain = fit(asked.wants, plain_of(value))
        except UnfitError as unfit:
            raise BadAnswer(
                run=run, question=asked.id, problem=str(unfit), offered=offered(asked.wants), advice=""
            ) from None
        check_may_act(self._port, self._row(run))
        reply = {"value": loads(encode(plain, what=f"answer to {asked.id}")), "reason": reason}
        content = {"kind": "answer", "key": asked.key, "seq": asked.seq, "by": by or whoami(), **reply}
        at = self._session.clock.wall()
        if not inbox.post(self._port, run, f"answer-{asked.seq}", content, at=at):
            who = self.find_question(run, asked.id).pending_by
            state = f"an answer by {who} waits in its inbox" if who else "an answer waits in its inbox"
            raise AlreadyAnswered(run=run, question=asked.id, state=state)
        self._check_counted(run, asked, content["by"], at)
        return asked._replace(pending=plain, pending_by=content["by"])

    def _check_counted(self, run: str, asked: OpenQuestion, by: str, at: float) -> None:
        """Raise AlreadyAnswered if the run recorded another person's answer just before ours was posted."""
        for event in effective(read_all(self._port, run, after_seq=asked.seq)):
            if event.kind == Kind.QUESTION_ANSWERED and event.key == asked.key:
                body = contents_of(event.body)
                if (body.get("by"), body.get("answered_at")) != (by, at):
                    raise AlreadyAnswered(run=run, question=asked.id, state=told_end(body))
                return
        check_may_act(self._port, self._row(run))

    def cancel(self, run: str, *, by: str | None = None, reason: str = "") -> RunInfo:
        """Cancel a run.

        If a process holds it, that process stops with ``Cancelled``; otherwise the run is cancelled at once.
        Durable when it returns. Raises RunOver if the run is finished or cancelled.
        """
        row = self._row(run)
        check_may_act(self._port, row)
        if row.status in OVER:
            raise RunOver(run=run, status=row.status)
        cancel(self._session, row, by=by or whoami(), reason=reason)
        return self.get(run)

    def accept_premise(self, run: str, premise: str, *, by: str | None = None) -> Premise:
        """Accept a premise of the run, such as ``file:data.csv``, as it is now.

        The run relies on that from then on. What only the program knows (a tool, a model) is accepted in any
        form. Durable when it returns; the run reads it when it continues.
        """
        from holdfast.engine.resume.resume_plan import look_at_one, with_accepted

        check_may_act(self._port, self._row(run))
        view = with_accepted(self._port, run, self.view(run))
        noted = PREMISES.of(view).get(premise)
        if noted is None and premise in PREMISES.of(view).broken:  # declared, and it never existed
            kind, _, name = premise.partition(":")
            noted = Premise(kind, name, {})
        if noted is None:
            raise Misuse(
                problem=f"run {run} relies on no {premise!r}",
                advice=f"it relies on: {', '.join(sorted(PREMISES.of(view))) or 'nothing'}",
            )
        found = look_at_one(view, noted)
        facts = {**(noted.facts or {}), **NOTHING} if found.is_gone else found.facts
        content = {
            "kind": "accept",
            "premise": noted.kind,
            "name": noted.name,
            "facts": facts,
            "policy": noted.policy,
            "by": by or whoami(),
        }
        # The id depends on the facts: accepting the same again is one letter, accepting later facts is
        # another.
        letter = f"accept-{address_of(dumps([premise, facts]))[:20]}"
        inbox.post(self._port, run, letter, content, at=self._session.clock.wall())
        check_may_act(self._port, self._row(run))
        return noted._replace(facts=facts)

    def trust(self, run: str, command: Command | None = None, *, by: str | None = None) -> Command:
        """Allow a foreign command of the run to start here: the one it was last started with, or this one.

        From then on that command of that run and its forks starts like your own; no other command does. In a
        store of another user, trust is recorded but not honoured later. Durable when it returns. Raises
        Misuse if there is no command.
        """
        from holdfast.engine.resume.recorded_command import trust

        command = command or self.command(run)
        if command is None:
            raise Misuse(
                problem=f"run {run} was never begun: there is no command to trust",
                advice="start the program that works on it",
            )
        if not command.needs_trust:
            return command
        return trust(self._port, run, command, by=by or whoami(), at=self._session.clock.wall())

    def check_may_act(self, run: str) -> None:
        """Raise RunSealed if the run must not act here: it was moved away, is a copy, or is incomplete."""
        check_may_act(self._port, self._row(run))

    def _find(self, run: str, step: str, how: How) -> Call:
        view = self.view(run)
        everything = list(view.calls.values())
        in_doubt = doubtful(view, self.get(run))
        among = [c for c in everything if c.seq] if how == "abandon" else in_doubt
        found = [c for c in among if step in {c.key, c.name, f"d{c.seq}"}]
        if len(found) == 1 or (found and how == "abandon" and found[-1].key == step):
            return found[-1]
        names = ", ".join(f"{c.name} (d{c.seq})" for c in (found or in_doubt)) or "none"
        known = next((c for c in everything if step in {c.key, c.name, f"d{c.seq}"}), None)
        if not found and known is not None and how != "abandon":
            raise AlreadyResolved(
                run=run,
                step=known.name,
                state="its outcome is recorded" if known.outcomes else "it is running",
            )
        state = (
            "several steps"
            if found
            else "no recorded step"
            if how == "abandon"
            else "no step in doubt called"
        )
        raise UnknownStep(run=run, step=step, state=state, candidates=names)

    def accept_loss(self, run: str, *, by: str | None = None) -> int:
        """Let a run continue although acknowledged events are lost, and return how many are missing.

        Use it after AcknowledgedLost, when you have checked what the run's tools did. The journal records it.
        0 if nothing is missing.
        """
        from holdfast.engine.damage.accepted_loss import accept_loss

        return accept_loss(self._session, run, by=by or whoami())


def _doubt_of(run: str, call: Call, how: How) -> Doubt:
    reason = call.doubt or ("never reported back" if call.is_open else "was not asked for")
    return Doubt(run, call.name, call.key, call.started_at, reason, how, call.seq)


def whoami() -> str:
    """The name of the user, for the record."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without a passwd entry
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"

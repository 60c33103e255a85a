"""Waits for a provider that cannot answer now, and tries the call again.

The start of a wait is one event and its end another, however many tries lie between them. The wait ends with
the call: with an answer, or with an error that waiting cannot cure.

Crash windows: killed while it waits, the next attempt finds the wait open and continues it. If the provider
named a time, the next attempt does not ask before then.
"""

from collections.abc import Callable
from random import random
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.llm.provider_errors import backoff_s, outage_of, signs_of
from holdfast.core.people.wait_fold import WAITS
from holdfast.core.text.times import moment
from holdfast.engine.log import log
from holdfast.engine.people import waits
from holdfast.engine.run.store_session import masked
from holdfast.errors import AwaitingProvider
from holdfast.limits import CLOCK_BACK_S
from holdfast.model.provider_patience import PATIENCE, Outage, Patience

if TYPE_CHECKING:
    from holdfast.engine.llm.model_call import ModelWork
    from holdfast.model.waits import Waiting

PROVIDER: Final = "provider"


class Line:
    """How one model call reaches a provider: how to wait for it, how to probe it, and which targets to ask.

    ``probe`` returns why the provider is not ready, or None; without a probe, the call itself is the test.
    ``targets`` are asked in their order, and the first again after the last. ``providers`` are their
    providers, where these are known.
    """

    __slots__ = ("notes", "patience", "probe", "providers", "target", "targets")

    def __init__(
        self,
        patience: Patience = PATIENCE,
        *,
        probe: Callable[..., Any] | None = None,
        targets: tuple[str, ...] = ("",),
        providers: tuple[str, ...] = (),
    ) -> None:
        self.patience, self.probe, self.targets, self.providers = patience, probe, targets, providers
        self.target = 0
        """The index of the target that is asked now."""
        self.notes: dict[str, Any] = {}
        """Further fields to record with the answer."""

    @property
    def has_others(self) -> bool:
        """Whether there is another target to ask."""
        return len(self.targets) > 1

    @property
    def provider(self) -> str:
        """The provider of the present target; empty where it is not known."""
        return self.providers[self.target] if self.providers else ""

    def fall_back(self) -> str:
        """Ask the next target from now on. Returns its name."""
        self.target = (self.target + 1) % len(self.targets)
        return self.targets[self.target]


class Watch:
    """The wait of one call for its provider, from the first failure to the answer."""

    __slots__ = (
        "_asked_in_round",
        "_began",
        "_garbled",
        "_looks",
        "_rounds",
        "_target_began",
        "_waiting",
        "_work",
        "fell_back",
    )

    def __init__(self, work: "ModelWork") -> None:
        self._work = work
        self._waiting: Waiting | None = None
        self._began = 0.0
        """When the call began to wait, for all its targets: ``give_up_s`` counts from here."""
        self._target_began = 0.0
        """When it began to wait for the present target: ``fall_back_s`` counts from here."""
        self._looks = 0
        self._garbled = 0
        self._asked_in_round = self._rounds = 0
        """How many targets were asked since the last pause, and how often all of them were."""
        self.fell_back: list[dict[str, str]] = []
        """The targets that the call fell back to, and why."""

    @property
    def is_waiting(self) -> bool:
        """Whether it waits now, or an earlier attempt did and this one has not answered yet."""
        return self._waiting is not None

    async def resume(self) -> None:
        """Continue a wait that an earlier attempt began, at least until the time that the provider named."""
        work = self._work
        self._waiting = WAITS.of(work.held.view).open.get(work.asked.key)
        if self._waiting is not None:
            self._began = self._target_began = work.held.clock.monotonic()
            # Recorded by a clock that was ahead, its end says nothing: the provider is asked, and names one.
            if work.held.clock.wall() >= self._waiting.since - CLOCK_BACK_S:
                await self._until(self._waiting.until)

    async def outlast(self, error: Exception) -> bool:
        """Wait until the call can be tried again. False where waiting cannot help, or took too long."""
        work, line = self._work, self._work.line
        now = work.held.clock.wall()
        outage = outage_of(signs_of(error), now)
        if outage is None:
            return line.has_others and self._is_refused(error) and self._falls_back(str(error))
        # Unlike an outage, unusable answers may never end: ``tries`` bounds them.
        if outage.kind == "garbled":
            self._garbled += 1
            if self._garbled >= line.patience.tries:
                return False
        await self._begin(outage)
        if self._is_out_of_patience():
            await self._end("expired")
            return False
        if self._is_fallback_due():
            self._falls_back(outage.why)
            self._asked_in_round += 1
            if self._asked_in_round >= len(line.targets):  # none of them answers: do not ask them in a spin
                self._asked_in_round = 0
                await self._let_pass(backoff_s(self._rounds, line.patience, random()))  # noqa: S311 - jitter is no secret
                self._rounds += 1
            return True
        await self._until(outage.until)
        await self._pause(outage)
        return True

    async def over(self) -> None:
        """End the wait, if there is one: the call has an answer or an error."""
        if self._waiting is not None:
            await self._end("over")

    # -- its parts -------------------------------------------------------------------------------------------

    async def _begin(self, outage: Outage) -> None:
        work, waiting = self._work, self._waiting
        if waiting is not None and outage.until is not None and waiting.until != outage.until:
            await self._end("over")  # the provider named another time: a new wait records that one
            waiting = None
        elif waiting is None:
            self._began = self._target_began = work.held.clock.monotonic()
        if waiting is not None:
            return
        self._looks = 0
        what = work.ask.provider or work.asked.name
        model = work.ask.model_asked
        self._waiting = await waits.begin(
            work.held,
            work.runtime,
            work.asked,
            outage.until,
            name=PROVIDER,
            reason="provider",
            what=f"{what} ({model})" if model else what,
            why=outage.why,
        )
        log().warning("run %s waits for %s: %s", work.held.run, self._waiting.what, outage.why)

    async def _end(self, how: waits.How) -> None:
        assert self._waiting is not None
        await waits.end(self._work.held, self._work.runtime, self._waiting, how)
        self._waiting = None

    async def _until(self, until: float | None) -> None:
        """Wait until the time that the provider named.

        AwaitingProvider parks the run where that is far away.
        """
        work = self._work
        clock, park_s = work.held.clock, work.line.patience.park_s
        while until is not None and (left_s := until - clock.wall()) > 0:
            if park_s is not None and left_s > park_s:
                assert self._waiting is not None
                raise AwaitingProvider(
                    run=work.held.run,
                    reason=f"{self._waiting.what} until {moment(until)}: {self._waiting.why}",
                    until=until,
                )
            await self._let_pass(left_s)

    async def _pause(self, outage: Outage) -> None:
        """Wait one backoff, or with a probe, until it reports that the provider is ready."""
        work, patience = self._work, self._work.line.patience
        while True:
            if outage.until is None:
                await self._let_pass(backoff_s(self._looks, patience, random()))  # noqa: S311 - jitter is no secret
            self._looks += 1
            probe = work.line.probe
            if probe is None or await work.runtime.invoke(probe, (), {}, None) is None:
                return
            # If out of patience, the next try fails with the provider's own error: the program should see it.
            if self._is_out_of_patience() or self._is_fallback_due():
                return

    async def _let_pass(self, seconds: float) -> None:
        """Wait, but react to letters such as a cancellation."""
        clock = self._work.held.clock
        wait = waits.InboxWait(self._work.held, self._work.runtime, PROVIDER)
        end = clock.monotonic() + seconds
        while (left_s := end - clock.monotonic()) > 0:
            await wait.look()
            await wait.pause(left_s)

    def _is_out_of_patience(self) -> bool:
        give_up_s = self._work.line.patience.give_up_s
        return give_up_s is not None and self._work.held.clock.monotonic() - self._began >= give_up_s

    def _is_fallback_due(self) -> bool:
        line, now = self._work.line, self._work.held.clock.monotonic()
        return line.has_others and now - self._target_began >= line.patience.fall_back_s

    def _is_refused(self, error: Exception) -> bool:
        """Whether this target does not have the model, and some target has not been asked yet."""
        signs = signs_of(error)
        return (
            signs.status == 404
            and "model" in signs.words.lower()
            and len(self.fell_back) < len(self._work.line.targets)
        )

    def _falls_back(self, why: str) -> bool:
        target = self._work.line.fall_back()
        self.fell_back.append({"to": target, "why": masked(why)[:200]})
        self._target_began = self._work.held.clock.monotonic()
        log().warning("run %s asks %s instead: %s", self._work.held.run, target, why)
        return True

"""Waiting for a provider: that the run waits is recorded once, for what and since when; it goes on by itself.

Crash windows: killed while it waits, the next attempt finds the wait open and goes on with it; one that the provider has
named an end for is not asked before that. The wait ends with the call: with its answer, or with an error that no waiting
helps against. So an outage of a night is two events, however often the provider was asked.
"""

from collections.abc import Callable
from random import random
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.llm.provider_errors import backoff_s, outage_of, signs_of
from holdfast.core.people.wait_fold import WAITS
from holdfast.core.text.times import moment
from holdfast.engine.log import log
from holdfast.engine.people import waits
from holdfast.errors import AwaitingProvider
from holdfast.model.provider_patience import PATIENCE, Outage, Patience

if TYPE_CHECKING:
    from holdfast.engine.llm.model_call import ModelWork
    from holdfast.model.waits import Waiting

PROVIDER: Final = "provider"


class Line:
    """The line to the provider of one model call: how to wait for it, how to look whether it is there, and others to ask.

    ``probe`` tells why it is not ready, or nothing; without one, asking again is the look. ``targets`` are whom to ask,
    in their order; the first one is asked again when the last one fails. ``providers`` are theirs, where that is known.
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
        """Who is asked now."""
        self.notes: dict[str, Any] = {}
        """What else is to be recorded with the answer."""

    @property
    def has_others(self) -> bool:
        """Whether somebody else could be asked."""
        return len(self.targets) > 1

    @property
    def provider(self) -> str:
        """Whose target is asked now; empty where nobody said."""
        return self.providers[self.target] if self.providers else ""

    def fall_back(self) -> str:
        """Ask the next one from now on; who that is."""
        self.target = (self.target + 1) % len(self.targets)
        return self.targets[self.target]


class Watch:
    """One call's waiting for its provider, from the first failure to the answer."""

    __slots__ = ("_began", "_garbled", "_looks", "_waiting", "_work", "fell_back")

    def __init__(self, work: "ModelWork") -> None:
        self._work = work
        self._waiting: Waiting | None = None
        self._began = 0.0
        self._looks = 0
        self._garbled = 0
        self.fell_back: list[dict[str, str]] = []
        """Whom the call turned to, and why."""

    async def resume(self) -> None:
        """Go on with a wait that an earlier attempt began: not before the time that the provider has named."""
        work = self._work
        self._waiting = WAITS.of(work.held.view).open.get(work.asked.key)
        if self._waiting is not None:
            self._began = work.held.clock.monotonic()
            await self._until(self._waiting.until)

    async def outlast(self, error: Exception) -> bool:
        """Wait until it is worth asking again; False where no waiting helps, or patience has ended."""
        work, line = self._work, self._work.line
        now = work.held.clock.wall()
        outage = outage_of(signs_of(error), now)
        if outage is None:
            return line.has_others and self._is_refused(error) and self._falls_back(str(error))
        if outage.kind == "garbled":
            self._garbled += 1
            if self._garbled >= line.patience.tries:
                return False
        await self._begin(outage)
        if line.has_others and self._waited_s() >= line.patience.fall_back_s and self._falls_back(outage.why):
            return True
        if line.patience.give_up_s is not None and self._waited_s() >= line.patience.give_up_s:
            await self._end("expired")
            return False
        await self._until(outage.until)
        await self._pause(outage)
        return True

    async def over(self) -> None:
        """The call has come to its end: so has the waiting."""
        if self._waiting is not None:
            await self._end("over")

    # -- its parts -----------------------------------------------------------------------------------------------

    async def _begin(self, outage: Outage) -> None:
        work, waiting = self._work, self._waiting
        if waiting is not None and outage.until is not None and waiting.until != outage.until:
            await self._end("over")  # the provider has named another time: that is what is waited for now
            waiting = None
        if waiting is not None:
            return
        self._began, self._looks = work.held.clock.monotonic(), 0
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
        """Wait for the time that the provider has named; park the run if it is far away."""
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
        """Let the provider recover: once, or until its probe says that it is ready."""
        work, patience = self._work, self._work.line.patience
        while True:
            if outage.until is None:
                await self._let_pass(backoff_s(self._looks, patience, random()))  # noqa: S311 - jitter is no secret
            self._looks += 1
            probe = work.line.probe
            if probe is None or await work.runtime.invoke(probe, (), {}, None) is None:
                return
            if patience.give_up_s is not None and self._waited_s() >= patience.give_up_s:
                return  # asked once more, it fails with its own error
            if work.line.has_others and self._waited_s() >= patience.fall_back_s:
                return

    async def _let_pass(self, seconds: float) -> None:
        clock = self._work.held.clock
        wait = waits.InboxWait(self._work.held, self._work.runtime, PROVIDER)
        end = clock.monotonic() + seconds
        while (left_s := end - clock.monotonic()) > 0:
            await wait.look()
            await wait.pause(left_s)

    def _waited_s(self) -> float:
        return self._work.held.clock.monotonic() - self._began

    def _is_refused(self, error: Exception) -> bool:
        """Whether this one will never answer, and another one might: it does not have the model."""
        signs = signs_of(error)
        return (
            signs.status == 404
            and "model" in signs.words.lower()
            and len(self.fell_back) < len(self._work.line.targets)
        )

    def _falls_back(self, why: str) -> bool:
        target = self._work.line.fall_back()
        self.fell_back.append({"to": target, "why": why[:200]})
        self._began = self._work.held.clock.monotonic()
        log().warning("run %s asks %s instead: %s", self._work.held.run, target, why)
        return True

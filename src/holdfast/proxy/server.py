"""One life of the proxy: enters the run, listens, starts the command if there is one, and ends the attempt.

The command's exit code 0 finishes the run, any other fails the attempt. A signal interrupts the attempt; that
is how a proxy without a command ends. The invariant: the run is left only after its command has ended.
"""

import asyncio
import os
import shlex
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from secrets import token_hex
from typing import Any, Final

from holdfast.adapters.shared.journaled_calls import not_installed
from holdfast.adapters.shared.turns import Turns
from holdfast.adapters.wire.exchange import Manner
from holdfast.adapters.wire.transport import journaled
from holdfast.adapters.wire.unjournaled import check_passthrough
from holdfast.api.async_run import AsyncRun
from holdfast.api.enter import Opening
from holdfast.engine.run.call_site import here_now
from holdfast.errors import CommandFailed, Terminated
from holdfast.limits import DRAIN_S, PROXY_STOP_S
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.provider_patience import PATIENCE
from holdfast.proxy.providers import Upstreams, variables_for
from holdfast.proxy.relay import Relay

try:
    import httpx

    from holdfast.proxy.listener import HOST, served
except ImportError as error:
    raise not_installed("proxy", "proxy", error) from error

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SIGNAL_EXIT: Final = 128
_ANSWER_S: Final = 600.0
_CONNECT_S: Final = 10.0
_RUN: Final = "HOLDFAST_RUN"


class Options(NamedTuple):
    """What the proxy is to do."""

    port: int
    to: str | None
    passthrough: Sequence[str]
    command: Sequence[str]
    tell: Callable[..., None]
    """Gets what happens: the name of the event, and its fields."""


class Signals:
    """The signals that have come. Each goes on to the command, unless the terminal sent it there already."""

    def __init__(self, reaches_command: Callable[[signal.Signals], bool]) -> None:
        self.received: list[signal.Signals] = []
        self.exit_code = 0
        self.first, self.second = asyncio.Event(), asyncio.Event()
        self.command: asyncio.subprocess.Process | None = None
        self._reaches_command = reaches_command

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Inside the block, signals are noted instead of obeyed. An ignored one stays ignored."""
        loop = asyncio.get_running_loop()
        noted = [one for one in _SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]
        for signum in noted:
            loop.add_signal_handler(signum, self._note, signum)
        try:
            yield
        finally:
            for signum in noted:
                loop.remove_signal_handler(signum)

    def _note(self, signum: signal.Signals) -> None:
        (self.second if self.received else self.first).set()
        self.received.append(signum)
        if self.command is not None and not self._reaches_command(signum):
            with suppress(ProcessLookupError):
                self.command.send_signal(signum)


async def serve(opening: Opening, options: Options, reaches_command: Callable[[signal.Signals], bool]) -> int:
    """Serve until the command ends, or a signal comes. Returns the exit code.

    Raises the stop-signal that ended the attempt; CommandFailed; OSError if it cannot listen.
    """
    signals = Signals(reaches_command)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening, signals.noted():
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, options.port))
        listening.listen()
        try:
            async with opening as run:
                await _attempt(run, listening, options, signals)
        except (KeyboardInterrupt, Terminated):
            return signals.exit_code
    return 0


async def _attempt(run: AsyncRun, listening: socket.socket, options: Options, signals: Signals) -> None:
    origin = f"http://{HOST}:{listening.getsockname()[1]}"
    # An agent that outlives a killed proxy must not speak into the next attempt: each has an address of its
    # own. Without a command the address is typed by hand.
    address = f"{origin}/{token_hex(8)}" if options.command else origin
    variables = variables_for(address)
    async with _served(listening, Upstreams(options.to, os.environ, origin), address, options) as relay:
        options.tell(
            "listening", run=run.id, attempt=run.attempt, status=run.status, url=address, variables=variables
        )
        code = await _worked(options.command, variables, relay, signals)
        await _drained(relay, signals, options.tell)
    options.tell("ended", run=run.id, calls=relay.calls, replayed=relay.replayed)
    if relay.stop is not None:
        raise relay.stop
    if signals.received:
        signals.exit_code = _SIGNAL_EXIT + signals.received[0] if code is None else exit_code(code)
        raise relay.blame(KeyboardInterrupt() if signals.received[0] == signal.SIGINT else Terminated())
    if code:
        how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
        raise relay.blame(CommandFailed(run=run.id, how=how, command=shlex.join(options.command), code=code))


@asynccontextmanager
async def _served(
    listening: socket.socket, upstreams: Upstreams, address: str, options: Options
) -> AsyncIterator[Relay]:
    passed = check_passthrough(tuple(options.passthrough))
    manner = Manner("holdfast.proxy", "", "continue", "auto", PATIENCE, (), passed)
    here = here_now()
    assert here is not None, "the run is entered"
    async with httpx.AsyncClient(timeout=httpx.Timeout(_ANSWER_S, connect=_CONNECT_S)) as client:
        # The agent is one program: each of its calls follows the one before, unless they overlap.
        turns = Turns(here, is_alone=True)
        relay = Relay(journaled(client, manner), turns, upstreams, address, options.tell)
        async with served(relay, listening):
            yield relay


async def _worked(
    command: Sequence[str], variables: dict[str, str], relay: Relay, signals: Signals
) -> int | None:
    """Wait for the end of the command, or for a signal; or for a stop of the run, which ends the command.

    Returns the exit code of the command; None without a command.
    """
    if not command:
        await _first(relay.is_over.wait(), signals.first.wait())
        return None
    environ = {name: text for name, text in os.environ.items() if name != _RUN}  # the run is ours
    process = await asyncio.create_subprocess_exec(*command, env={**environ, **variables})
    signals.command = process
    await _first(process.wait(), relay.is_over.wait())
    for end in (process.terminate, process.kill):
        if process.returncode is None:  # it has got the error, and may end by itself
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), PROXY_STOP_S)
        if process.returncode is None:
            end()
    return await process.wait()


async def _drained(relay: Relay, signals: Signals, tell: Callable[..., None]) -> None:
    """Let calls in progress end: they are paid for. Not for ever, and not if a second signal comes."""
    relay.is_over.set()
    if relay.running:
        tell("waiting", calls=len(relay.running))
        await _first(asyncio.wait(relay.running, timeout=DRAIN_S), signals.second.wait())
    for task in relay.running:
        task.cancel()
    await asyncio.gather(*relay.running, return_exceptions=True)


async def _first(*waits: Any) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def exit_code(code: int) -> int:
    """The exit code of a process as a shell shows it."""
    return _SIGNAL_EXIT - code if code < 0 else code

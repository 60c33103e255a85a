"""The application behind the proxy's address: sends each request on inside the run, and relays the answer.

A model call goes on when the agent's connection breaks: it is paid for, so its answer is recorded. If the
agent then asks the same again, as SDKs do, it gets that answer. A stop-signal becomes an error that clients
do not retry; after it, every request gets the same error.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from re import compile as pattern
from typing import Any, Final
from urllib.parse import urlsplit

from holdfast.adapters.shared.turns import Turns
from holdfast.adapters.wire.exchange import REPLAYED
from holdfast.adapters.wire.framework_check import say_missing
from holdfast.adapters.wire.shapes import shape_of
from holdfast.adapters.wire.shapes.shape import Shape
from holdfast.engine.run.held_run import pass_on_failure
from holdfast.errors import BudgetExceeded, HoldfastError, StopSignal, Unjournaled
from holdfast.limits import PROXY_BODY_BYTES_MAX, PROXY_LOST_ANSWERS_MAX
from holdfast.model.named_tuple import NamedTuple
from holdfast.proxy.answer import Answer
from holdfast.proxy.providers import Provider, Upstreams, error_body, provider_of

_HOP: Final = frozenset(
    {"connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
_NOT_SENT: Final = _HOP | {"accept-encoding", "expect", "proxy-authorization", "proxy-connection"}
_NOT_RELAYED: Final = _HOP | {"content-encoding", "proxy-authenticate"}
_REFUSED: Final = 400
"""The one status that no client retries: SDKs retry 409 unless they know the header beside it."""
_BAD_GATEWAY: Final = 502
_CLAUDE_SDK: Final = pattern(r"^claude-cli/.*\bsdk-py\b")
"""The CLI of an agent that could have its tools held, too."""


class Asked(NamedTuple):
    """A request of the agent."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def provider(self) -> Provider:
        """Whose protocol it speaks."""
        return provider_of(self.path, self.headers)

    @property
    def shape(self) -> Shape | None:
        """Which model call it is; None if it is none."""
        return shape_of(self.path) if self.method == "POST" else None

    @property
    def tail(self) -> bytes:
        """The bytes after the last event of a stream; clients may not read them."""
        return self.shape.source.tail if self.shape and self.shape.source else b""


class Relay:
    """An ASGI application."""

    def __init__(
        self, client: Any, turns: Turns, upstreams: Upstreams, address: str, tell: Callable[..., None]
    ) -> None:
        """``client`` is an ``httpx.AsyncClient`` over our transport; ``tell`` gets each model call."""
        self._client, self._turns, self._upstreams, self._tell = client, turns, upstreams, tell
        self._url = urlsplit(address)
        self._hosts = {f"{name}:{self._url.port}" for name in (self._url.hostname, "localhost")}
        self._lost: dict[tuple[str, bytes], Answer] = {}
        """Answers that did not reach the agent, by path and body."""
        self._failure: Any = None
        self._first: tuple[str, bytes] | None = None
        self._is_repeated = False
        self.calls = self.replayed = 0
        self.running: set[asyncio.Task[None]] = set()
        """Requests in progress."""
        self.stop: StopSignal | None = None
        self.is_over = asyncio.Event()
        """Set by a stop-signal, or when the proxy ends: from then on requests are refused."""

    def blame(self, error: BaseException) -> BaseException:
        """The error that ends the attempt; with the model call that failed last, if none came after it.

        That one is made again by the next attempt.
        """
        if self._failure is not None:
            pass_on_failure(self._failure, error)
        return error

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        headers = {name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]}
        path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
        is_ours = path.startswith(f"{self._url.path}/")
        body = await _body_of(receive)
        asked = Asked(scope["method"], path.removeprefix(self._url.path), query, headers, body or b"")
        problem = self._problem(asked, is_ours=is_ours, is_whole=body is not None)
        answer = refusal(asked.provider, *problem) if problem else self._answer(asked)
        await self._relay(asked, answer, receive, send)

    def _problem(self, asked: Asked, *, is_ours: bool, is_whole: bool) -> tuple[str, str] | None:
        """Why a request is refused before it is looked at: a code and a text."""
        if asked.headers.get("host") not in self._hosts or "origin" in asked.headers or not is_ours:
            # A web page can send requests here too, under a name of its own that leads to this address.
            return "holdfast_address", "the proxy answers programs on this machine, at its own address only"
        if not is_whole:
            return "holdfast_too_large", f"the request has more than {PROXY_BODY_BYTES_MAX:,} bytes"
        if self.stop is not None:
            return type(self.stop).__name__, explained(self.stop)
        if self.is_over.is_set():
            return "holdfast_over", "the proxy is about to end"
        return None

    def _answer(self, asked: Asked) -> Answer:
        found = self._lost.pop((asked.path, asked.body), None)
        if found is not None:
            return found
        answer = Answer()
        task = asyncio.create_task(self._send_on(asked, answer))
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        return answer

    async def _send_on(self, asked: Asked, answer: Answer) -> None:
        last = b""
        try:
            url = self._upstreams.url_of(asked.provider, asked.path, asked.query)
            headers = [pair for pair in asked.headers.items() if pair[0] not in _NOT_SENT]
            request = self._client.build_request(asked.method, url, headers=headers, content=asked.body)
            with self._place_of(asked):
                response = await self._client.send(request, stream=True)
                try:
                    self._note(asked, response)
                    answer.begin(response.status_code, _relayed(response.headers))
                    async for piece in response.aiter_bytes():
                        # The agent must not have the whole answer, and ask on, before the call is over.
                        if piece == asked.tail:
                            last += piece
                        else:
                            answer.add(last)
                            last = piece
                finally:
                    await response.aclose()
            answer.add(last)
        except StopSignal as raised:
            stop = _advised(raised)
            self.stop = self.stop or stop
            self.is_over.set()
            _refuse(answer, asked.provider, type(stop).__name__, explained(stop))
        except Unjournaled as refused:
            _refuse(answer, asked.provider, "Unjournaled", _unjournaled(asked, refused))
        except HoldfastError as error:
            self._failure = error
            _refuse(answer, asked.provider, type(error).__name__, explained(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the agent must learn of it
            self._failure = error
            answer.add(last)  # in the middle of a stream, the provider's own words about it
            said = f"holdfast: the request to {asked.provider.name} failed: {error!r}"
            _refuse(answer, asked.provider, type(error).__name__, said, _BAD_GATEWAY)
        except BaseException:
            answer.is_broken = True
            raise
        finally:
            answer.end()

    def _place_of(self, asked: Asked) -> AbstractContextManager[Any]:
        """Where in the run a request is sent."""
        return self._turns.leading() if asked.shape else self._turns.entered()

    def _note(self, asked: Asked, response: Any) -> None:
        """Count a model call, and remember its failure."""
        if asked.shape is None:
            return
        if _CLAUDE_SDK.search(asked.headers.get("user-agent", "")):
            say_missing("claude_agent_sdk")
        is_replayed, key = REPLAYED in response.headers, (asked.path, asked.body)
        self._first = self._first or key
        if key == self._first and self.calls and not is_replayed and not self._is_repeated:
            self._is_repeated = True
            self._tell("repeated")
        self.calls += 1
        self.replayed += is_replayed
        self._failure = response if response.status_code >= _REFUSED else None
        self._tell("called", number=self.calls, name=asked.shape.name, replayed=is_replayed)

    async def _relay(self, asked: Asked, answer: Answer, receive: Any, send: Any) -> None:
        """Send the answer; if the connection breaks before its end, keep it for the agent's next try."""
        gone = asyncio.ensure_future(receive())
        sending = asyncio.ensure_future(_sent(answer, send))
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
            elif asked.method == "POST":
                await self._keep((asked.path, asked.body), answer, answer.pieces_read)
        finally:
            gone.cancel()
            sending.cancel()

    async def _keep(self, key: tuple[str, bytes], answer: Answer, pieces_read: int) -> None:
        self._lost[key] = answer
        while len(self._lost) > PROXY_LOST_ANSWERS_MAX:
            del self._lost[next(iter(self._lost))]
        # Some clients close the connection when they have read the end mark of a stream: they have it all.
        if not await answer.is_missed_after(pieces_read) and self._lost.get(key) is answer:
            del self._lost[key]


async def _sent(answer: Answer, send: Any) -> None:
    await answer.begun()
    if not answer.status:
        return
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    async for piece in answer.pieces():
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    if not answer.is_broken:  # else the server closes the connection: the agent must not take it for complete
        await send({"type": "http.response.body", "body": b""})


async def _body_of(receive: Any) -> bytes | None:
    """The body of a request; None if it is too large, or cut off."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > PROXY_BODY_BYTES_MAX or message["type"] == "http.disconnect":
            return None
        if not message.get("more_body"):
            return bytes(body)


def refusal(provider: Provider, code: str, message: str) -> Answer:
    """A complete answer that refuses a request."""
    answer = Answer()
    _refuse(answer, provider, code, message)
    answer.end()
    return answer


def _refuse(answer: Answer, provider: Provider, code: str, message: str, status: int = _REFUSED) -> None:
    if answer.status:  # in the middle of a stream
        answer.is_broken = True
        return
    headers = ((b"content-type", b"application/json"), (b"x-should-retry", b"false"))
    answer.begin(status, headers)
    answer.add(error_body(provider, code, message))


def _advised(stop: StopSignal) -> StopSignal:
    """The stop, with the next move of someone who has no program but this proxy."""
    if not isinstance(stop, BudgetExceeded):
        return stop
    limit = stop.limit.removeprefix("unknown ")
    advice = (
        f"start the proxy again with a larger --budget {limit}=N; "
        f"`holdfast stats {stop.run} --cost` shows what it was spent on"
    )
    return type(stop)(**{**stop.fields, "advice": advice}).because(stop)


def explained(error: HoldfastError | StopSignal) -> str:
    """What happened, and which command helps."""
    return f"holdfast: {error}" + (f"\nhint: {error.hint}" if error.hint else "")


def _unjournaled(asked: Asked, refused: Unjournaled) -> str:
    return (
        f"holdfast: {asked.method} {asked.path} is no model call that the journal records: inside run "
        f"{refused.run} every attempt would make and pay for it again\n"
        f"hint: let it pass on purpose: holdfast proxy --passthrough {refused.endpoint}"
    )


def _relayed(headers: Any) -> list[tuple[bytes, bytes]]:
    return [
        (name.encode("latin-1"), text.encode("latin-1"))
        for name, text in headers.multi_items()
        if name.lower() not in _NOT_RELAYED
    ]

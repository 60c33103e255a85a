"""The clients under test, each driven in the same few ways: the tests are written once, and run with every one.

A driver's methods are coroutines, of blocking clients too: those never suspend, so that one test serves both. ``attempt``
runs a piece of work as one attempt of a run, with the kind of ``with`` that belongs to the client.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, Final, TypeVar

from tests.support.model_server import Provider

import holdfast
from holdfast.model.event_fields import contents_of

R = TypeVar("R")
KEY: Final = "sk-a-key-that-must-not-be-stored-6b1f"
QUICK: Final = holdfast.Patience(first_s=0.01, longest_s=0.02, fall_back_s=0.05)
ASK: Final = "Tell of the sea."


class Driver:
    """One client. A subclass says how it is made and called; the text of a request is the user's only message."""

    name: ClassVar[str]
    is_async: ClassVar[bool] = False
    model: ClassVar[str] = "m"
    flavour: ClassVar[str] = "openai"
    """Whose manners the provider has."""
    refusals: ClassVar[Mapping[int, type[Exception]]]
    """The client's own errors for statuses: 400, 401, 404, 503."""
    in_stream: ClassVar[type[Exception]]
    """The client's own error for an error event in the middle of a stream."""
    is_client: ClassVar[bool] = True
    """Whether it is an object with connections of its own."""
    tells_errors: ClassVar[bool] = True
    """Whether the client tells errors in the middle of a stream apart."""
    continues: ClassVar[bool] = True
    """Whether a stream that breaks off is continued; else it is begun again, before the program has any of it."""

    def connect(self, url: str, key: str = KEY) -> Any:
        """The plain client of a provider at this root address. It does not try again by itself, where it can."""
        raise NotImplementedError

    async def close(self, client: Any) -> None:
        """Close the plain client."""
        raise NotImplementedError

    async def ask(self, client: Any, text: str, **options: Any) -> Any:
        """An answer in the client's own type. Options are the client's."""
        raise NotImplementedError

    def pieces(self, client: Any, text: str, **options: Any) -> AsyncIterator[str]:
        """An answer as a stream: the texts of its pieces. It is closed with the iterator."""
        raise NotImplementedError

    def text_of(self, answer: Any) -> str:
        """The text of an answer."""
        raise NotImplementedError

    async def unjournaled(self, client: Any) -> None:
        """A call that no shape knows."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.name


class Agent:
    """A client in use."""

    def __init__(self, driver: Driver, client: Any, run: Any = None) -> None:
        self.driver, self.client, self.run = driver, client, run

    async def answer(self, text: str = ASK, **options: Any) -> Any:
        """An answer in the client's own type."""
        return await self.driver.ask(self.client, text, **options)

    async def ask(self, text: str = ASK, **options: Any) -> str:
        """The text of an answer."""
        return self.driver.text_of(await self.answer(text, **options))

    async def read(self, text: str = ASK, *, stop_after: int | None = None, **options: Any) -> str:
        """The text of a streamed answer; InterruptedError after so many pieces."""
        read = ""
        async with aclosing(self.driver.pieces(self.client, text, **options)) as pieces:  # type: ignore[type-var]
            number = 0
            async for piece in pieces:
                read += piece
                number += bool(piece)
                if number == stop_after:
                    raise InterruptedError(read)
        return read


Work = Callable[[Agent], Awaitable[R]]


def finish(work: Coroutine[Any, Any, R]) -> R:
    """The result of a coroutine that never suspends."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("it suspended")


def alone(driver: Driver, provider: Provider, work: Work[R]) -> R:
    """Work with the plain client, outside of any run."""

    provider.script.tell({"flavour": driver.flavour})

    async def whole() -> R:
        client = driver.connect(provider.url)
        try:
            return await work(Agent(driver, client))
        finally:
            await driver.close(client)

    return asyncio.run(whole()) if driver.is_async else finish(whole())


def attempt(
    driver: Driver,
    provider: Provider,
    url: str,
    work: Work[R],
    *,
    run: str = "a",
    enter: Mapping[str, Any] = {},
    **options: Any,
) -> R:
    """Work with the wrapped client as one attempt of a run. ``enter``: for the run; ``options``: for ``wrap``."""

    provider.script.tell({"flavour": driver.flavour})

    async def whole() -> R:
        plain = driver.connect(provider.url)
        try:
            client = holdfast.wrap(plain, **{"patience": QUICK, **options})
            if driver.is_async:
                async with holdfast.run(run, store=url, **enter) as awaited:
                    result = await work(Agent(driver, client, awaited))
            else:
                with holdfast.run(run, store=url, **enter) as blocking:
                    result = await work(Agent(driver, client, blocking))
            return result
        finally:
            await driver.close(plain)

    return asyncio.run(whole()) if driver.is_async else finish(whole())


def events(url: str, kind: str) -> list[dict[str, Any]]:
    """What the journal of the run has of this kind."""
    return [contents_of(event.body) for event in holdfast.store(url).events("a") if event.kind == kind]

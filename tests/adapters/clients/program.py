"""An agent that is killed: ``program DRIVER PROVIDER STORE CALLS``. It says what it has, and waits for leave to go on."""

import asyncio
import sys
from hashlib import sha256
from importlib import import_module

from tests.adapters.clients.drivers import Agent, Driver, finish

import holdfast


def driver_named(name: str) -> Driver:
    """The driver with this name. The clients of others are not imported: that takes seconds."""
    module = import_module(f"tests.adapters.clients.{name.partition('-')[0]}_drivers")
    kinds = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, Driver)]
    return next(kind() for kind in kinds if getattr(kind, "name", "") == name)


async def work(agent: Agent, calls: int) -> None:
    """Ask and read in turn; who reads the output answers a line to each, or kills."""
    for number in range(calls):
        text = f"Part {number} of the tale of the sea."
        answer = await (agent.read(text) if number % 2 else agent.ask(text))
        print(number, sha256(answer.encode()).hexdigest(), flush=True)
        sys.stdin.readline()


async def main(driver: Driver, url: str, store: str, calls: int) -> None:
    """One attempt."""
    plain = driver.connect(url)
    agent = Agent(driver, holdfast.wrap(plain))
    try:
        if driver.is_async:
            async with holdfast.run("a", store=store):
                await work(agent, calls)
        else:
            with holdfast.run("a", store=store):
                await work(agent, calls)
    finally:
        await driver.close(plain)


if __name__ == "__main__":
    _, name, provider, place, count = sys.argv
    driver = driver_named(name)
    whole = main(driver, provider, place, int(count))
    asyncio.run(whole) if driver.is_async else finish(whole)

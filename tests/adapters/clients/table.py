"""All clients that the common tests run with."""

from typing import Final

from tests.adapters.clients.drivers import Driver
from tests.adapters.clients.groq_drivers import AsyncGroq, Groq

DRIVERS: Final[tuple[Driver, ...]] = (
    Groq(),
    AsyncGroq(),
)

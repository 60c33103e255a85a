"""Some of the programs of the store model, over every store; ``make judge-stores`` runs thousands."""

import pytest
from tests.judges.stores import drive
from tests.support.examples import examples

SHARES = {"memory": 60, "sqlite": 40, "encrypted-memory": 20, "encrypted-sqlite": 8}


@pytest.mark.parametrize(("kind", "count"), SHARES.items(), ids=list(SHARES))
def test_a_store_does_what_the_model_says(kind: str, count: int) -> None:
    """Each call, and all that can be read behind it, as the model of dicts has it."""
    drive(kind, examples(count))


@pytest.mark.parametrize(("kind", "count"), [("postgresql", 5), ("encrypted-postgresql", 3)])
def test_a_store_on_postgresql(kind: str, count: int, postgres_server: str) -> None:
    """The same over a real server."""
    drive(kind, examples(count), postgres_server)


@pytest.mark.slow
def test_a_store_on_dynamodb() -> None:
    """One of them over a socket, where each step is a dozen requests."""
    drive("dynamodb", 1)

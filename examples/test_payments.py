"""Two agents that pay an invoice, and the crash matrix that tells them apart.

`pytest examples/test_payments.py` kills each of them before and after everything it writes, and counts the
payments. The naive one pays twice: its payment is a plain step, which is made again when its outcome did not
reach the disk. The careful one has a tool with an idempotency key and a way to ask whether it has paid.
"""

from pathlib import Path

import pytest

import holdfast
from holdfast.testing.crash_matrix import CrashMatrix

BANK = "payments.txt"


def transfer(amount: int, key: str) -> str:
    """The bank. It knows its customers' keys, and pays what it is told."""
    with Path(BANK).open("a", encoding="utf-8") as bank:
        bank.write(f"{key} {amount}\n")
    return f"paid {amount}"


@holdfast.agent("naive")
def naive(run: holdfast.Run, amount: int) -> str:
    """A payment as a plain step."""
    run.step("read the invoice", len, "an invoice")
    return run.step("pay", transfer, amount, "invoice-7")


def is_paid(amount: int, idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    """Whether the bank has paid under this key."""
    paid = Path(BANK).read_text(encoding="utf-8") if Path(BANK).exists() else ""
    return holdfast.Done(f"paid {amount}") if idempotency_key in paid else holdfast.NotDone()


@holdfast.tool(effect="once", verify=is_paid, settle_s=0)
def pay(amount: int, *, idempotency_key: str = holdfast.KEY) -> str:
    """A payment that is looked up before it is made again."""
    return transfer(amount, idempotency_key)


@holdfast.agent("careful")
def careful(run: holdfast.Run, amount: int) -> str:
    """The same work, with that tool."""
    run.step("read the invoice", len, "an invoice")
    return pay(amount)


def payments(directory: Path) -> dict[str, int]:
    """How often was paid, whatever the key."""
    path = directory / BANK
    return {"payments": len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0}


def test_the_careful_agent_pays_once(crash_matrix: CrashMatrix) -> None:
    """Wherever it is killed, the invoice is paid once."""
    report = crash_matrix(careful, 5, effects=payments, start="fork")
    assert report.kills > 10


def test_the_naive_agent_pays_twice(crash_matrix: CrashMatrix) -> None:
    """The matrix finds the kill between the payment and its record, and names it."""
    with pytest.raises(AssertionError, match="'payments' happened 2 times, undisturbed 1"):
        crash_matrix(naive, 5, effects=payments, start="fork")

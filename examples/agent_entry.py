"""A function as an agent: its arguments are the run's inputs, ``.main()`` is its command line.

python examples/agent_entry.py books --inputs '{"ledger": "march", "pages": 3}'
python examples/agent_entry.py books --inputs '{"ledger": "april"}'      # refused: other inputs, same id
"""

import holdfast


def read_page(ledger: str, page: int) -> int:
    return len(ledger) * 100 + page


@holdfast.agent("auditor")
def audit(run: holdfast.Run, ledger: str, pages: int = 2) -> str:
    """Add up a ledger, page by page."""
    total = 0
    for page in range(1, pages + 1):
        total += run.step("read_page", read_page, ledger, page)
        run.checkpoint({"page": page, "total": total})
    run.decide(f"{ledger} is in order", because=f"its {pages} pages add up to {total}")
    return f"{ledger}: {total}"


if __name__ == "__main__":
    audit.main()

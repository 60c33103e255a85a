"""A function as a hook: it is called when the run needs a person, and when it has ended.

python examples/hook_function.py          # asks, and parks
holdfast answer payments q1 yes
python examples/hook_function.py          # pays, and finishes
"""

import holdfast


def tell(notice: holdfast.Notice) -> None:
    """Print what happened, and what to type."""
    print(f"[{notice.on}] {notice.text}", flush=True)
    for question in notice.questions:
        print("  " + question.commands[0].partition(" --store")[0], flush=True)


holdfast.hook(tell, on=["needs-person", "finished", "failed"])


@holdfast.tool(effect="once", approve=lambda arguments: f"Pay {arguments['amount']} euro?")
def pay(amount: int) -> str:
    """An effect that a person must allow."""
    return f"paid {amount}"


with holdfast.run("payments", stops="suppress") as run:
    print(pay(5), flush=True)

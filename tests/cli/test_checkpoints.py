"""``holdfast checkpoints``: the saved states of a run, and where to go from them."""

import json
from textwrap import dedent
from typing import TYPE_CHECKING

import holdfast

if TYPE_CHECKING:
    from tests.cli.conftest import Shop


def test_one_line_a_checkpoint(shop: "Shop") -> None:
    """Its number, label, time, size and state; and the next commands for the latest."""
    assert shop("checkpoints", "debt-cycles").out == dedent("""\
        POINT  LABEL    SAVED                    BY       ATTEMPT      SIZE  STATE
            6  draft-1  2026-03-01 14:02:13 UTC  program        1  37 bytes  {"draft": "Debt cycles …", "facts": 2}

          holdfast show debt-cycles@draft-1 --store STORE  # the full state
          holdfast fork debt-cycles@draft-1 --as NAME --store STORE
        """)


def test_autosaves_and_what_is_to_be_rebuilt(own_shop: "Shop") -> None:
    """Who asked for each, how large the state was, and what was left out of it."""
    with holdfast.run("a", store=own_shop.store) as run:
        state = {"i": 0, "db": holdfast.ephemeral(object()), "text": "word " * 100}
        run.autosave(lambda: state, every_steps=1)
        run.step("look", lambda: 1)
        run.checkpoint({"done": True})
    found = json.loads(own_shop("checkpoints", "a", "--json").out)
    assert [(c["by"], c["state"], c["rebuild"]) for c in found["checkpoints"]] == [
        ("autosave", "(540 bytes)", ["db"]),
        ("program", '{"done": true}', []),
    ]
    assert found["total"] == 2
    shown = own_shop("checkpoints", "a", "--tail", "1").out
    assert "autosave" not in shown
    assert "done" in shown


def test_a_run_without_any_says_how_to_make_them(shop: "Shop") -> None:
    """And is no error."""
    done = shop("checkpoints", "ledger")
    assert done.code == 0
    assert "no checkpoints in ledger; run.checkpoint(state) or run.autosave(get_state) makes them" in done.out

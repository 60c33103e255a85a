"""The law of a compacted conversation: what is kept of its records comes to the same messages."""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from orjson import dumps
from tests.support.examples import examples

from holdfast.core.llm.conversation_fold import ConversationEvent, standing_messages
from holdfast.model.event_fields import contents_of

Record = tuple[str, int, int]
"""What it does, how many messages it brings or drops, how many it keeps."""

records = st.lists(
    st.tuples(st.sampled_from(["add", "drop", "mend", "unsaid"]), st.integers(0, 4), st.integers(0, 8)),
    max_size=12,
)


def journal(made: list[Record]) -> tuple[list[ConversationEvent], set[int]]:
    """Records as a run would have them: nothing is dropped or kept that is not there."""
    said: list[ConversationEvent] = []
    unsaid: set[int] = set()
    length = 0
    for seq, (what, number, keep) in enumerate(made, 1):
        messages = [f"{seq}.{n}" for n in range(number)]
        if what == "drop":
            dropped = min(number, length)
            said.append(ConversationEvent(seq, True, dumps({"value": {"first": dropped}})))
            length -= dropped
        elif what == "mend":
            kept = min(keep, length)
            said.append(ConversationEvent(seq, False, dumps({"keep": kept, "value": messages}), seq))
            length = kept + number
        else:
            said.append(ConversationEvent(seq, False, dumps({"value": messages or ["one"]})))
            if what == "unsaid":
                unsaid.add(seq)
            else:
                length += number or 1
    return said, unsaid


def spoken(records_: list[ConversationEvent], unsaid: set[int]) -> list[Any]:
    messages: list[Any] = []
    for said in records_:
        body = contents_of(said.body or b"")
        if said.seq in unsaid:
            continue
        if said.is_drop:
            del messages[: body["value"]["first"]]
        elif said.mends_upto is not None:
            messages[body["keep"] :] = body["value"]
        else:
            messages += body["value"]
    return messages


@settings(max_examples=examples(400), deadline=None)
@given(records)
@example([("add", 3, 0), ("mend", 1, 2), ("drop", 1, 0)])
@example([("add", 3, 0), ("mend", 0, 1), ("add", 1, 0), ("drop", 2, 0)])
@example([("add", 3, 0), ("mend", 0, 2), ("add", 1, 0), ("mend", 0, 3)])
@example([("unsaid", 2, 0), ("add", 1, 0), ("drop", 1, 0)])
def test_what_is_kept_comes_to_the_same_messages(made: list[Record]) -> None:
    """However messages were added, dropped and mended, and whatever stands recorded that was never said again.

    Planted: the count of a repair not moved by what was dropped behind it; records shortened by a repair counted whole;
    records that were not said counted among those that were.
    """
    said, unsaid = journal(made)

    def read(address: str) -> bytes:
        raise AssertionError(address)

    kept = list(standing_messages(said, unsaid, read))
    assert spoken(kept, unsaid) == spoken(said, unsaid)
    assert len(kept) <= len(said) + 1

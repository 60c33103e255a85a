"""The context of a run, from its store: read for whoever looks, and drawn for the program itself.

What the program gets is recorded like any value from outside: put into a model's request and made anew on replay, it would be
another request. So a replay gives the recorded text; only where the program goes on does it tell the present.
"""

from orjson import loads

from holdfast.codec.values import canonical, decode_tree
from holdfast.engine.hands import Hands
from holdfast.engine.journal import content_in, read_all, read_blob
from holdfast.engine.marks import draw
from holdfast.engine.tenure import Tenure
from holdfast.limits import CONTEXT_READ_BYTES_MAX, CONTEXT_VALUE_BYTES_MAX
from holdfast.model.contexts import Context, Count, Style
from holdfast.model.events import CONTEXT
from holdfast.model.handoffs import Handed, Loss
from holdfast.stores.port import StorePort

# Every program that opens a run loads this module; the words of a context are imported when one is made.


class Reader:
    """Reads stored values up to a bound, each and together; what is beyond it is told by its size."""

    def __init__(
        self,
        store: StorePort,
        *,
        each_bytes: int = CONTEXT_VALUE_BYTES_MAX,
        all_bytes: int = CONTEXT_READ_BYTES_MAX,
    ) -> None:
        self._store = store
        self._each, self._left = each_bytes, all_bytes

    def __call__(self, address: str, size_bytes: int) -> bytes | None:
        """The content at an address, of so many bytes; None beyond the bound. Corrupt if it is damaged."""
        if size_bytes > min(self._each, self._left):
            return None
        self._left -= size_bytes
        return read_blob(self._store, address)


def recount(
    store: StorePort,
    run: str,
    *,
    budget_tokens: int,
    style: Style,
    count: Count | None,
    is_held: bool,
    upto_seq: int | None = None,
) -> Context:
    """The context of a run as it stands, or as it stood at an event. Nothing is written."""
    from holdfast.core.context import context_of

    return context_of(
        read_all(store, run, upto_seq=upto_seq),
        Reader(store),
        budget_tokens=budget_tokens,
        style=style,
        count=count,
        is_held=is_held,
    )


async def draw_context(
    tenure: Tenure, hands: Hands, budget_tokens: int, style: Style, count: Count | None
) -> str:
    """The text of the run's context, drawn once: the same in every replay. Synced when it returns."""
    from holdfast.core.context import check_options

    check_options(budget_tokens, style)

    def make() -> str:
        context = recount(
            tenure.store, tenure.run, budget_tokens=budget_tokens, style=style, count=count, is_held=True
        )
        return context.text

    options = {"budget_tokens": budget_tokens, "style": style}
    data = canonical(options, what=f"{CONTEXT} of run {tenure.run}")
    text: str = await draw(tenure, hands, CONTEXT, make, data)
    return text


def handed_to(tenure: Tenure) -> Handed | None:
    """What the run began with where it has taken over; None where it began by itself."""
    event = tenure.view.handed
    if event is None:
        return None
    document = loads(content_in(tenure.store, event))
    return Handed(
        document["run"],
        document["store"],
        document["event"],
        document,
        decode_tree(document["state"], what=f"state of run {document['run']}"),
        [decode_tree(message, what="message") for message in document["messages"]],
        tuple(Loss(**loss) for loss in loads(event.body)["losses"]),
    )

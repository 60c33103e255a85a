"""Turns states into nodes that are stored once, and puts nodes together again.

Invariant: this module writes nothing. The append that records a checkpoint stores its new nodes, so a crash
leaves a state complete or absent.
"""

from collections.abc import Callable, Sequence
from threading import Lock, current_thread
from threading import enumerate as enumerate_threads
from typing import TYPE_CHECKING, Any

from orjson import dumps

from holdfast.codec.blobs import address_of, pack
from holdfast.codec.values import decode_tree, encode_state, left_out, may_have_tags
from holdfast.core.journal import run_row_facts
from holdfast.core.state.assemble import gather
from holdfast.core.state.nodes import Fetch, unpack_nodes
from holdfast.core.state.tree import Planted, StoredNodes
from holdfast.core.state.unchanged import Rest, whole
from holdfast.engine.journal.blob_content import read_blobs
from holdfast.engine.journal.journal import chain_of
from holdfast.engine.journal.pause_gc import without_collecting
from holdfast.errors import Corrupt, NotStorable, StateChanged
from holdfast.model.markers import KNOWN
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import Blob
from holdfast.stores.port import StorePort

if TYPE_CHECKING:
    from holdfast.engine.sync_async import Runtime

WHAT = "state of the checkpoint"
REQUEST = "request"
"""The series of model requests: each is compared with the last one, and states with the last state."""
_OURS = (
    "holdfast-autosave",
    "holdfast-doorbell",  # of the inbox wakeup
    "holdfast-flusher",
    "holdfast-heartbeat",
    "holdfast-hooks",  # functions of the program run in threads of another name
    "holdfast-intents",  # writes the intents of reads that take long
    "holdfast-listener",  # of PostgreSQL
    "holdfast-mirror",
    "holdfast-store",  # one of several
    "holdfast-ttl",  # of the LangGraph store
)
"""How the names of threads begin in which no code of the program runs."""


class Building:
    """While it is entered, no prune may delete what a state refers to, recorded or not."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self.count = 0

    def __enter__(self) -> None:
        with self._lock:
            self.count += 1

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self.count -= 1


class States:
    """The states of one held run: each writes only nodes that no state before it wrote."""

    def __init__(self, store: StorePort, run: str) -> None:
        self._store = store
        self._run = run
        self._lock = Lock()
        self._nodes: StoredNodes | None = None
        self._has_learned = False
        self.building = Building(self._lock)
        """Entered from ``build_on`` to ``settle``."""
        self.lineage: str | None = None
        """The lineage that the packs belong to, once it is read; see ``lineage_of``."""

    async def learn_first(self, runtime: "Runtime", roots: Callable[[], Sequence[Any]]) -> None:
        """In an event loop: read in a thread what earlier attempts have stored, before a state is taken."""
        if runtime.waits and not self._has_learned and (known := roots()):
            await runtime.store(self._learn_now, known)

    def _learn_now(self, roots: Sequence[Any]) -> None:
        with self._lock:
            if not self._has_learned:
                self._learn(self._fresh_nodes(), roots)

    def take(
        self, state: Any, *, what: str = WHAT, series: str = "", is_copy: bool = False, is_json: bool = False
    ) -> "Taken":
        """The state as nodes. NotStorable; TooLarge; StateChanged by another thread.

        If other threads could change it, it is encoded twice and compared: a state that is part old and part
        new must not be recorded. ``is_copy``: no other thread has it; ``is_json``: and it was parsed from
        JSON. What earlier attempts have stored need not be known here, only in ``build_on``.
        """
        if is_json and not KNOWN and (parsed := self._taken_as_json(state, series)) is not None:
            return parsed
        taken = self._look(state, what, series)
        if (
            not (is_copy or is_json)
            and _others_run()
            and self._look(state, what, series).planted.identity != taken.planted.identity
        ):
            raise StateChanged(run=self._run, problem="looked at twice, it differed")
        return taken

    def _look(self, state: Any, what: str, series: str) -> "Taken":
        try:
            try:
                return self._taken(state, what, series, careful=False)
            except TypeError:
                # An int or a text that orjson cannot write. It is rare, so a second walk costs less than a
                # check.
                return self._taken(state, what, series, careful=True)
        except RuntimeError as error:  # another thread changed the size of a dict or set during the walk
            raise StateChanged(run=self._run, problem=str(error)) from error

    def _taken(self, state: Any, what: str, series: str, *, careful: bool) -> "Taken":
        known = tuple(KNOWN)  # before anything is encoded: what is known from now on may be in it
        # Without the lock: what is remembered is replaced, never changed.
        nodes = self._nodes
        rest = nodes.rest_of(state, known) if nodes is not None and series != REQUEST else None
        if nodes is not None and rest is not None:
            taken = self._taken_rest(rest, what, nodes, known, careful=careful)
            if taken is not None:
                return taken
        tree, rebuild = encode_state(state, what=what, careful=careful)
        with self._lock:
            nodes = self._fresh_nodes()
            return Taken(nodes.plant(tree, series=series, known=known), rebuild, tree, nodes)

    def _taken_rest(
        self,
        rest: Rest,
        what: str,
        nodes: StoredNodes,
        known: tuple[bytes, ...],
        *,
        careful: bool,
    ) -> "Taken | None":
        """The state, of which only the rest is encoded; None if all of it must be."""
        try:
            tree, rebuild = encode_state(rest.state, what=what, careful=careful)
        except NotStorable:  # it names another place than that in the whole state
            return None
        with self._lock:
            if nodes is not self._fresh_nodes():  # a prune came in between
                return None
            planted = nodes.plant_rest(rest, tree, known)
        if planted is None:
            return None
        return Taken(planted, left_out(whole(rest, tree)) if rebuild else rebuild, tree, nodes, rest)

    def _taken_as_json(self, tree: Any, series: str) -> "Taken | None":
        """As it is; None if the codec must look at it."""
        with self._lock:
            nodes = self._fresh_nodes()
            planted = nodes.plant_json(tree, series=series)
        return None if planted is None else Taken(planted, [], tree, nodes)

    def identity_in_clear(self, taken: "Taken") -> bytes | None:
        """The identity of a state before the secrets in it were known; None if it has none."""
        from holdfast.codec.filled_secrets import clear_tree, may_be_hidden

        # What is as it was in the last state has no secret.
        tree = clear_tree(taken.whole()) if may_be_hidden(dumps(taken.tree)) else None
        return None if tree is None else StoredNodes(address_of).plant(tree).identity

    def build_on(self, known: Sequence[Any], taken: "Taken") -> Planted:
        """The nodes to record, given the roots of earlier states, which another attempt may have stored."""
        with self._lock:
            nodes = self._fresh_nodes()
            is_known = not known or self._has_learned
            if not is_known:
                self._learn(nodes, known)
            # Nodes of another ``StoredNodes``: a prune came in between, and they may refer to deleted packs.
            if is_known and nodes is taken.nodes:
                return taken.planted
            planted = nodes.plant(taken.whole(), series=taken.planted.series)
        if planted.identity != taken.planted.identity:  # the tree shares containers with the state
            raise StateChanged(run=self._run, problem="it differed when it was about to be written")
        return planted

    def let_go(self) -> bool:
        """Forget what is stored, since a prune is about to delete; False while a state builds on it."""
        with self._lock:
            if self.building.count:
                return False
            self._forget()
            return True

    def _fresh_nodes(self) -> StoredNodes:
        if self._nodes is None or self._nodes.is_overgrown:
            self._forget()
            if self.lineage is None:
                self.lineage = lineage_of(self._store, self._run)
            self._nodes = StoredNodes(address_of, self.lineage)
        return self._nodes

    def settle(self, planted: Planted) -> None:
        """Note that the state is in the journal: later states may refer to its nodes."""
        with self._lock:
            if self._nodes is not None:
                self._nodes.settle(planted)
                self._has_learned = True

    def _learn(self, nodes: StoredNodes, roots: Sequence[Any]) -> None:
        for root in roots:
            nodes.learn(root, fetcher(self._store))
        self._has_learned = True

    def _forget(self) -> None:
        self._nodes, self._has_learned = None, False


class Taken(NamedTuple):
    """A state at one moment, and the paths of values left out.

    ``tree`` may share containers with the state. It is the tree of ``rest``, if there is one.
    """

    planted: Planted
    rebuild: list[str]
    tree: Any
    nodes: StoredNodes
    rest: Rest | None = None

    def whole(self) -> Any:
        """The tree of the whole state."""
        return self.tree if self.rest is None else whole(self.rest, self.tree)


def _others_run() -> bool:
    """Whether the program has other threads. Holdfast's own threads never change a state."""
    here = current_thread()
    return any(not t.name.startswith(_OURS) for t in enumerate_threads() if t is not here)


def blobs_of(planted: Planted) -> tuple[Blob, ...]:
    """The packs as the store keeps them."""
    return tuple([Blob(address, pack(data)) for address, data in planted.packs])


def fetcher(store: StorePort) -> Fetch:
    """A function that reads nodes from this store, each pack verified against its address."""
    return lambda addresses: {address: unpack_nodes(data) for address, data in read_blobs(store, addresses)}


def read_state(store: StorePort, root: Any) -> Any:
    """The state's tree, as it was encoded. Corrupt if a part is missing or damaged."""
    return _gathered(store, root, fetcher(store))


def state_at(store: StorePort, root: Any) -> Any:
    """The state as a new value."""
    has_tags = may_have_tags(dumps(root))

    def fetch(addresses: Sequence[str]) -> dict[str, list[bytes]]:
        nonlocal has_tags
        found: dict[str, list[bytes]] = {}
        for address, data in read_blobs(store, addresses):
            has_tags = has_tags or may_have_tags(data)
            found[address] = unpack_nodes(data)
        return found

    tree = _gathered(store, root, fetch)
    return decode_tree(tree, what=WHAT) if has_tags else tree  # the tree is new, too


@without_collecting()
def _gathered(store: StorePort, root: Any, fetch: Fetch) -> Any:
    try:
        return gather(root, fetch)
    except Corrupt as damage:
        raise Corrupt(store=store.url, problem=damage.fields["problem"]) from damage


def lineage_of(store: StorePort, run: str) -> str:
    """The lineage that packs belong to: a name that all runs of one tree of forks share, and no others."""
    return run_row_facts.lineage_of(chain_of(store, run))

"""What a store handle tells of the store's health, and what it makes anew when asked to."""

from collections.abc import Callable, Iterator

from holdfast.engine.run.store_session import StoreSession
from holdfast.limits import RUN_PAGE_MAX
from holdfast.model.markers import Neutral
from holdfast.model.store_rows import Finding, RunRow
from holdfast.stores.port import StorePort


class Examining(Neutral):
    """The part of a store handle that looks for damage."""

    _session: StoreSession

    @property
    def _port(self) -> StorePort:
        return self._session.store

    def _row(self, run: str) -> RunRow:
        raise NotImplementedError

    def _rows(self, prefix: str, page_size: int) -> Iterator[RunRow]:
        raise NotImplementedError

    def ailments(self, run: str) -> list[str]:
        """What is wrong with the run's recorded conversation: which messages no provider would take, and why."""
        from holdfast.engine.llm.repair_run import problems_of

        self._row(run)
        return [f"message {problem.at}: {problem.text}" for problem in problems_of(self._port, run)]

    def examine(self) -> list[Finding]:
        """What is sound about the store and what is not."""
        return self._port.examine()

    def examine_blobs(
        self, *, full: bool = False, progress: Callable[[int, int], None] = lambda _done, _of: None
    ) -> list[Finding]:
        """Whether contents are there and are what their addresses say: of a large store a part, or ``full``."""
        from holdfast.engine.damage.blob_check import check_blobs

        return list(check_blobs(self._port, self._rows("", RUN_PAGE_MAX), full=full, progress=progress))

    def examine_index(self) -> Finding | None:
        """Whether what finds facts and events is in step with them; None where there is no index."""
        from holdfast.engine.memory.history_index import examined

        return examined(self._session, self._rows("", RUN_PAGE_MAX))

    def rebuild_index(self) -> tuple[int, int]:
        """Make what finds facts and events anew, with the embedder in use; how many facts, and how many events there are."""
        from holdfast.engine.memory import history_index, remember
        from holdfast.engine.memory.index_cache import IndexLost

        self._port.drop_index()
        try:
            found = remember.rebuild(self._session)
            return found, history_index.rebuild(self._session, self._rows("", RUN_PAGE_MAX))
        except IndexLost as lost:
            raise lost.error from lost

"""The part of a store handle that checks the store's health and rebuilds its search index."""

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
        """The messages of the run's conversation that no provider would accept, and why."""
        from holdfast.engine.llm.repair_run import problems_of

        self._row(run)
        return [f"message {problem.at}: {problem.text}" for problem in problems_of(self._port, run)]

    def examine(self) -> list[Finding]:
        """Check the store itself: what is sound, and what is not."""
        return self._port.examine()

    def examine_blobs(
        self, *, full: bool = False, progress: Callable[[int, int], None] = lambda _done, _of: None
    ) -> list[Finding]:
        """Check that blobs exist and match their addresses: a sample of a large store, or all (``full``)."""
        from holdfast.engine.damage.blob_check import check_blobs

        return list(check_blobs(self._port, self._rows("", RUN_PAGE_MAX), full=full, progress=progress))

    def examine_secrets(self) -> list[Finding]:
        """Where known secrets, and what has the shape of a token, stand in clear. Values are not shown."""
        from holdfast.engine.secrets.secret_scan import scan

        return list(scan(self._port, self._rows("", RUN_PAGE_MAX)))

    def examine_index(self) -> Finding | None:
        """Check that the search index agrees with facts and events; None if there is no index."""
        from holdfast.engine.memory.history_index import examined

        return examined(self._session, self._rows("", RUN_PAGE_MAX))

    def rebuild_index(self) -> tuple[int, int]:
        """Rebuild the search index with the current embedder. Returns the number of facts and of events."""
        from holdfast.engine.memory import history_index, remember
        from holdfast.engine.memory.index_cache import IndexLost

        self._port.drop_index()
        try:
            found = remember.rebuild(self._session)
            return found, history_index.rebuild(self._session, self._rows("", RUN_PAGE_MAX))
        except IndexLost as lost:
            raise lost.error from lost

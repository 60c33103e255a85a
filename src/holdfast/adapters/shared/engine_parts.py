"""The modules of Holdfast that adapters call, each loaded when a call first needs it.

Type checkers and editors see plain imports. A class that a framework makes its own, such as a checkpointer,
can be named without the engine behind it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.api.store import store as store_handle
    from holdfast.core.threads import chains as chain_rules
    from holdfast.engine.lineage import fork as forks
    from holdfast.engine.run import entry
    from holdfast.engine.threads import chain_removal
    from holdfast.engine.threads import chains as chained_runs
else:
    from holdfast.api.late import LazyModule

    store_handle = LazyModule("holdfast.api.store.store")
    chain_rules = LazyModule("holdfast.core.threads.chains")
    forks = LazyModule("holdfast.engine.lineage.fork")
    entry = LazyModule("holdfast.engine.run.entry")
    chain_removal = LazyModule("holdfast.engine.threads.chain_removal")
    chained_runs = LazyModule("holdfast.engine.threads.chains")

__all__ = ["chain_removal", "chain_rules", "chained_runs", "entry", "forks", "store_handle"]

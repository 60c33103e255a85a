"""LangGraph on Holdfast: threads that survive, tools that are not repeated, and a memory.

::

    from holdfast.adapters.langgraph import HoldfastSaver, durable_tools

    graph = builder.compile(checkpointer=HoldfastSaver("sqlite:///agent.db"))
"""

from holdfast.engine.journal.pause_gc import without_collecting

with without_collecting():
    # collecting would only walk LangGraph's many new objects, none of which is garbage
    from holdfast.adapters.shared.journaled_calls import not_installed

    try:
        from holdfast.adapters.langgraph.nodes import durable_node
        from holdfast.adapters.langgraph.saver import HoldfastSaver
        from holdfast.adapters.langgraph.store import HoldfastStore
        from holdfast.adapters.langgraph.thread_import import import_threads
        from holdfast.adapters.langgraph.tools import durable_tools
    except ImportError as error:
        raise not_installed("holdfast.adapters.langgraph", "langgraph", error) from error

__all__ = ["HoldfastSaver", "HoldfastStore", "durable_node", "durable_tools", "import_threads"]

"""The wire: model calls of any client that speaks HTTP, journaled below the client as JSON.

A provider is a *shape* (``shapes``): which requests are model calls, and how answers and streams are read.
The transport (``transport``) is the same for all.
"""

from holdfast.adapters.wire.server_probes import readiness
from holdfast.adapters.wire.wrapped_client import replayed, wrap

__all__ = ["readiness", "replayed", "wrap"]

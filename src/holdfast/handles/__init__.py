"""What a program holds: ``Run`` and ``AsyncRun``, thin facades over the same rules, with the same names.

They add nothing but the way of waiting. A call on a handle is one line; what it means stands in ``engine``.
"""

from holdfast.handles.awaiting import AsyncRun, AsyncRunOptions
from holdfast.handles.blocking import Run, RunOptions
from holdfast.handles.conversations import AsyncMessages, Messages

__all__ = ["AsyncMessages", "AsyncRun", "AsyncRunOptions", "Messages", "Run", "RunOptions"]

"""The rules that use the store, the clock and the user's code. ``core`` decides; this layer acts.

Each rule is written once, as an ``async def`` over a ``Runtime``. The blocking runtime never suspends, so one
``send(None)`` finishes the coroutine; the async runtime awaits.
"""

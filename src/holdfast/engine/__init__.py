"""The rules that interleave store, clock and the user's code.

Each is written once, as ``async def`` over a pair of hands: the blocking hands never suspend, so one
``send(None)`` finishes the coroutine; the async hands await.
"""

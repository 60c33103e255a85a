"""The surfaces: each module has a ``check(data)``, which raises for a defect and for nothing else, and what it refuses is typed.

A module has one task: take bytes that anybody could have written, give them to one reader of Holdfast, and look whether what
came of it is a refusal of ours or sound. ``CORPUS`` beside it has inputs that are valid, and every one that ever did harm.
"""

from typing import Final

SURFACES: Final = (
    "event_bodies",
    "handoffs",
    "imports",
    "inspector_requests",
    "mcp_calls",
    "points",
    "proxy_requests",
    "state_nodes",
    "store_urls",
    "values",
)

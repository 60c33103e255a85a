"""The order of the site: every page of it, once, in its four parts.

A page is named by its path in docs/ without its ending. The pages of CLI, API and errors are made from the code
and listed by the page of their part.
"""

from typing import Final

PARTS: Final[dict[str, tuple[str, ...]]] = {
    "Start": (
        "start/install",
        "start/first-kill",
        "start/your-agent",
        "frameworks",
        "examples/index",
    ),
    "Guide": ("guide/index", "tour"),
    "Guide: steps": (
        "guide/replay",
        "guide/effects",
        "guide/runs",
        "guide/code-changes",
        "guide/premises",
        "guide/concurrency",
    ),
    "Guide: state and history": (
        "guide/state",
        "guide/forks",
        "guide/retention",
        "guide/durability",
        "guide/transfer",
        "artifacts",
    ),
    "Guide: models": (
        "models",
        "guide/conversation",
        "guide/context",
        "guide/budgets",
        "guide/loops",
        "memory",
    ),
    "Guide: people and agents": ("guide/people", "hooks", "handoff", "guide/workers"),
    "Guide: operation": (
        "inspector",
        "deploying",
        "damaged-stores",
        "guide/postgresql",
        "guide/dynamodb",
        "testing-your-agent",
        "guide/security",
        "secrets",
        "encryption",
        "threat-model",
        "mirror",
    ),
    "Reference": (
        "reference/index",
        "commands",
        "reference/errors",
        "reference/configuration",
        "limits",
        "reference/storage-format",
        "reference/http-api",
        "glossary",
    ),
    "Behind it": (
        "architecture",
        "guarantees",
        "testing",
        "numbers",
        "kills",
        "comparison",
        "stability",
        "adr/index",
        "contributing",
        "releasing",
        "changelog",
        "history",
    ),
}

UNDER: Final[dict[str, str]] = {"frameworks": "frameworks", "adr/index": "adr", "examples/index": "examples"}
"""Pages that list a folder's: all of them, in the order of their names."""

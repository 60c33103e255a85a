"""The format of what is in the table, and refusing one that this code does not know.

Two marks say it. Each handle reads the table's own item once. Each run's row says its own, because a table is
not migrated as a whole: a run of format 1 stays what it is until it is taken or appended to.
"""

from typing import Final

from holdfast.errors import NewerFormat
from holdfast.stores.dynamodb.address import Target

FORMAT: Final = 2
MARK_KEY: Final = {"pk": "format", "sk": "format"}


def check_format(version: int, target: Target) -> None:
    """Refuse a format that this code does not know."""
    if version > FORMAT:
        raise NewerFormat(
            store=target.url,
            problem=f"its format is {version}; this Holdfast knows formats up to {FORMAT}",
        )

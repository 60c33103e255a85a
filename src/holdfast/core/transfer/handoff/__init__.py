"""The handoff: a document with which another agent takes over a run's work. It is made from the journal.

It is JSON with a schema for programs, and the same as Markdown for people. Every item names the events of the
giver's journal that it comes from. A digest over the document shows whether it was changed.
"""

from holdfast.core.transfer.handoff.carried_effects import Effect
from holdfast.core.transfer.handoff.document import HandoffContents, document_of
from holdfast.core.transfer.handoff.markdown import markdown
from holdfast.core.transfer.handoff.schema import FORMAT, SCHEMA
from holdfast.core.transfer.handoff.validate import check_document, digest_of, read_document

__all__ = [
    "FORMAT",
    "SCHEMA",
    "Effect",
    "HandoffContents",
    "check_document",
    "digest_of",
    "document_of",
    "markdown",
    "read_document",
]

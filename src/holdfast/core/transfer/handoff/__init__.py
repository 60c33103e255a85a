"""The handoff: a document with which another agent takes a run's work over, made of its journal and of nothing else.

It is data (JSON, with a schema) that a program reads, and the same as Markdown for people. Every item names the events of the
giver's journal that it comes from. A digest over all of it tells whether it is the document that was written.
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

"""The tuple tree: identities, roots, the XOR ledger. Pure: no I/O, no clock of its own, nothing of `topology`."""

from acker.identity import MessageId
from acker.ledger import Ledger, Tree

__all__ = ["Ledger", "MessageId", "Tree"]

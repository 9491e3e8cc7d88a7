"""The tuple tree: identities of tuples, roots, and the ledger that tracks each tree by one XOR value.

A spout's message begins a tree under a `roots` number. Each ack mixes edges into the tree's value, and the `ledger`
completes the tree when the value is 0 (Storm's algorithm). Pure: must not know I/O, a clock, or anything of `topology`.

Imports nothing of: topology, asyncio, os, socket, time
"""

from acker.identity import MessageId
from acker.ledger import Ledger, Tree

__all__ = ["Ledger", "MessageId", "Tree"]

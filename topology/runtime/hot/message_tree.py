"""The tree of a message: what a replay of it needs, whether a spout has emitted it or it is a letter's.

Must not know spouts, nor how a message is emitted.
"""

from typing import Any

from acker.ledger import Tree
from topology.components import Message


class MessageTree(Tree):
    """A message under way: its tree, and what a replay needs. Alive from its emission until it is acked or dead.

    Its `value` is zero from the moment on at which it is done, acked or dead, and never before: a message that has
    failed keeps another one, whatever its tree had (E3).
    """

    message: Message[Any]
    seed: int  # of its partition's epoch when it was emitted
    owner: Any  # a `TreeOwner`: the SpoutTask that emitted it, or the letters that it is delivered for
    started_at: float  # loop time of the first emission
    own: int = 0  # failures that its own tuples were the cause of
    failing: float = 0.0  # loop time of the first of these
    others: int = 0  # failures of what is around it (E6)
    renamed: tuple[int, ...] = ()  # messages that it was before, while its attempts were spent: not done either (D4)
    also: int = 0  # times that its source has given it again; each ends with this one (F59)
    deaths: float = 0.0  # of workers while it was under way, as `trials` counts them (E7)

    @property
    def attempts(self) -> int:
        """Those that have failed, for whatever reason, in all lives of the message."""
        return self.own + self.others

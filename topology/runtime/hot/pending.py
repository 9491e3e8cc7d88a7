"""A message that a spout has emitted, until it is acked or dead.

This is the Python core's class; `pending.pyx` has the compiled one, with the same attributes, which is no subclass of
`MessageTree`. Must not know spouts, nor how a message is emitted.
"""

from typing import Final

from topology.runtime.hot.message_tree import MessageTree


class Pending(MessageTree):
    """A message under way that a spout has emitted."""


new: Final = Pending  # compiled: a call in C, without boxes around its numbers
MESSAGES: Final = (Pending, MessageTree)  # the classes of trees that are of a message

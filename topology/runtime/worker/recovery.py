"""After a death: which of the messages that failed by it are not done yet. Pure; knows no links."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from acker.ledger import Tree
from acker.roots import message_of

ReportCount = Callable[[int], None]  # how many messages are not done yet


class Recovery:
    """Told of each tree that is done; tells when the first and when the last of the failed messages is."""

    def __init__(self, trees: Iterable[Tree], report: ReportCount) -> None:
        self._left: Final = {message_of(tree.root) for tree in trees}
        self._report = report
        self._first = True

    def done(self, trees: Iterable[Any]) -> bool:
        """Takes note of messages that are acked, or dead. Whether all that had failed are done now."""
        before = len(self._left)
        self._left.difference_update(message_of(tree.root) for tree in trees)
        if len(self._left) < before and (self._first or not self._left):
            self._first = False
            self._report(len(self._left))
        return not self._left

"""Tells of a parser that matches nothing of what it reads: a log of another form, say. Knows no source, no parser."""

import logging
from typing import Final

logger = logging.getLogger("kedge")

FIRST: Final = 1000  # messages after which nothing matched is worth a line
SHOWN_MAX: Final = 120  # characters of the first one


class Matching:
    """To be kept by a bolt that parses: a log line says once that nothing of its first 1,000 messages has matched, or,
    when the run ends, nothing of fewer. Else "no alerts" looks the same as a file that was never understood.

        def process(self, line: Line) -> Iterator[Login]:
            if self.matching.seen(match := LOGIN.match(line.text), line.text):
                yield Login(match["user"])

        def close(self) -> None:
            self.matching.end()

    `name` is what the parser looks for, in the plural: "failed logins". A task counts for itself, from the start of its
    process. Costs nothing that counts once something has matched.
    """

    def __init__(self, name: str, first: int = FIRST) -> None:
        self.name, self.first = name, first
        self._read, self._matched, self._example = 0, False, ""

    def seen(self, matched: object, text: str) -> bool:
        """Counts a message; `text` is what was looked at, and `matched` whether it was what is wanted. Returns that."""
        if matched:
            self._matched = True
            return True
        if not self._matched:
            self._read += 1
            self._example = self._example or text
            if self._read == self.first:
                self._say()
        return False

    def end(self) -> None:
        """No more comes: tells where nothing has matched, and that was not told before."""
        if not self._matched and 0 < self._read < self.first:
            self._say()

    def _say(self) -> None:
        count = f"{self._read:,} lines" if self._read > 1 else "one line"
        logger.warning(
            "no %s in the first %s: is the log of a form that the parser does not know? It begins: %.*r",
            self.name,
            count,
            SHOWN_MAX,
            self._example[:SHOWN_MAX],
        )

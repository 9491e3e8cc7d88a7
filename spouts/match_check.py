"""Report of a parser that matches nothing of its input, for example a log in another format. Knows no source, no
parser."""

import logging
from typing import Final

logger = logging.getLogger("kedge")

FIRST: Final = 1000  # messages without a match after which the report is logged
SHOWN_MAX: Final = 120  # characters of the first message that are shown


class Matching:
    """A check for a bolt that parses: it logs once that none of its first 1,000 messages has matched, or, at the end of
    the run, none of fewer.

    Without it, "no alerts" looks the same as a file that was never understood.

        def process(self, line: Line) -> Iterator[Login]:
            if self.matching.seen(match := LOGIN.match(line.text), line.text):
                yield Login(match["user"])

        def close(self) -> None:
            self.matching.end()

    `name` is what the parser looks for, in the plural: "failed logins". Each task counts for itself, from the start of
    its process. The cost is negligible once something has matched.
    """

    def __init__(self, name: str, first: int = FIRST) -> None:
        self.name, self.first = name, first
        self._read, self._matched, self._example = 0, False, ""

    def seen(self, matched: object, text: str) -> bool:
        """Count a message and return True if it matched. `text` is the text of the message; `matched` is true if it is
        a wanted one."""
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
        """End the input: log the report if nothing has matched and it was not logged before."""
        if not self._matched and 0 < self._read < self.first:
            self._say()

    def _say(self) -> None:
        count = f"{self._read:,} lines" if self._read > 1 else "one line"
        logger.warning(
            "no %s in the first %s: is the log in a format that the parser does not know? It begins: %.*r",
            self.name,
            count,
            SHOWN_MAX,
            self._example[:SHOWN_MAX],
        )

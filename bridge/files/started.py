"""Markers in the run's notes that a part of a query has started. They are stored outside the query's folder, so that a
deleted folder is reported. Without them the query would silently start over, and records would be lost or counted
twice.

`--fresh` removes the notes together with the folder. Knows notes and paths; must not know what is in a file.
"""

import contextlib
from pathlib import Path
from typing import Final

from topology.codes.startup import SPARK_QUERY_FILES_MISSING
from topology.components import Notes
from topology.errors import ConfigurationError

BEGUN: Final = "begun"


class Started:
    """The markers of one query. `what` is a path in the query's folder."""

    def __init__(self, notes: Notes, query: str) -> None:
        self._notes = notes
        self._query = query

    def is_noted(self, what: str) -> bool:
        """Return True if this part has started in some run on this state directory."""
        return self._notes.get(self._name(what)) is not None

    def note(self, what: str) -> None:
        """Note durably that this part has started. Call it once the path exists. Raises StartError."""
        if not self.is_noted(what):
            self._notes.set(self._name(what), BEGUN)

    def check(self, what: str, path: Path) -> None:
        """Raises ConfigurationError if this part has started and its path does not exist now. Returns if that cannot be
        determined; opening the path then reports the reason."""
        if not self.is_noted(what):
            return
        with contextlib.suppress(PermissionError, NotADirectoryError):
            if path.exists():
                return
            raise ConfigurationError(
                f"{path} is missing, but query {self._query!r} has already used it", code=SPARK_QUERY_FILES_MISSING
            )

    def _name(self, what: str) -> str:
        return f"spark/{self._query}/{what}"

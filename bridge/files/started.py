"""That something of a query has begun, in the notes of the run, which are outside of its folder: one that somebody has
deleted would else be begun anew with nothing said, and what was in it be missing, or be counted twice.

Notes go with --fresh, as the folder does. Knows notes and paths; must not know what is in a file.
"""

import contextlib
from pathlib import Path
from typing import Final

from topology.codes.startup import SPARK_QUERY_FILES_MISSING
from topology.components import Notes
from topology.errors import ConfigurationError

BEGUN: Final = "begun"


class Started:
    """What of one query is noted; `what` is a path in its folder."""

    def __init__(self, notes: Notes, query: str) -> None:
        self._notes = notes
        self._query = query

    def is_noted(self, what: str) -> bool:
        """Whether it has begun in some run on this state directory."""
        return self._notes.get(self._name(what)) is not None

    def note(self, what: str) -> None:
        """From now on it has, durably: called once the path is there. Raises StartError."""
        if not self.is_noted(what):
            self._notes.set(self._name(what), BEGUN)

    def check(self, what: str, path: Path) -> None:
        """Raises ConfigurationError where it has begun, and there is no such path now. Where that can't be told, who
        opens it says why."""
        if not self.is_noted(what):
            return
        with contextlib.suppress(PermissionError, NotADirectoryError):
            if path.exists():
                return
            raise ConfigurationError(
                f"{path} is gone, and query {self._query!r} has begun with it", code=SPARK_QUERY_FILES_MISSING
            )

    def _name(self, what: str) -> str:
        return f"spark/{self._query}/{what}"

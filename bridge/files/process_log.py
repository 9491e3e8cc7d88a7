"""Separate the processes that write to one log. Each starts with a title line that holds its start time.

Must not know what the lines say, except for the lines of a `logging` error, which look like a title.
"""

import re
import time
from typing import Final

STAMP: Final = "%Y-%m-%dT%H:%M:%SZ"  # UTC; the same as in topology/runtime/companions/process.py
TITLE: Final = re.compile(r"^--- \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ .*\n?", re.MULTILINE)
# The report that `logging` prints if it could not write a line, often just before a process ends.
# A report without an end stops at the next report, so that each line is looked at once.
UNLOGGED: Final = re.compile(
    r"^--- Logging error ---\n(?:(?!--- Logging error ---\n).*\n)*?(?:Arguments: |Use the traceback above ).*\n?",
    re.MULTILINE,
)


def title(name: str) -> str:
    """Return the title line for a process of this name that starts now."""
    return f"--- {time.strftime(STAMP, time.gmtime())} {name}\n"


def last_life(said: str) -> str:
    """Return the lines of the log's last process, or the whole text if its title is cut off."""
    return UNLOGGED.sub("", TITLE.split(said)[-1])

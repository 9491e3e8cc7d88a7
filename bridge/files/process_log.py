"""Lives in a log: one process after the other writes to it, each below a title with the time of its start.

Must not know what is said there, but for what `logging` says where it could not write: it looks like a title.
"""

import re
import time
from typing import Final

STAMP: Final = "%Y-%m-%dT%H:%M:%SZ"  # UTC; companions of a run have it too (topology/runtime/companions/process.py)
TITLE: Final = re.compile(r"^--- \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ .*\n?", re.MULTILINE)
# What `logging` says of a line of its own, often at the end of a process, whose end that line is not.
# One without an end goes no further than the next one, so that each line is looked at once.
UNLOGGED: Final = re.compile(
    r"^--- Logging error ---\n(?:(?!--- Logging error ---\n).*\n)*?(?:Arguments: |Use the traceback above ).*\n?",
    re.MULTILINE,
)


def title(name: str) -> str:
    """The line to write before what a process of this name says, that begins now."""
    return f"--- {time.strftime(STAMP, time.gmtime())} {name}\n"


def last_life(said: str) -> str:
    """Of what a log has, what its last process has said; all of it where the title is cut off."""
    return UNLOGGED.sub("", TITLE.split(said)[-1])

"""Whose fault an error of PostgreSQL is: the row's, the table's or the surroundings'. A table, and no behaviour.

Knows SQLSTATEs, by their classes and some by themselves; must not know connections.
"""

from enum import Enum
from typing import Final

import psycopg


class Fault(Enum):
    """What an error is about, and so who is asked next."""

    ROW = "some row of the batch: it is looked for, and fails alone"
    TABLE = "the table is not what it was: it is compared anew"
    AWAY = "the server, the line to it or another transaction: the same is tried again"


# By the first two characters. What is in none of them comes from a trigger or a function of the user's: the row's.
_CLASSES: Final[dict[str, Fault]] = {
    "08": Fault.AWAY,  # connection
    "0A": Fault.TABLE,  # not supported: a plan that a changed table has spoilt
    "25": Fault.AWAY,  # read-only: a standby, or an administrator's setting
    "28": Fault.AWAY,  # authorization
    "3D": Fault.AWAY,  # no such database
    "3F": Fault.TABLE,  # no such schema
    "40": Fault.AWAY,  # serialization failure, deadlock (F45)
    "42": Fault.TABLE,  # undefined table or column, another type, no unique index
    "53": Fault.AWAY,  # disk full, out of memory, too many connections
    "55": Fault.AWAY,  # locked, or not ready yet
    "57": Fault.AWAY,  # statement timeout, shutdown, starting up
    "58": Fault.AWAY,  # the server's disk
    "F0": Fault.AWAY,
    "XX": Fault.AWAY,  # damage that the server has found
}
_ROW_POLICY: Final = "ExecWithCheckOptions"  # what in the server says no to a row, under the state of a missing right
_STATES: Final[dict[str, Fault]] = {
    "40002": Fault.ROW,  # a constraint that was violated
    "42501": Fault.AWAY,  # no right: somebody can grant it
    "55000": Fault.TABLE,  # a view that takes no rows
    "57014": Fault.AWAY,
}


def fault_of(error: BaseException) -> Fault:
    """Whose fault it is. Without a SQLSTATE it is the line's, or that of a value that the client could not send."""
    if isinstance(error, psycopg.Error) and (state := error.sqlstate):
        if error.diag.source_function == _ROW_POLICY:
            return Fault.ROW
        return _STATES.get(state) or _CLASSES.get(state[:2], Fault.ROW)
    if isinstance(error, psycopg.DataError | UnicodeError | OverflowError):
        return Fault.ROW
    return Fault.AWAY


def loses_connection(error: BaseException) -> bool:
    """Whether a connection is of no use after this error, whatever it says of itself."""
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    return not state or state[:2] in ("08", "25", "28", "3D", "F0", "XX", "58") or state[:4] == "57P0"

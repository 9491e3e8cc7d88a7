"""The cause of an error of PostgreSQL: the row, the table or the surroundings. A table, and no behaviour.

Knows SQLSTATEs, by their classes and some by themselves; must not know connections.
"""

from enum import Enum
from typing import Final

import psycopg


class Fault(Enum):
    """The cause of an error, which decides what is tried next."""

    ROW = "some row of the batch: the sink finds the row, which fails alone"
    TABLE = "the table has changed: the sink compares it again"
    AWAY = "the server, the connection or another transaction: the sink tries the same again"


# By the first two characters. An error of no class below comes from a trigger or a function of the user's: the row's.
_CLASSES: Final[dict[str, Fault]] = {
    "08": Fault.AWAY,  # connection
    "0A": Fault.TABLE,  # not supported: a changed table has spoilt a plan
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
# the server function that refuses a row, under the state of a missing right
_ROW_POLICY: Final = "ExecWithCheckOptions"
_STATES: Final[dict[str, Fault]] = {
    "40002": Fault.ROW,  # a constraint that was violated
    "42501": Fault.AWAY,  # no right: an administrator can grant it
    "55000": Fault.TABLE,  # a view that takes no rows
    "57014": Fault.AWAY,
}


def fault_of(error: BaseException) -> Fault:
    """Return the cause. Without a SQLSTATE it is the connection, or a value that the client could not send."""
    if isinstance(error, psycopg.Error) and (state := error.sqlstate):
        if error.diag.source_function == _ROW_POLICY:
            return Fault.ROW
        return _STATES.get(state) or _CLASSES.get(state[:2], Fault.ROW)
    if isinstance(error, psycopg.DataError | UnicodeError | OverflowError):
        return Fault.ROW
    return Fault.AWAY


def loses_connection(error: BaseException) -> bool:
    """Return True if the connection must not be used after this error, even if it reports that it is open."""
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    return not state or state[:2] in ("08", "25", "28", "3D", "F0", "XX", "58") or state[:4] == "57P0"

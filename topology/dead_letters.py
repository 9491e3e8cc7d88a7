"""The record that a subscriber of a spout's `dead` stream gets. A value; must not know its maker."""

from datetime import datetime

from topology.records import Record


class DeadLetter(Record):
    """A message that Kedge has given up on. `kedge dead replay NAME` replays it.

    A bolt gets it as a record of its own: `topology.bolt("page", Page(), lines.dead.shuffle())`. It has its own origin
    and identity, so that an idempotent sink stores it once. A message that dies again after its replay is another
    letter. Failures of a subscriber of dead letters are logged, and never become dead letters.
    """

    name: str  # its name in `kedge dead`; empty in a run that keeps no state
    spout: str
    partition: str
    message_id: str  # as text
    stream: str  # the name of the record's class
    record: bytes  # the message's record, as msgpack; `text` is for people
    text: str  # the record as Python shows it, its first 2,000 characters
    component: str  # the one that failed
    reason: str  # "raised", "rejected", "over the time limit" …
    problem: str  # the exception in one line
    traceback: str  # of the user's frames, without values of variables
    attempts: int
    deaths: int  # deaths of workers that are attributed to it
    died_at: datetime  # UTC

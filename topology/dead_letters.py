"""The record of a dead letter, as who reads a spout's `dead` stream gets it. A value; must not know who makes one."""

from datetime import datetime

from topology.records import Record


class DeadLetter(Record):
    """A message that nobody will process any more, unless somebody has it replayed: `kedge dead replay NAME`.

    A bolt gets it as a record of its own: `topology.bolt("page", Page(), lines.dead.shuffle())`. It has an origin and
    an identity of its own, so that an idempotent sink stores it once; one that dies again after its replay is another.
    Nothing in it comes from a subscriber: what those fail for is logged, and never a dead letter.
    """

    name: str  # what `kedge dead` calls it; empty in a run that keeps no state
    spout: str
    partition: str
    message_id: str  # as text
    stream: str  # the name of the record's class
    record: bytes  # the message's record, as msgpack; `text` is for people
    text: str  # the record as Python shows it, its first 2,000 characters
    component: str  # that failed
    reason: str  # "raised", "rejected", "over the time limit" …
    problem: str  # the exception in one line
    traceback: str  # of the user's frames, without values of variables
    attempts: int
    deaths: int  # of workers, that are laid to it
    died_at: datetime  # UTC

"""The records that a spout's streams beside its own have: `dead` and `malformed`. Values; must not know their maker."""

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


class Malformed(Record):
    """A message that does not fit the record class of its source, or is no JSON, for example.

    A source that decodes payloads has a stream of these beside its own: `topology.bolt("store", JsonLinesSink("bad"),
    logins.malformed.shuffle())`. If no bolt reads that stream, the message becomes a dead letter instead. It is never
    dropped without a report.
    """

    data: bytes  # the payload as it came
    error: str  # the reason why it could not be read, in one line
    attributes: tuple[tuple[str, str], ...] = ()  # the facts beside the payload, such as its topic, as text

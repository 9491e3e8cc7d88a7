"""A question about dead letters, and the answer to it: the same for a worker, a whole run, and files that no run uses.

Values and their byte form. Must not know who asks, or how a question travels.
"""

import msgspec


class DeadAsk(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """About the dead letters of this worker; answered by DeadAnswer with the same number.

    `act` is 'list' (letters after the one named `after`, up to `limit`), 'show', 'replay' or 'drop' (of those `names`;
    no names: of all, for the last two). Also what a command asks a whole run, by the supervisor's socket."""

    number: int
    act: str
    names: tuple[str, ...] = ()
    after: str = ""
    limit: int = 1_000


class DeadAnswer(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Answer to DeadAsk, once all of it is durable. `letters`: what list and show have found, without records and
    tracebacks where they were listed, and perhaps fewer than `limit` where they are long; `names`: what replay and drop
    were done to; `problem`: why something could not be done."""

    number: int
    letters: tuple[bytes, ...] = ()  # each as `durable.packing.packed_letter` gives it
    names: tuple[str, ...] = ()
    total: int = 0  # how many letters there are
    problem: str = ""

"""A question about dead letters, and its answer: the same for a worker, a whole run, and files that no run uses.

Values and their byte form. Must not know who asks, or how a question travels.
"""

import msgspec


class DeadAsk(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A question about the dead letters of this worker; answered by DeadAnswer with the same number.

    `act` is 'list' (letters after the one named `after`, up to `limit`), 'show', 'replay' or 'drop' (the letters
    `names`; no names: all letters, for the last two). A command also asks a whole run this way, by the supervisor's
    socket.
    """

    number: int
    act: str
    names: tuple[str, ...] = ()
    after: str = ""
    limit: int = 1_000


class DeadAnswer(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The answer to DeadAsk, sent once all of it is durable.

    `letters`: the letters that list and show have found. Listed letters have no records and tracebacks, and long ones
    may be fewer than `limit`. `names`: the letters that were replayed or dropped. `problem`: the reason for which
    something failed.
    """

    number: int
    letters: tuple[bytes, ...] = ()  # each as `encoding.packing.packed_letter` returns it
    names: tuple[str, ...] = ()
    total: int = 0  # the number of letters
    problem: str = ""

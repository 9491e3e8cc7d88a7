"""Groupings: pure choosers of target tasks, and the byte form of keys.

Fields groupings map key → one of 1,024 slots → task. So the task of a key changes only with the number of tasks, and in
whole slots (D7). Every type of key has its own byte form, fixed by golden vectors: 1, 1.0, True and "1" are four keys
(D8). This file must not know executors, workers or links.
"""

import copy
import enum
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from operator import attrgetter
from random import Random
from struct import Struct
from typing import Any, ClassVar, Final, TypeAlias

import msgspec
from xxhash import xxh3_64_intdigest

from acker.identity import TEXT, id_bytes
from topology.codes.startup import UNCOPYABLE_GROUPING
from topology.codes.tuples import GROUPING_CHOSE_UNKNOWN_TASK, GROUPING_WITHOUT_CHOOSE, INVALID_GROUPING_KEY
from topology.errors import EmitError, StartError
from topology.records import Record

SLOTS: Final = 1024
CACHED_KEYS: Final = 65_536  # keys whose task an emitter caches; then the cache is cleared

One: TypeAlias = Callable[[Any, int], int]  # (record, identity) → the index of its one target
Many: TypeAlias = Callable[[Any], Sequence[int]]  # record → indexes, none twice

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_pack_double = Struct("<d").pack
_pack_length = Struct("<I").pack


def key_bytes(value: Any) -> bytes:
    """Return the byte form of one key: a type tag and its content. Raises EmitError for NaN and for a value that cannot
    be a key."""
    kind = type(value)
    if kind is str or kind is int or kind is bytes:
        return id_bytes(value)
    if kind is float:
        if math.isnan(value):
            raise _no_key("NaN can't be a key: it is not equal to itself")
        return b"\x05" + _pack_double(value + 0.0)  # -0.0 + 0.0 is 0.0
    if kind is bool:
        return b"\x06\x01" if value else b"\x06\x00"
    if value is None:
        return b"\x07"
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise _no_key("a datetime without a time zone can't be a key")
        return b"\x08" + ((value - _EPOCH) // _MICROSECOND).to_bytes(8, "little", signed=True)
    if kind is Decimal:
        return b"\x09" + _decimal_text(value)
    if isinstance(value, enum.Enum):
        return b"\x0a" + key_bytes(value.value)
    if isinstance(value, frozenset):
        return b"\x0c" + joined(sorted(map(key_bytes, value)))
    if isinstance(value, Record):
        return b"\x0d" + joined(map(key_bytes, msgspec.structs.astuple(value)))
    if isinstance(value, tuple):
        return b"\x0b" + joined(map(key_bytes, value))
    raise _no_key(f"{kind.__name__} can't be a key")


def _no_key(text: str) -> EmitError:
    return EmitError(text, code=INVALID_GROUPING_KEY)


def _decimal_text(value: Decimal) -> bytes:
    """Return one text for equal numbers. Exact: `normalize` would round to the context's precision and merge different
    keys."""
    sign, digits, exponent = value.as_tuple()
    if exponent == "F":
        return b"-Infinity" if sign else b"Infinity"
    if not isinstance(exponent, int):
        raise _no_key("NaN can't be a key: it is not equal to itself")
    text = "".join(map(str, digits)).lstrip("0")
    kept = text.rstrip("0")
    if not kept:
        return b"0"  # -0 == 0
    return f"{'-' * sign}{kept}E{exponent + len(text) - len(kept)}".encode()


def joined(parts: Iterable[bytes]) -> bytes:
    """Return the byte form of several parts, without a tag."""
    return b"".join(_pack_length(len(part)) + part for part in parts)


def slot_of(key: bytes) -> int:
    """Return the slot of a key's byte form. The empty key is that of `global_`; task 0 always gets its slot, however
    many tasks there are."""
    return xxh3_64_intdigest(key) >> 54 if key else 0


def slot_of_identity(identity: int) -> int:
    """Return the slot of an identity, which is already a hash."""
    return identity >> 54


def task_of_slot(slot: int, tasks: int) -> int:
    """Return the index of the task, out of `tasks` tasks, that owns a slot. Tasks own whole ranges of slots, whose
    sizes differ by at most one.

    With one task more, half of the slots move, each to the next task or further up, none down.
    """
    return slot * tasks // SLOTS


def key_function(names: tuple[str, ...]) -> Callable[[Any], bytes]:
    """Return a function: record → the byte form of these fields. One field has its own form; several have that of a
    tuple."""
    if not names:
        return lambda record: b""
    get = attrgetter(*names)

    def key(record: Any) -> bytes:
        value: Any = get(record)
        return TEXT + value.encode("utf-8", "surrogatepass") if type(value) is str else key_bytes(value)  # hot path

    return key


class Grouping:
    """A chooser of the tasks that a tuple goes to. Subclass it for `Stream.custom` and define `choose`.

        class ByFirstLetter(Grouping):
            def choose(self, record: Word, tasks: int) -> list[int]:
                return [ord(record.text[0]) % tasks]

        topology.bolt("index", Index(), words.custom(ByFirstLetter()), tasks=4)

    A custom grouping is a prototype like a bolt: each emitting task has a copy. If `choose` raises, the input fails.
    """

    name: ClassVar[str] = "custom"

    def choose(self, record: Any, tasks: int) -> Sequence[int]:
        """Return the indexes of the target tasks, 0 … tasks - 1; any number of them."""
        raise EmitError(f"{type(self).__name__} defines no `choose(record, tasks)`", code=GROUPING_WITHOUT_CHOOSE)

    def keys(self) -> tuple[str, ...]:
        """Return the names of the fields that the grouping reads."""
        return ()

    def __str__(self) -> str:
        """Return the call that made it, as in the user's source."""
        return f"{self.name}({', '.join(f'{key!r:.80}' for key in self.keys())})"


class OneTarget(Grouping):
    """A grouping that always has exactly one target."""

    @abstractmethod
    def one(self, tasks: int, local: Sequence[int], random: Random) -> One:
        """Return the chooser of one emitting task; `local` are the target tasks in its own worker."""


class ManyTargets(Grouping):
    """A grouping that has any number of targets."""

    @abstractmethod
    def many(self, tasks: int) -> Many:
        """Return the chooser of one emitting task."""


@dataclass(frozen=True)
class Shuffle(OneTarget):
    """Sends tuples to the tasks in turn, starting at a random one."""

    name = "shuffle"

    def one(self, tasks: int, local: Sequence[int], random: Random) -> One:
        return _round_robin(range(tasks), random)


@dataclass(frozen=True)
class LocalOrShuffle(OneTarget):
    """Sends tuples in turn to the tasks in the emitter's own worker, or to all tasks if it has none."""

    name = "local_or_shuffle"

    def one(self, tasks: int, local: Sequence[int], random: Random) -> One:
        return _round_robin(local or range(tasks), random)


def _round_robin(targets: Sequence[int], random: Random) -> One:
    following = random.randrange(len(targets)) - 1

    def one(record: Any, identity: int) -> int:
        nonlocal following
        following += 1
        if following >= len(targets):
            following = 0
        return targets[following]

    return one


@dataclass(frozen=True)
class ByIdentity(OneTarget):
    """Sends a tuple by the slot of its identity. The plan replaces shuffles by it before a non-deterministic bolt
    (B2)."""

    name = "by_identity"

    def one(self, tasks: int, local: Sequence[int], random: Random) -> One:
        return lambda record, identity: (identity >> 54) * tasks >> 10


@dataclass(frozen=True)
class Fields(OneTarget):
    """Sends equal values of these fields to the same task."""

    names: tuple[str, ...]
    name = "fields"

    def keys(self) -> tuple[str, ...]:
        return self.names

    def one(self, tasks: int, local: Sequence[int], random: Random) -> One:
        get = attrgetter(*self.names)
        known: dict[str, int] = {}

        def one(record: Any, identity: int) -> int:
            value: Any = get(record)
            if type(value) is not str:
                return task_of_slot(slot_of(key_bytes(value)), tasks)
            task = known.get(value)
            if task is None:
                if len(known) >= CACHED_KEYS:
                    known.clear()
                task = known[value] = task_of_slot(slot_of(key_bytes(value)), tasks)
            return task

        return one


@dataclass(frozen=True)
class PartialKey(OneTarget):
    """Sends a key to one of two different candidate tasks: the one that this emitter has sent less to (Nasir et al.,
    ICDE 2015)."""

    field: str
    name = "partial_key"

    def keys(self) -> tuple[str, ...]:
        return (self.field,)

    def one(self, tasks: int, local: Sequence[int], random: Random) -> One:
        get = attrgetter(self.field)
        sent = [0] * tasks
        others = max(tasks - 1, 1)

        def one(record: Any, identity: int) -> int:
            digest = xxh3_64_intdigest(key_bytes(get(record)))
            first = digest % tasks
            second = (first + 1 + (digest >> 32) % others) % tasks
            task = first if sent[first] <= sent[second] else second
            sent[task] += 1
            return task

        return one


@dataclass(frozen=True)
class All(ManyTargets):
    """Sends a copy to every task."""

    name = "all"

    def many(self, tasks: int) -> Many:
        everyone = range(tasks)
        return lambda record: everyone


@dataclass(frozen=True)
class Global(OneTarget):
    """Sends everything to task 0."""

    name = "global_"

    def one(self, tasks: int, local: Sequence[int], random: Random) -> One:
        return lambda record, identity: 0


@dataclass(frozen=True)
class Direct(Grouping):
    """Sends to the task that the emitter names: `out.emit(record, task=n)`."""

    name = "direct"


@dataclass(frozen=True)
class Custom(ManyTargets):
    """A user's own `Grouping`; its choices are checked."""

    prototype: Grouping
    name = "custom"

    def __str__(self) -> str:
        return f"custom({type(self.prototype).__name__})"

    def many(self, tasks: int) -> Many:
        """Copy the user's grouping for one emitting task. Raises StartError if it cannot be copied."""
        whose = type(self.prototype).__name__
        try:
            choose = copy.deepcopy(self.prototype).choose
        except Exception as error:
            raise StartError(
                f"{whose} can't be copied for each emitting task: {error}", code=UNCOPYABLE_GROUPING
            ) from error

        def many(record: Any) -> Sequence[int]:
            chosen = choose(record, tasks)
            if not isinstance(chosen, Iterable):
                raise EmitError(
                    f"{whose} chose {chosen!r:.80}, which is no list of tasks", code=GROUPING_CHOSE_UNKNOWN_TASK
                )
            targets = tuple(chosen)
            for target in targets:
                if type(target) is not int or not 0 <= target < tasks:
                    raise EmitError(
                        f"{whose} chose task {target!r:.80}; there are tasks 0 to {tasks - 1}",
                        code=GROUPING_CHOSE_UNKNOWN_TASK,
                    )
            return tuple(dict.fromkeys(targets))

        return many

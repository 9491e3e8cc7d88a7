"""The byte form of frames: a header of fixed size, and bodies of typed msgpack. Anything else raises FrameError.

A header is read before anything after it. A body is read by type only, within bounds that are checked first, so that
garbage is cheap (S3). Numbers travel as columns. The records of one stream are one array, made by one call. The array
is opaque to the rest of the body, so an unreadable record fails its own trees and nothing else (A12). Must not know
sockets, sessions, ledgers, or what a worker does with a content.
"""

from collections.abc import Callable, Iterator
from itertools import zip_longest
from operator import attrgetter
from struct import Struct
from types import GenericAlias
from typing import Any, Final

import msgspec

from acker.anchoring import MAX_ROOTS
from acker.roots import UNTRACKED
from topology.core.source import Source
from topology.core.tuples import Tuple
from topology.plan import Plan, Subscription
from topology.runtime.failures import Failure, Reason
from topology.runtime.hot.remote_acks import acks_of
from topology.runtime.hot.tuple_columns import TUPLE_BYTES, tuples_of
from topology.runtime.links.columns import (
    BODY_BYTES,
    COLUMN_MAX,
    ENTRY_BYTES,
    RECORD_BYTES_MAX,
    TEXT_MAX,
    Body,
    Group,
    array_header,
    columns,
    failed_of,
    fails_of,
    group_of,
    numbers,
    others_of,
    pair_columns,
    pairs_of,
    portions,
)
from topology.runtime.links.protocol import FRAME_VERSION, Content, Failed, Frame, FrameError, Greeting, Kind
from topology.text import printable
from topology.user_frames import described, text_of

MAGIC: Final = b"\xe5K"  # no text begins with this, nor does a ZMTP greeting
GREETING_BYTES_MAX: Final = 4096  # bytes of a greeting's body: a fingerprint and a few versions


_header: Final = Struct("<2sBBQIIQQ")

# The largest frame that a transport must accept: all parts of a body at their bounds. No real frame is as large.
FRAME_BYTES_MAX: Final = (
    (RECORD_BYTES_MAX + TUPLE_BYTES + 16 * MAX_ROOTS + ENTRY_BYTES)  # one record
    + 8 * COLUMN_MAX * (2 + 1 + 1 + 2)  # acks, touches, queued, depths
    + (BODY_BYTES + 8 * COLUMN_MAX)  # fails
    + _header.size
    + 4 * ENTRY_BYTES
)

_KINDS: Final = {int(kind): kind for kind in Kind}
_decode_greeting: Final = msgspec.msgpack.Decoder(Greeting).decode


def pack(frame: Frame) -> bytes:
    """Return the bytes of a frame. Its body is a Greeting, or bytes from a WireCodec."""
    kind, run, sender, receiver, session, number, body = msgspec.structs.astuple(frame)
    header = _header.pack(MAGIC, FRAME_VERSION, kind, run, sender, receiver, session, number)
    return header + (body if kind == Kind.CONTENT else _encode(body))


def unpack(data: bytes | memoryview) -> Frame:
    """Return the frame of these bytes. The body of a CONTENT stays a view of them. Raises FrameError."""
    size = len(data)
    if size < _header.size:
        raise FrameError(f"{size} bytes are too few for a frame")
    if size > FRAME_BYTES_MAX:
        raise FrameError(f"a frame of {size:,} bytes is over the limit of {FRAME_BYTES_MAX:,}")
    magic, version, number_of_kind, run, sender, receiver, session, number = _header.unpack_from(data)
    if magic != MAGIC:
        raise FrameError(f"what begins with {bytes(data[:8])!r} is no frame of Kedge")
    if version != FRAME_VERSION:
        raise FrameError(
            f"a frame has version {version}, and this worker reads version {FRAME_VERSION}; "
            "run all workers with one version of Kedge"
        )
    kind = _KINDS.get(number_of_kind)
    if kind is None:
        raise FrameError(f"a frame is of kind {number_of_kind}, which there is not")
    body: Any = memoryview(data)[_header.size :]
    if kind is not Kind.CONTENT:
        if len(body) > GREETING_BYTES_MAX:
            raise FrameError(f"a greeting of {len(body):,} bytes is over the limit of {GREETING_BYTES_MAX:,}")
        try:
            body = _decode_greeting(body)
        except Exception as error:  # msgspec's own, UnicodeDecodeError, RecursionError
            raise FrameError(f"a greeting can't be read: {printable(text_of(error))}") from None
    return Frame(kind, run, sender, receiver, session, number, body)


# -- bodies


_encode: Final = msgspec.msgpack.Encoder(uuid_format="bytes", decimal_format="string").encode  # as in topology.records
_decode_body: Final = msgspec.msgpack.Decoder(Body).decode
_decode_parts: Final = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


class _Reading:
    """Reads the tuples of one subscription."""

    def __init__(self, subscription: Subscription) -> None:
        cls = subscription.cls
        self.stream = cls.__name__
        self.emitter = subscription.emitter
        self.subscriber = subscription.subscriber
        self.source = Source(self.emitter, self.stream, subscription.tag, subscription.key)
        self.decode: Callable[[bytes], list[Any]] = msgspec.msgpack.Decoder(GenericAlias(list, (cls,))).decode
        self.decode_one: Callable[[msgspec.Raw], Any] = msgspec.msgpack.Decoder(cls).decode

    def undecodable(self, error: Exception) -> Failure:
        text = f"a record of {self.emitter}[{self.stream}] can't be decoded: {text_of(error)[:TEXT_MAX]}"
        return Failure(Reason.UNDECODABLE, self.subscriber, text)


class WireCodec:
    """`links.Codec` for the workers of one plan. Pure; made once, and usable without limit.

    Tuples of one task and source keep their order, also over several bodies. Root 0 among the failed roots stands for a
    tuple that belongs to no tree, so it can only be reported.
    """

    def __init__(self, plan: Plan) -> None:
        self._components = [component for component, _ in plan.placement]  # by address
        self._readings = [_Reading(subscription) for subscription in plan.subscriptions]
        self._indexes = {
            (reading.source.component, reading.source.stream, reading.source.tag): index
            for index, reading in enumerate(self._readings)
        }

    # -- encoding

    def encode(self, content: Content) -> tuple[list[Any], Failed]:
        """Return the bodies of one or more frames, and the trees of tuples whose records have no byte form or are too
        long.

        There is at least one body, and none is above FRAME_BYTES_MAX with its header. Each has the sender's checkpoint.
        """
        failed: Failed = []
        groups: list[Group] = []
        for address, tuples in content.batches:
            for source, alike in _by_source(tuples):
                groups += self._groups(address, source, alike, failed)
        parts: Iterator[tuple[Any, ...]] = zip_longest(
            portions(groups, attrgetter("cost"), BODY_BYTES),
            content.acks.columns(COLUMN_MAX),
            columns(content.touches),
            columns(content.queued),
            pair_columns(content.depths),
            portions(fails_of(content.fails), attrgetter("cost"), BODY_BYTES),
        )
        checkpoint = content.checkpoint
        bodies = [
            Body(tuples or [], acks or b"", touches or b"", queued or b"", depths or b"", fails or [], checkpoint)
            for tuples, acks, touches, queued, depths, fails in parts
        ] or [Body([], b"", b"", b"", b"", [], checkpoint)]
        return [_encode(body) for body in bodies], failed

    def _groups(self, address: int, source: Source, tuples: list[Tuple[Any]], failed: Failed) -> list[Group]:
        index = self._indexes[source.component, source.stream, source.tag]
        if len(tuples) * TUPLE_BYTES < BODY_BYTES:
            try:
                records = _encode([tup.record for tup in tuples])
            except Exception:  # the record is found below
                pass
            else:
                group = group_of(address, index, tuples, records)
                if group.cost <= BODY_BYTES:
                    return [group]
        groups = []
        for some in portions([*self._encoded(source, tuples, failed)], _tuple_bytes, BODY_BYTES - ENTRY_BYTES):
            records = array_header(len(some)) + b"".join(data for _, data in some)
            groups.append(group_of(address, index, [tup for tup, _ in some], records))
        return groups

    def _encoded(self, source: Source, tuples: list[Tuple[Any]], failed: Failed) -> Iterator[tuple[Tuple[Any], bytes]]:
        """Yield each tuple whose record has a byte form, with its bytes. The trees of the others go into `failed`."""
        for tup in tuples:
            try:
                data = _encode(tup.record)
            except Exception as error:  # from msgspec, or from a user's type that is inspected
                text = f"a record of {source.stream} can't be encoded: {described(error)[:TEXT_MAX]}"
                failure = Failure(Reason.EMIT, source.component, text)
            else:
                if len(data) <= RECORD_BYTES_MAX:
                    yield tup, data
                    continue
                text = f"a record of {source.stream} has {len(data):,} bytes, and may have {RECORD_BYTES_MAX:,}"
                failure = Failure(Reason.OVERSIZED, source.component, text)
            _fail([tup], failure, failed)

    # -- decoding

    def decode(self, body: Any) -> tuple[Content, Failed]:
        """Return the content of one body, and the trees of its unreadable records.

        If the array of records can be split, only the trees of the unreadable record fail (A12). Raises FrameError for
        a body that no WireCodec of this plan makes.
        """
        try:
            read = _decode_body(body)
        except Exception as error:  # msgspec's own, UnicodeDecodeError, RecursionError
            raise FrameError(f"the body of a frame can't be read: {printable(text_of(error))}") from None
        failed: Failed = []
        batches = [(group.address, self._tuples(group, failed)) for group in read.groups]
        depths, touches, queued = pairs_of(read.depths), set(numbers(read.touches)), set(numbers(read.queued))
        try:
            acks = acks_of(read.acks)
        except ValueError as error:
            raise FrameError(f"the acks of a frame can't be read: {error}") from None
        return Content(batches, acks, failed_of(read.fails), touches, depths, read.checkpoint, queued), failed

    def _tuples(self, group: Group, failed: Failed) -> list[Tuple[Any]]:
        reading = self._reading(group)
        count, rest = divmod(len(group.columns), TUPLE_BYTES)
        if rest or not group.records.startswith(array_header(count)):  # this bounds what is read below, too
            raise FrameError("the columns of a group of tuples disagree in length with one another or with its records")
        others = others_of(group.others, count) if group.others else None
        try:
            records = reading.decode(group.records)
        except Exception:  # msgspec's own, RecursionError, or what a user's type raises when it is made
            tuples = tuples_of(group.columns, [None] * count, others, reading.source)
            return _readable(group.records, tuples, reading, failed)
        return tuples_of(group.columns, records, others, reading.source)

    def _reading(self, group: Group) -> _Reading:
        """Return the reader of this group. Raises FrameError if the plan has no such subscription or task of its
        bolt."""
        address, subscription = group.address, group.subscription
        if not 0 <= subscription < len(self._readings):
            raise FrameError(f"tuples are of subscription {subscription}; the plan has {len(self._readings)}")
        if not 0 <= address < len(self._components):
            raise FrameError(f"tuples are for task {address}; the plan has {len(self._components)}")
        reading = self._readings[subscription]
        if self._components[address] != reading.subscriber:
            raise FrameError(f"tuples for {reading.subscriber!r} are addressed to {self._components[address]!r}")
        return reading


def _by_source(tuples: list[Tuple[Any]]) -> list[tuple[Source, list[Tuple[Any]]]]:
    """Return the tuples by their source, in order within each."""
    sources = [tup.source for tup in tuples]
    if sources and sources.count(sources[0]) == len(sources):
        return [(sources[0], tuples)]
    found: dict[tuple[str, str, int], tuple[Source, list[Tuple[Any]]]] = {}
    for source, tup in zip(sources, tuples, strict=True):
        found.setdefault((source.component, source.stream, source.tag), (source, []))[1].append(tup)
    return [*found.values()]


def _tuple_bytes(encoded: tuple[Tuple[Any], bytes]) -> int:
    tup, data = encoded
    return TUPLE_BYTES + 16 * len(tup.others) + len(data)


def _readable(records: bytes, tuples: list[Tuple[Any]], reading: _Reading, failed: Failed) -> list[Tuple[Any]]:
    """Return the tuples whose records can be read one by one; they have no records yet. The trees of the others go into
    `failed`: all trees, if the end of a record can't be found."""
    try:
        parts = _decode_parts(records)
    except Exception as error:  # msgspec's own, RecursionError
        _fail(tuples, reading.undecodable(error), failed)
        return []
    found = []
    for tup, part in zip(tuples, parts, strict=True):
        try:
            found.append(tup.carrying(reading.decode_one(part)))
        except Exception as error:  # the same, or what a user's type raises when it is made
            _fail([tup], reading.undecodable(error), failed)
    return found


def _fail(tuples: list[Tuple[Any]], failure: Failure, failed: Failed) -> None:
    failed += [(root, failure) for tup in tuples for root in tup.roots or (UNTRACKED,)]

"""All changes of one checkpoint as bytes: what a store keeps until it is decided. Pure; must not know SQL or files."""

from typing import Final

import msgspec

from topology.storage.encoding import packing
from topology.storage.values import Changes, StateChange, StateRow


class _Prepared(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    checkpoint: int
    marks: list[bytes]
    over: list[bytes]
    begun: list[bytes]
    letters: list[bytes]
    gone: list[bytes]
    trials: list[bytes]
    acquitted: list[bytes]
    states: list[tuple[bytes, int, list[StateRow]]]
    entries: list[bytes]


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Prepared).decode


def packed_changes(checkpoint: int, changes: Changes) -> bytes:
    """Return the bytes of a checkpoint."""
    return _encode(
        _Prepared(
            checkpoint,
            [*map(packing.packed_mark, changes.marks)],
            [*map(packing.packed_mark, changes.over)],
            [*map(packing.packed_begun, changes.begun)],
            [*map(packing.packed_letter, changes.letters)],
            [*map(packing.component_key, changes.gone)],
            [*map(packing.packed_trial, changes.trials)],
            [*map(packing.packed_trial, changes.acquitted)],
            [(packing.component_key(state.component), state.digest, [*state.rows]) for state in changes.states],
            [*map(packing.packed_entries, changes.entries)],
        )
    )


def changes_of(data: bytes) -> tuple[int, Changes]:
    """Return a checkpoint's number and its changes. Raises ValueError for other bytes."""
    try:
        found = _decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"not the bytes of a checkpoint: {error}") from None
    return found.checkpoint, Changes(
        [*map(packing.mark_of, found.marks)],
        [*map(packing.mark_of, found.over)],
        [*map(packing.begun_of, found.begun)],
        [*map(packing.letter_of, found.letters)],
        [*map(packing.component_of, found.gone)],
        [*map(packing.trial_of, found.trials)],
        [*map(packing.trial_of, found.acquitted)],
        [StateChange(packing.component_of(name), rows, digest) for name, digest, rows in found.states],
        [*map(packing.entries_of, found.entries)],
    )

"""Keys against a plain dict and checkpoints that are decided, given up, or gone back to: what the store has is what was
put, and the digest of its rows is that of what was handed to it."""

from hypothesis import given
from hypothesis import strategies as st

from topology.groupings import slot_of
from topology.runtime.state.key_values import KeyValues
from topology.runtime.state.lookups import NOTHING
from topology.storage.encoding.state import PLAIN, SUM_BYTES, is_intact, seed_of, sum_of

KEYS = st.sampled_from([b"\x03a", b"\x03b", b"\x03c"])
VALUES = st.sampled_from([NOTHING, 1, 2, PLAIN + b"three"])  # a value, or a content
STEPS = st.one_of(st.tuples(KEYS, VALUES), st.sampled_from(["gather", "kept", "not kept", "go back"]))


def content_of(value: int | bytes) -> bytes:
    """The bytes that a value has here."""
    return value if isinstance(value, bytes) else PLAIN + b"%d" % value


@given(st.lists(STEPS, max_size=60))
def test_what_was_put_is_stored_once_a_checkpoint_is_decided_however_many_were_given_up_P5(
    steps: list[tuple[bytes, int | bytes] | str],
) -> None:
    keys = KeyValues("counts", lambda value: b"%d" % value)
    now: dict[bytes, bytes] = {}
    decided: dict[bytes, bytes] = {}
    gathered: dict[bytes, bytes] | None = None
    disk: dict[bytes, bytes] = {}
    digest = 0
    for step in [*steps, "kept" if "gather" in steps else "gather", "gather", "kept"]:
        if isinstance(step, tuple):
            key, value = step
            keys.put(key, value)
            now[key] = content_of(value)
        elif step == "gather" and gathered is None:
            keys.gather()
            gathered = {**now}
        elif step == "kept" and gathered is not None:
            change = keys.pack()
            keys.kept()
            decided, gathered = gathered, None
            if change is not None:
                assert len({row.key for row in change.rows}) == len(change.rows)
                disk.update({row.key: row.body for row in change.rows})
                digest ^= change.digest
            assert {key: body[SUM_BYTES:] for key, body in disk.items() if body} == {
                k: v for k, v in decided.items() if v
            }
        elif step == "not kept" and gathered is not None:
            keys.not_kept()
            gathered = None
        elif step == "go back":
            if gathered is not None:  # a generation gives up first what is under way
                keys.not_kept()
            keys.go_back()
            now, gathered = {**decided}, None
        there = {key: content for key, content in now.items() if content}
        assert {key: keys.content(keys.get(key)) for key in keys} == there
        assert len(keys) == len(there)
    assert all(is_intact(seed_of("counts", slot_of(key)), key, body) for key, body in disk.items() if body)
    whole = 0
    for body in disk.values():
        whole ^= sum_of(body)
    assert whole == digest


def test_a_key_that_is_set_to_what_it_has_is_not_written_again() -> None:
    keys = KeyValues("counts", lambda value: b"%d" % value)
    keys.put(b"\x03a", 1)
    keys.gather()
    assert keys.pack() is not None
    keys.kept()
    keys.put(b"\x03a", 2)
    keys.put(b"\x03a", 1)
    keys.put(b"\x03b", 2)
    keys.put(b"\x03b", NOTHING)
    keys.gather()
    assert keys.pack() is None

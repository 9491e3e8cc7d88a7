"""Keys against a plain dict and a disk that is full now and then: what the store has is what was put, and the digest of
its rows is that of what was handed to it."""

from hypothesis import given
from hypothesis import strategies as st

from topology.groupings import slot_of
from topology.storage.encoding.state import SUM_BYTES, StateKeys, is_intact, seed_of, sum_of

KEYS = st.sampled_from([b"\x03a", b"\x03b", b"\x03c"])
CONTENTS = st.sampled_from([b"", b"\x00one", b"\x00two"])
STEPS = st.one_of(st.tuples(KEYS, CONTENTS), st.sampled_from(["kept", "full"]))


@given(st.lists(STEPS, max_size=40))
def test_what_was_put_is_on_the_disk_once_a_commit_is_kept_however_many_were_not_D10(
    steps: list[tuple[bytes, bytes] | str],
) -> None:
    keys = StateKeys("counts")
    wanted: dict[bytes, bytes] = {}
    disk: dict[bytes, bytes] = {}
    digest = 0
    for step in [*steps, "kept"]:
        if isinstance(step, tuple):
            key, content = step
            keys.put(slot_of(key), key, content)
            wanted[key] = content
        else:
            change = keys.gather()
            if step == "full":
                keys.not_kept()
            elif change is not None:
                assert len({row.key for row in change.rows}) == len(change.rows)
                disk.update({row.key: row.body for row in change.rows})
                digest ^= change.digest
        there = {key: content for key, content in wanted.items() if content}
        assert {key: keys.content(key) for key in keys} == there
        assert len(keys) == len(there)
    assert {key: body[SUM_BYTES:] for key, body in disk.items() if body} == there
    assert all(is_intact(seed_of("counts", slot_of(key)), key, body) for key, body in disk.items() if body)
    whole = 0
    for body in disk.values():
        whole ^= sum_of(body)
    assert whole == digest


def test_a_key_that_is_set_to_what_it_has_is_not_written_again() -> None:
    keys = StateKeys("counts")
    keys.put(1, b"\x03a", b"\x00one")
    assert keys.gather() is not None
    keys.put(1, b"\x03a", b"\x00two")
    keys.put(1, b"\x03a", b"\x00one")
    keys.put(2, b"\x03b", b"\x00two")
    keys.put(2, b"\x03b", b"")
    assert keys.gather() is None

"""Acks between workers, on whichever core runs: what a frame has of them is what came."""

import subprocess
import sys
from random import Random
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acker.ledger import Ledger, Tree
from acker.roots import WORKER_SHIFT
from topology.core import CORE
from topology.runtime.hot.open_trees import OpenTrees
from topology.runtime.hot.remote_acks import AckRoutes, Acks, WaitingAcks, acks_of

NUMBERS = st.one_of(st.integers(1, 40), st.integers(1, 2**64 - 1))


def waiting(came: Any = lambda: None, most: int = 10_000) -> WaitingAcks:
    acks = WaitingAcks(came, most)
    acks.open = True
    return acks


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=50))
def test_the_values_of_a_tree_become_one_and_cross_as_one(came: list[tuple[int, int]]) -> None:
    acks, model = waiting(), dict[int, int]()
    for root, value in came:
        acks.add(root, value)
        model[root] = model.get(root, 0) ^ value
    assert len(acks) == len(model)
    taken = acks.take()
    assert len(acks) == 0, "what has left waits no more"
    crossed = [acks_of(column) for column in taken.columns(7)]
    assert all(len(part) <= 7 for part in crossed)
    assert [pair for part in crossed for pair in part.items()] == [*model.items()]
    if crossed:
        first = [*model.items()][:7]
        (data, *_) = taken.columns(7)
        assert data == pack(f"<{2 * len(first)}Q", *[root for root, _ in first], *[value for _, value in first])


@pytest.mark.parametrize("seed", range(3))
def test_many_acks_wait_and_none_is_mistaken_for_another(seed: int) -> None:
    random, acks, model = Random(seed), waiting(), dict[int, int]()
    for _ in range(30_000):
        root, value = random.choice([random.getrandbits(64), random.getrandbits(12) << 6]) or 1, random.getrandbits(64)
        acks.add(root, value)
        model[root] = model.get(root, 0) ^ value
    assert dict(acks.take().items()) == model
    acks.add(5, 6)
    assert dict(acks.take().items()) == {5: 6}


def test_the_first_ack_and_each_above_the_most_are_reported() -> None:
    reports: list[int] = []
    acks = waiting(lambda: reports.append(len(acks)), most=3)
    for root in (1, 1, 2, 3, 4, 4, 5):
        acks.add(root, 9)
    assert reports == [1, 1, 4, 4, 5], "a second ack of the only tree is one of a first one"
    acks.take()
    acks.add(1, 9)
    assert reports[-1] == 1


def test_acks_for_a_worker_that_is_away_are_dropped() -> None:
    acks = waiting()
    acks.open = False
    acks.add(1, 2)
    assert len(acks) == 0


def test_a_root_that_a_frame_has_twice_is_acked_twice() -> None:
    """No frame of ours has one; both cores read it alike."""
    ledger: Ledger[Tree] = Ledger(30.0, now=0.0, table=OpenTrees)
    ledger.begin(tree := Tree(64, 3))
    acks = acks_of(pack("<4Q", 64, 64, 1, 2))
    assert acks.items() == [(64, 1), (64, 2)]
    assert acks.settle(ledger) == [tree]


@pytest.mark.parametrize("length", [1, 8, 15, 24])
def test_bytes_that_are_no_pairs_are_refused(length: int) -> None:
    with pytest.raises(ValueError, match=f"{length} bytes are no pairs"):
        acks_of(b"x" * length)


NO_MEMORY = """
import sys
import topology.core
from topology.runtime.hot.remote_acks import WaitingAcks
from _testcapi import remove_mem_hooks, set_nomemory

acks = WaitingAcks(lambda: None, 10**9)
acks.open = True
model = {64 * n: 5 for n in range(1, 257)}  # for one more it has to grow
for root, value in model.items():
    acks.add(root, value)
act = (lambda: acks.add(1, 7)) if sys.argv[1] == "grow" else acks.take
set_nomemory(int(sys.argv[2]), 0)
try:
    act()
except MemoryError:
    remove_mem_hooks()
    assert len(acks) == 256, "acks are gone"
    for root in range(1, 600, 2):
        acks.add(root, 7)
        model[root] = 7
    assert dict(acks.take().items()) == model
    print("it goes on")
"""


@pytest.mark.skipif(CORE != "compiled", reason="the Python core's acks lie in a dict")
@pytest.mark.parametrize("failing", [0, 1, 2])
@pytest.mark.parametrize("step", ["grow", "take"])
def test_a_lack_of_memory_loses_no_ack_and_what_comes_later_has_its_place(step: str, failing: int) -> None:
    """In a process of its own, in which every allocation fails from a certain one on."""
    pytest.importorskip("_testcapi", reason="this Python has no _testcapi, which makes allocations fail")
    command = (sys.executable, "-c", NO_MEMORY, step, str(failing))
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, "it goes on\n"), ended.stderr


def test_an_ack_goes_to_its_tree_wherever_that_is() -> None:
    ledger: Ledger[Tree] = Ledger(30.0, now=0.0, table=OpenTrees)
    here, there, nowhere = (worker << WORKER_SHIFT | 64 for worker in (1, 2, 3))
    ledger.begin(tree := Tree(here, 5))
    acks = waiting()
    routes = AckRoutes(1, ledger, {2: acks})
    assert routes.ack(here, 4) is None
    assert routes.ack(there, 7) is None
    assert routes.ack(nowhere, 7) is None
    assert routes.ack(here, 1) is tree
    assert dict(acks.take().items()) == {there: 7}


def test_a_frames_acks_complete_trees_and_change_no_frame() -> None:
    """A frame may be read twice: a network repeats it."""
    ledger: Ledger[Tree] = Ledger(30.0, now=0.0, table=OpenTrees)
    trees = [Tree(root, 5) for root in (64, 128, 192)]
    for tree in trees:
        ledger.begin(tree)
    acks = Acks({64: 5, 128: 4, 192: 5, 256: 1})
    assert acks.settle(ledger) == [trees[0], trees[2]]
    assert (trees[1].value, ledger.unknown) == (1, 1)
    assert acks.settle(ledger) == []
    assert dict(acks.items()) == {64: 5, 128: 4, 192: 5, 256: 1}

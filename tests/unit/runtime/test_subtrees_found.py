"""Which sub-trees a message waits for (A16), as the stall line asks it."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from acker.frontier import Decided
from topology.runtime.worker import subtrees


class Counting(tuple[int, ...]):
    """Roots that count how often they are looked through."""

    looks = 0

    def __iter__(self) -> Iterator[int]:
        Counting.looks += 1
        return super().__iter__()

    def __contains__(self, root: object) -> bool:
        Counting.looks += 1
        return super().__contains__(root)


def test_what_a_message_waits_for_is_found_by_one_look_at_each_open_sub_tree_A19() -> None:
    """A thousand of them, each of which waits for the next: a line of the log may not stop the loop."""
    count = 1_000
    home: Any = SimpleNamespace()  # of which nothing is asked
    found = subtrees.SubTrees(home, Decided(), remembers=False)
    branch = subtrees.Branch("sums", found)
    for root in range(count):
        found.open[root + 1] = subtrees.SubTree(root + 1, 1, Counting((root,)), 1, branch, 0.0)
    Counting.looks = 0
    assert found.holding(0) == dict.fromkeys(range(1, count + 1), "sums")
    assert found.holding(count - 1) == {count: "sums"}
    assert found.holding(count) == {}
    assert Counting.looks == 3 * count

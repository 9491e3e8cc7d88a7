"""Bugs that are planted in the shipped code, for the simulator to find within the seeds of the ordinary suite. Data.

They are mutants, as in `tests.mutants`, without a test of their own: whatever is wrong has to show by what a run comes
to. Those that need what is not built yet (state that survives, windows) come with it.
"""

from typing import Final

from tests.mutants.mutant import Mutant


def _bug(rule: str, breaks: str, file: str, old: str, new: str) -> Mutant:
    return Mutant(rule=rule, breaks=breaks, file=file, old=old, new=new, test="")


PLANTED: Final = (
    _bug(
        "A1",
        "one ack value for several anchors: what a join emits is registered with both in the root that they share",
        "acker/anchoring.py",
        "for root in values.keys() - seen if seen else values:",
        "for root in values:",
    ),
    _bug(
        "A2",
        "an anchor given twice counts twice",
        "acker/anchoring.py",
        "return tuple({id(anchor): anchor for anchor in anchors}.values())",
        "return tuple(anchors)",
    ),
    _bug(
        "A7",
        "a replay has the root of the attempt before",
        "acker/roots.py",
        "        return root + 1",
        "        return root",
    ),
    _bug(
        "A11",
        "a repeated frame is read again",
        "topology/runtime/links.py",
        "        if frame.number < self._expected or frame.number in self._early:",
        "        if frame.number in self._early:",
    ),
    _bug(
        "A11",
        "the receiver keeps only the highest number: what was overtaken is never read",
        "topology/runtime/links.py",
        "        ready = []\n        while (following",
        "        ready = []\n        self._expected = number\n        while (following",
    ),
    _bug(
        "A14",
        "of what a death fails, trees that were begun during the notice are forgotten",
        "topology/runtime/worker.py",
        "        trees = self.ledger.fail_all()\n        messages = [",
        "        trees, since = self.ledger.fail_all(), self.clock.monotonic() - 0.01\n"
        "        for tree in [one for one in trees if one.begun > since]:\n"
        "            trees.remove(tree)\n"
        "            self.ledger.begin(tree)\n"
        "        messages = [",
    ),
    _bug(
        "A15",
        "frames of a superseded owner are read",
        "topology/runtime/linking.py",
        "frame.sender == peer.owner and ",
        "",
    ),
    _bug(
        "A18",
        "two subscriptions of one stream have one edge",
        "topology/plan.py",
        "return edge_tag(self.index)",
        "return 0",
    ),
    _bug(
        "B1",
        "an identity depends on the task that a tuple goes to",
        "topology/runtime/outbox.py",
        "own = copy_of(identity, copy) if copy else identity",
        "own = copy_of(identity, target)",
    ),
    _bug(
        "B7",
        "a join's result has the origin of the side that came last",
        "acker/identity.py",
        'return sum(xxh3_64_intdigest(value.to_bytes(8, "little")) for value in values) & MASK or 1',
        'return xxh3_64_intdigest(b"".join(value.to_bytes(8, "little") for value in values)) or 1',
    ),
    _bug(
        "D3",
        "a replay is processed once more by a bolt with state",
        "topology/runtime/keyed.py",
        "            if known is not None:\n                records, filed",
        "            if known is not None and not tup.root:\n                records, filed",
    ),
    _bug(
        "D9",
        "a failed input has changed the state",
        "topology/runtime/keyed.py",
        "        self._value = value\n        self._changed = True",
        "        self._value = value\n        self._changed = True\n        self.merge()",
    ),
    _bug(
        "E2",
        "the mark passes a dead message before its letter is kept",
        "topology/runtime/burying.py",
        "self._changed.items() if name not in self._gone)",
        "self._changed.items() if name not in self._gone and self._keeper.commits % 2)",
    ),
    _bug(
        "E3",
        "the mark passes messages that have failed and wait for their replay",
        "topology/runtime/marking.py",
        "            if tree.value:",
        "            if tree.value and not (tree.own or tree.others):",
    ),
    _bug(
        "E3",
        "the mark is one behind the oldest message that is not done",
        "acker/marks.py",
        "        return Reached(position, tuple(spans), newest)",
        "        position = position + 1 if type(position) is int and position < newest else position\n"
        "        return Reached(position, tuple(spans), newest)",
    ),
    _bug(
        "E4",
        "what is done above the mark begins with the mark itself",
        "acker/marks.py",
        "            spans.append((ints[-1] + 1, int(self._last)))",
        "            spans.append((ints[-1], int(self._last)))",
    ),
    _bug(
        "F20",
        "a commit is reported before it is synced",
        "topology/durable/database.py",
        '    "synchronous": "FULL",',
        '    "synchronous": "OFF",',
    ),
    _bug(
        "A16",
        "a sub-tree that is done does not ack its edge to the first of its inputs",
        "topology/runtime/subtrees.py",
        "        done = [whole for root in tree.inputs if",
        "        done = [whole for root in tree.inputs[1:] if",
    ),
    _bug(
        "A16",
        "the inputs of a sub-tree do not wait for it",
        "topology/runtime/subtrees.py",
        "        self.open[root] = tree\n        self.begun += 1\n        return edge",
        "        self.open[root] = tree\n        self.begun += 1\n        tree.inputs = ()\n        return 0",
    ),
    _bug(
        "C2",
        "what was done in an earlier epoch of a partition is taken for done in a new one",
        "acker/marks.py",
        "            self._lanes[at] = Lane(self._loaded.get(at))",
        "            before = [one for (name, _), one in self._loaded.items() if name == partition]\n"
        "            self._lanes[at] = Lane(before[-1] if before else None)",
    ),
    _bug(
        "D5",
        "a dead letter that waits for room is announced as done",
        "topology/runtime/errands.py",
        "        return [*self._replays.trees(), *self._for_room]",
        "        return self._replays.trees()",
    ),
    _bug(
        "E1",
        "what bolts with state remember of a dead message is forgotten before its letter is replayed",
        "topology/runtime/burying.py",
        "        return set().union(*self._numbers.values(), *(one",
        "        return set().union(*(one",
    ),
    _bug(
        "E2",
        "a letter is kept one commit before the mark that passes its message",
        "topology/runtime/burying.py",
        "            burial.tree.value = 0  # done",
        "            pass  # done",
    ),
    _bug(
        "E4",
        "what is done above the mark is not kept, and a dead message there dies again",
        "acker/marks.py",
        "        spans += self._ahead\n",
        "        spans = spans if not ints and not names else []\n        spans += self._ahead\n",
    ),
)

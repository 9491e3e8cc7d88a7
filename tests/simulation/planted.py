"""Bugs that are planted in the shipped code, for the simulator to find within the seeds of the ordinary suite. Data.

They are mutants, as in `tests.mutants`, without a test of their own: whatever is wrong has to show by what a run comes
to. Where each of two guards keeps a rule alone, both are taken away. Those that need what is not built yet (windows)
come with it.
"""

from typing import Final

from tests.mutants.mutant import Mutant


def _bug(rule: str, breaks: str, file: str, old: str, new: str, *also: Mutant) -> Mutant:
    return Mutant(rule=rule, breaks=breaks, file=file, old=old, new=new, test="", also=also)


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
        "topology/runtime/links/protocol.py",
        "        if frame.number < self._expected or frame.number in self._early:",
        "        if frame.number in self._early:",
    ),
    _bug(
        "A11",
        "the receiver keeps only the highest number: what was overtaken is never read",
        "topology/runtime/links/protocol.py",
        "        ready = []\n        while (following",
        "        ready = []\n        self._expected = number\n        while (following",
    ),
    _bug(
        "A14",
        "of what a death fails, trees that were begun during the notice are forgotten",
        "topology/runtime/worker/worker.py",
        "        trees = self.ledger.fail_all()\n        messages = [",
        "        trees, since = self.ledger.fail_all(), self.clock.monotonic() - 0.01\n"
        "        for tree in [one for one in trees if one.started_at > since]:\n"
        "            trees.remove(tree)\n"
        "            self.ledger.begin(tree)\n"
        "        messages = [",
    ),
    _bug(
        "A15",
        "frames of a superseded owner are read",
        "topology/runtime/links/peers.py",
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
        "topology/runtime/tasks/outbox.py",
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
        "D1",
        "outputs leave when they are about to be kept, and not once they are",
        "topology/runtime/commits/group_commit.py",
        "            part.gather(changes)\n",
        "            part.gather(changes)\n        for part in self._urgent:\n            part.kept()\n",
    ),
    _bug(
        "D2",
        "a known input is acked, and what it had put out is not sent again",
        "topology/runtime/state/committed.py",
        "self.ack_input(tup, self.outbox.emit(self.records_of(entry), tup) if entry.outputs else 0)",
        "self.ack_input(tup, 0)",
    ),
    _bug(
        "D3",
        "an input whose first attempt is not kept yet is processed once more",
        "topology/runtime/state/committed.py",
        "(entry := self.memory.entries.get(pair)) is not None:\n                self._again",
        "(entry := self.memory.entries.get(pair)) is not None and entry.row.kept:\n                self._again",
    ),
    _bug(
        "D3",
        "inputs of one key are worked on side by side",
        "topology/runtime/state/keyed_executor.py",
        "        self.busy[key] = deque()\n",
        "        self.busy[id(tup)] = deque()\n        key = id(tup)\n",
    ),
    _bug(
        "D4",
        "messages are announced as done before the mark that says so is kept",
        "topology/runtime/worker/housekeeping.py",
        "        self._gathered = self._announcing.gather(trees, unfinished)\n",
        "        self._gathered = self._announcing.gather(trees, unfinished)\n        self.kept()\n",
    ),
    _bug(
        "D4",
        "what an earlier life has emitted beyond its marks is forgotten before it has come again",
        "topology/runtime/worker/announce.py",
        "caught_up=self._caught_up,",
        "caught_up=True,",
    ),
    _bug(
        "D9",
        "a failed input has changed the state",
        "topology/runtime/state/keyed_executor.py",
        "            if error is not None:\n",
        "            if error is not None and getattr(state, 'changed', False) and hasattr(self, 'keys'):\n"
        "                from topology.groupings import slot_of\n\n"
        "                self.keys.put(slot_of(state.key), state.key, state.content())\n"
        "            if error is not None:\n",
    ),
    _bug(
        "D10",
        "what could not be kept is taken for kept",
        "topology/runtime/commits/group_commit.py",
        "                self._store_room.full(str(error))\n            except",
        "                self._store_room.full(str(error))\n                kept = True\n            except",
    ),
    _bug(
        "D17",
        "a sub-tree that is complete is announced as done though its inputs may come again",
        "topology/runtime/worker/subtrees.py",
        "        return self._over.keys()",
        "        return ()",
    ),
    _bug(
        "D17",
        "what a timer has put out is announced as done before it is gone from the journal",
        "topology/runtime/state/timer_retries.py",
        "        return (message for messages in self.trees.values() for message in messages)",
        "        return ()",
    ),
    _bug(
        "B10",
        "what a timer has put out has another identity whenever it is sent, and is counted twice",
        "topology/runtime/state/timer_outputs.py",
        'Tuple(Due(b"", "", 0), *pair, root, (), self.source)',
        'Tuple(Due(b"", "", 0), pair[0], root, root, (), self._source)',
    ),
    _bug(
        "B10",
        "what a timer has put out is not sent again after a restart",
        "topology/runtime/state/committed.py",
        "            self._unsent[one.origin, one.identity] = None\n",
        "            pass\n",
    ),
    _bug(
        "B10",
        "a timer of an earlier life is not armed",
        "topology/runtime/state/committed.py",
        "                    self.timers.set(key, timers)\n",
        "                    pass\n",
    ),
    _bug(
        "B2",
        "what was drawn is filed by the input's identity, whatever way the input has come",
        "topology/runtime/state/committed.py",
        "slot_of_identity(tup.identity) if key_of is None else",
        "slot_of_identity(tup.identity) if True else",
    ),
    _bug(
        "E2",
        "the mark passes a dead message before its letter is kept",
        "topology/runtime/dead_letters/letter_store.py",
        "self._changed.items() if name not in self._gone)",
        "self._changed.items() if name not in self._gone and self._keeper.commits % 2)",
    ),
    _bug(
        "E3",
        "the mark passes messages that have failed and wait for their replay",
        "topology/runtime/tasks/marks.py",
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
        "topology/storage/sqlite/database.py",
        '    "synchronous": "FULL",',
        '    "synchronous": "OFF",',
    ),
    _bug(
        "A16",
        "a sub-tree that is done does not ack its edge to the first of its inputs",
        "topology/runtime/worker/subtrees.py",
        "        done = [whole for root in tree.inputs if",
        "        done = [whole for root in tree.inputs[1:] if",
    ),
    _bug(
        "A16",
        "the inputs of a sub-tree do not wait for it",
        "topology/runtime/worker/subtrees.py",
        "            self._fresh[message_of(root)] = [message_of(input_root) for input_root in inputs]\n"
        "        return edge",
        "            self._fresh[message_of(root)] = [message_of(input_root) for input_root in inputs]\n"
        "        tree.inputs = ()\n        return 0",
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
        "a tuple of a message that is done is taken",
        "topology/runtime/state/committed.py",
        "if root and (self.floors.refuses(",
        "if False and (self.floors.refuses(",
    ),
    _bug(
        "D5",
        "a tuple of an earlier life is taken",
        "acker/progress.py",
        "else precedes(message, newest)",
        "else False",
    ),
    _bug(
        "D7",
        "what is remembered of inputs is not where their keys are",
        "topology/runtime/state/garbage.py",
        "if (at := task_of_slot(entry.slot, count)) in tasks:",
        "if (at := min(tasks)) in tasks:",
    ),
    _bug(
        "D15",
        "what belongs to several messages is forgotten once the first is done, and taken until all are",
        "acker/floors.py",
        "        if len(messages) == 1:  # the hot path",
        "        if messages:  # the hot path",
        _bug(  # who refuses for one that is done needs nothing that is remembered for the others
            "D15",
            "what is joined with something stale is taken",
            "topology/runtime/state/keyed_executor.py",
            "return any(map(self.floors.refuses",
            "return all(map(self.floors.refuses",
        ),
    ),
    _bug(
        "D5",
        "a dead letter that waits for room is announced as done",
        "topology/runtime/dead_letters/deliveries.py",
        "        return [*self._replays.trees(), *self._for_room]",
        "        return self._replays.trees()",
    ),
    _bug(
        "E1",
        "what bolts with state remember of a dead message is forgotten before its letter is replayed",
        "topology/runtime/dead_letters/letter_store.py",
        "            *self._numbers.values(), *(burial.numbers",
        "            *(burial.numbers",
        _bug(  # what is of one message alone is kept by its origin, too
            "E1",
            "it is not announced by its origin either",
            "topology/runtime/worker/announce.py",
            "            dead=home.dead_letters.letter_store.dead,\n",
            "            dead=frozenset(),\n",
        ),
    ),
    _bug(
        "E1",
        "what bolts with state remember of an earlier life's dead message is forgotten",
        "acker/floors.py",
        "        if origin in self.dead:",
        "        if False:",
    ),
    _bug(
        "E1",
        "what an earlier life has left is over as soon as the next one has announced something",
        "acker/floors.py",
        "if progress is not None and not _ended(message, progress):",
        "if progress is not None:",
    ),
    _bug(
        "E2",
        "a letter is kept one commit before the mark that passes its message",
        "topology/runtime/dead_letters/letter_store.py",
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

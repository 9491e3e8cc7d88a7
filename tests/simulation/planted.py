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
        "outputs leave when their records are written, and not once they are synced",
        "topology/runtime/checkpoints/log_commit.py",
        "        self._release(self._released if self._synced else self._position)",
        "        self._release(self._position)",
    ),
    _bug(
        "D2",
        "a known input is acked, and what it had emitted is not sent again",
        "topology/runtime/state/state_executor.py",
        "        if entry.out:\n            self._send(tup, entry)",
        "        if entry.out:\n            self.ack_input(tup, 0)",
    ),
    _bug(
        "D3",
        "an input whose first attempt is not kept yet is processed once more",
        "topology/runtime/state/keyed_work.py",
        "            if root and (entry := self.known.get(pair)) is not None:",
        "            if root and (entry := self.known.get(pair)) is not None and entry.out:",
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
        "what a frontier has is forgotten when it is packed, and not when it is decided",
        "topology/runtime/state/known_inputs.py",
        "        self._open = found, sum(",
        "        self.older = found\n        self._open = found, sum(",
    ),
    _bug(
        "D9",
        "a failed input has changed the state",
        "topology/runtime/state/keyed_executor.py",
        "            if error is not None:\n",
        "            if error is not None and getattr(state, 'changed', False):\n"
        "                self.keys.put(state.key, state.held(0))\n"
        "            if error is not None:\n",
    ),
    _bug(
        "D10",
        "what a checkpoint had that was given up is in none",
        "topology/runtime/checkpoints/worker_checkpoints.py",
        "            for gathered in self._gathered:\n                gathered.not_kept()\n",
        "            pass\n",
    ),
    _bug(
        "D17",
        "a sub-tree that is complete is in a frontier though its inputs may come again",
        "topology/runtime/worker/subtrees.py",
        "        return self._lost.union(self._inputs), frozenset(self._lost)",
        "        return {message_of(root) for root in self.open}, frozenset()",
    ),
    _bug(
        "D17",
        "what a timer has emitted is announced as done before it is gone from the journal",
        "topology/runtime/state/timer_retries.py",
        "        return (message for messages in self.trees.values() for message in messages)",
        "        return ()",
    ),
    _bug(
        "B10",
        "what a timer has emitted has another identity whenever it is sent, and is counted twice",
        "topology/runtime/state/timer_outputs.py",
        'Tuple(Due(b"", "", 0), *pair, root, (), self.source)',
        'Tuple(Due(b"", "", 0), pair[0], root, root, (), self._source)',
    ),
    _bug(
        "B10",
        "what a timer has emitted is not sent again after a restart",
        "topology/runtime/state/state_executor.py",
        "                if entry.timer and entry.out:\n",
        "                if entry.timer and not entry.out:\n",
    ),
    _bug(
        "B10",
        "a timer of an earlier life is not armed",
        "topology/runtime/state/state_executor.py",
        "                if timers := timers_in(self.keys.get(key)):\n"
        "                    self.timers.set(key, timers)\n",
        "                pass\n",
    ),
    _bug(
        "B2",
        "what was drawn is filed by the input's identity, whatever way the input has come",
        "topology/runtime/state/keyed_work.py",
        "            key = tup.source.key(tup.record)\n        entry = None\n",
        "            key = None\n        entry = None\n",
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
        "            (unfinished if tree.value else done)",
        "            (unfinished if tree.value and not (tree.own or tree.others) else done)",
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
        "the newest message that is not done is among what is done above the mark",
        "acker/marks.py",
        "        first, open_ones = unfinished[known], set(unfinished[known:])\n",
        "        first, open_ones = unfinished[known], set(unfinished[known:-1])\n",
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
        "= self._decided.gathered\n        return edge",
        "= self._decided.gathered\n        tree.inputs = ()\n        return 0",
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
        "topology/runtime/state/keyed_work.py",
        " and executor.is_stale(tup):",
        " and False:",
    ),
    _bug(
        "D5",
        "a tuple of an earlier life is taken",
        "acker/frontier.py",
        "        if (self._over and message >> NUMBER_BITS in self._over) or ",
        "        if ",
    ),
    _bug(
        "D7",
        "what is remembered of inputs is not where their keys are",
        "topology/runtime/state/restore.py",
        "if (at := task_of_slot(entry.slot, count)) in tasks:",
        "if (at := min(tasks)) in tasks:",
    ),
    _bug(
        "D15",
        "what belongs to several messages is forgotten once the first is done, and taken until all are",
        "acker/frontier.py",
        "        return all(not message or has(message)",
        "        return any(not message or has(message)",
        _bug(  # who refuses for one that is done needs nothing that is remembered for the others
            "D15",
            "what is joined with something stale is taken",
            "topology/runtime/state/keyed_executor.py",
            "return any(map(self.decided.refuses",
            "return all(map(self.decided.refuses",
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
        "what bolts with state know of a dead message is forgotten before its letter is replayed",
        "topology/runtime/worker/worker.py",
        "        unfinished.update(sub_roots, self.fired.not_done, self.dead_letters.unfinished())",
        "        unfinished.update(sub_roots, self.fired.not_done)",
    ),
    _bug(
        "E1",
        "what an earlier life has left is forgotten with the first checkpoint",
        "acker/frontier.py",
        "        if not messages:\n            return origin in self.dropped\n",
        "        if not messages:\n            return True\n",
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

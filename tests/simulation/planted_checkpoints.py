"""Bugs of checkpoints, logs and generations that are planted in the shipped code, for the simulator to find. Data.

With those of `planted` there is one or more for each rule P1 … P16 (docs/internals/checkpoints.md). Where two guards
keep a rule, both are taken away. No run shows that records stand behind the mark of the snapshot that has them (P8),
nor that a full log is marked all the same (P14): a second redo of a record changes nothing, a group is in the log as a
whole, and no input is acked before its record is there. `tests.mutants` has these two.
"""

from typing import Final

from tests.mutants.mutant import Mutant


def planted(rule: str, breaks: str, file: str, old: str, new: str, *also: Mutant) -> Mutant:
    return Mutant(rule=rule, breaks=breaks, file=file, old=old, new=new, test="", also=also)


_CHECKPOINTS: Final = "topology/runtime/checkpoints/worker_checkpoints.py"
_COORDINATOR: Final = "topology/runtime/checkpoints/coordinator.py"
_EXECUTOR: Final = "topology/runtime/state/state_executor.py"
_WORK: Final = "topology/runtime/state/keyed_work.py"
_KNOWN: Final = "topology/runtime/state/known_inputs.py"
_WORKER: Final = "topology/runtime/worker/worker.py"
_STORE: Final = "topology/storage/worker_store.py"
_LETTERS: Final = "topology/runtime/dead_letters/letter_store.py"

PLANTED: Final = (
    planted(
        "P1",
        "a worker gathers as it notes, when others have not noted",
        _CHECKPOINTS,
        "        self._underway = _Underway(checkpoint, note, not changed, changes)\n",
        "        self._underway = _Underway(checkpoint, note, not changed, changes)\n"
        "        self._gather(self._underway)\n",
    ),
    planted(
        "P1",
        "a tuple is read before the checkpoint is gathered that its sender has gathered",
        "topology/runtime/links/peers.py",
        "        if content.checkpoint > checkpoints.gathered:",
        "        if False and content.checkpoint > checkpoints.gathered:",
    ),
    planted(
        "P2",
        "positions are those of the moment at which a worker gathers",
        _CHECKPOINTS,
        "        now.stage = CheckpointStage.GATHERED\n",
        "        now.stage, now.changes = CheckpointStage.GATHERED, Changes()\n"
        "        for noted in self._noted:\n            noted.gather(now.changes)\n",
    ),
    planted(
        "P3",
        "a source goes on where it is, when the state has gone back",
        _WORKER,
        "                spout_task.go_back()\n",
        "                pass\n",
    ),
    planted(
        "P4",
        "it is not logged that a known input has come under another number",
        _EXECUTOR,
        "            if self._logged is not None and self._logged.takes_number(entry):\n",
        "            if self._logged is not None and self._logged.full:\n",
    ),
    planted(
        "P4",
        "a replacement does not know in which messages its inputs came, and keeps them for ever",
        _EXECUTOR,
        "        messages = one.messages if lives_on and not one.timer else ()\n",
        "        messages = ()\n",
    ),
    planted(
        "P5",
        "a checkpoint is decided when the first worker has kept its part",
        _COORDINATOR,
        "            self._bytes += size\n",
        "            self._bytes += size\n            self._waits_for = {worker}\n",
    ),
    planted(
        "P5",
        "a decision is told before it is durable",
        _COORDINATOR,
        "                await self._decide(checkpoint)\n",
        "                deciding = asyncio.ensure_future(self._decide(checkpoint))\n"
        "                deciding.add_done_callback(lambda one: one.exception())\n",
    ),
    planted(
        "P5",
        "an undecided checkpoint is the content after a restart",
        _STORE,
        "            store.resolve(max(decided, store.checkpoint))",
        "            store.resolve(max(decided, store.checkpoint, store.prepared))",
    ),
    planted(
        "P5",
        "a checkpoint is prepared over one of which it is unknown whether it is decided",
        _COORDINATOR,
        "                self._broken = error\n                raise\n",
        "                raise\n",
    ),
    planted(
        "P5",
        "a decision that is not durable in a store is forgotten, as nothing else has changed there",
        "topology/storage/sqlite/store.py",
        "self._durable != self._own.commits",
        "False",
    ),
    planted(
        "P6",
        "a checkpoint begins while the decision before is being taken in",
        _CHECKPOINTS,
        "        elif now is not None and now.stage is CheckpointStage.DECIDED:\n            why",
        "        elif False and now is not None:\n            why",
        planted(
            "P6",
            "the coordinator does not wait for that",
            _COORDINATOR,
            "            await self._all(checkpoint, SETTLE, members, lambda member: member.send_decided(checkpoint))",
            "            for member in members:\n                member.send_decided(checkpoint)",
        ),
    ),
    planted(
        "P6",
        "an answer to a checkpoint that was given up counts for the next one",
        _COORDINATOR,
        "        return self._present == (checkpoint, step) and worker in self._waits_for",
        "        return self._present[1] == step and worker in self._waits_for",
    ),
    planted(
        "P7",
        "a known input is counted again",
        _WORK,
        "            if root and (entry := self.known.get(pair)) is not None:",
        "            if False and (entry := self.known.get(pair)) is not None:",
    ),
    planted(
        "P7",
        "an input that comes again before its record is in the log is acked at once",
        _EXECUTOR,
        "        if entry.out:\n            self._send(tup, entry)\n        else:",
        "        if True:\n            self._send(tup, entry)\n        else:",
    ),
    planted(
        "P8",
        "the log is cut when a checkpoint is kept, before it is decided",
        _STORE,
        "        self._store.prepare(checkpoint, changes)\n",
        "        self._store.prepare(checkpoint, changes)\n        self._is_decided(checkpoint)\n",
    ),
    planted(
        "P8",
        "inputs of a second group are taken for logged with the first, when the log was full",
        "topology/runtime/checkpoints/log_commit.py",
        "        if not self._unwritten:\n            for part in self._parts:\n",
        "        if True:\n            for part in self._parts:\n",
    ),
    planted(
        "P9",
        "frames of an older generation are read",
        "topology/runtime/links/peers.py",
        "        if peer is None or not known or frame.run != self._run or frame.session != self.generation:",
        "        if peer is None or not known or frame.run != self._run or frame.session > self.generation:",
        planted(
            "P9",
            "in the session of this one, too",
            "topology/runtime/links/protocol.py",
            "(frame.sender, frame.receiver, frame.session) != (self.sender, self.receiver, self.session)",
            "(frame.sender, frame.receiver) != (self.sender, self.receiver)",
        ),
    ),
    planted(
        "P9",
        "a survivor does not go back",
        _WORKER,
        '        if self.config.durability == "checkpoint":\n            self.decided.went_back()',
        '        if self.config.durability == "checkpoint" and gone is None:\n            self.decided.went_back()',
    ),
    planted(
        "P9",
        "what waits in the queues of a survivor is worked on",
        _WORKER,
        "            executor.begin_generation()\n",
        "            pass\n",
    ),
    planted(
        "P10",
        "a letter that is dropped is in no frontier",
        _LETTERS,
        "        return frozenset(self._removed.values())",
        "        return frozenset()",
    ),
    planted(
        "P11",
        "a source is told that it may forget a message as soon as it is done",
        "topology/runtime/tasks/spout_task.py",
        "        self._done.add(trees)\n",
        "        self._done.add(trees)\n        if self.callbacks.wants_settled:\n"
        "            self.callbacks.settled([tree.message for tree in trees])\n",
    ),
    planted(
        "P12",
        "logs that a loss of power has torn at different places are redone",
        "topology/storage/rescale/resolve.py",
        "    if state.has_torn_logs:",
        "    if False and state.has_torn_logs:",
    ),
    planted(
        "P13",
        "a sync of the log that has failed is taken for one that has not",
        "topology/storage/log/log.py",
        "                except OSError as error:\n"
        "                    raise self._break(self._both[index], error) from error\n"
        "            self._synced = position",
        "                except OSError:\n                    pass\n            self._synced = position",
    ),
    planted(
        "P14",
        "a store that is full has kept its part",
        _CHECKPOINTS,
        "            if now is self._underway:\n                self.answers.unprepared(now.number, str(error))\n"
        "            return\n",
        "            if now is not self._underway:\n                return\n"
        "            now.stage = CheckpointStage.PREPARED\n",
    ),
    planted(
        "P15",
        "state is divided among other tasks without what the logs have",
        "topology/storage/worker_store.py",
        "            changes = redone.changes if redone is not None else Changes()",
        "            changes, redone = Changes(), None",
    ),
    planted(
        "P15",
        "state is divided among other tasks as of an undecided checkpoint",
        "topology/storage/rescale/resolve.py",
        "            store.resolve(decided)\n",
        "            store.resolve(max(decided, store.prepared))\n",
    ),
    planted(
        "P15",
        "what a directory had stays beside the checkpoint that its run begins from",
        "topology/storage/directory/state_dir.py",
        "                if is_content(name):\n",
        '                if name.endswith(".db"):\n',
        planted(
            "P15",
            "its logs are redone",
            "topology/storage/rescale/resolve.py",
            "    if state.has_torn_logs:",
            "    if False and state.has_torn_logs:",
        ),
    ),
    # -- names, sub-trees and timers
    planted(
        "D1",
        "outputs of a run that goes back are named by their inputs",
        "topology/runtime/worker/build.py",
        'by_count=declared.by_count and lasts and config.durability != "disk"',
        'by_count=declared.by_count and lasts and config.durability == ""',
    ),
    planted(
        "D17",
        "a sub-tree that is under way is in no frontier, though a later one has done its messages",
        "topology/runtime/worker/subtrees.py",
        "            if not inputs:\n                del self._inputs[message]\n",
        "            if not inputs and message << NUMBER_SHIFT | LAST_ATTEMPT not in self.open:\n"
        "                del self._inputs[message]\n",
    ),
    planted(
        "D17",
        "what stands for a message of a life that is over is never given up",
        "topology/runtime/worker/subtrees.py",
        "                self._lose(message)\n\n    def _drop_decided",
        "                pass\n\n    def _drop_decided",
    ),
    planted(
        "B10",
        "timers that have fired since the checkpoint do not fire again when the run goes back",
        _EXECUTOR,
        "            self.timers.go_back({key: timers_in(self.keys.get(key)) for key in changed})\n",
        "            self.timers.go_back({})\n",
    ),
)

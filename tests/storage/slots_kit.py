"""State that a run of several workers has left, with the inputs that it knows, and a start of another plan on it."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from durable_kit import store

from topology.filesystem.files import DiskFiles
from topology.groupings import key_bytes, slot_of, task_of_slot
from topology.storage.directory.state_dir import StateDir
from topology.storage.encoding import state as states
from topology.storage.encoding.entries import KnownEntry, OutputClass, packed
from topology.storage.rescale.assign import refile
from topology.storage.values import Changes, EntryRow, StateChange, StateRow

Placements = Mapping[str, Sequence[int]]

KEYS = 60
CLASSES = [OutputClass("Alert", 7)]
TWO: Placements = {"count": [0, 1], "drawn": [0, 1]}


def filed(path: Path, placements: Placements, files: DiskFiles | None = None, *, clean: bool = False) -> None:
    """A start of a run, as far as its stores are concerned; the last one was cut short unless it ended `clean`."""
    with closing(StateDir(path, "t", files=files)) as state:
        if state.clean != clean:
            state.set_clean() if clean else state.set_begun("shape")
        state.check_files()
        workers = {worker for placement in placements.values() for worker in placement}
        refile(state, {worker: [] for worker in sorted(workers)}, placements)


def fill(path: Path, placements: Placements, keys: int = KEYS, *, remembered: bool = True) -> None:
    """What a run has left: a value and perhaps a timer of each key, and three `remembered` inputs of each."""
    by_worker: dict[int, list[tuple[StateRow, list[KnownEntry]]]] = {}
    for number in range(keys):
        key = key_bytes(f"key {number}")
        slot = slot_of(key)
        timers = {"soon": number} if number % 3 == 0 else {}
        content = states.packed(str(number).encode() * 40, timers)
        row = StateRow(slot, key, states.body_of(states.seed_of("count", slot), key, content))
        outputs = ((0, b"out"),) if number % 2 else ()
        inputs = [KnownEntry(slot, number * 10 + one, number * 10 + one, (one + 1,), outputs) for one in range(2)]
        inputs.append(KnownEntry(slot, number * 10 + 2, number * 10 + 2, (), outputs, timer=True))
        worker = placements["count"][task_of_slot(slot, len(placements["count"]))]
        by_worker.setdefault(worker, []).append((row, inputs))
    for worker, kept in by_worker.items():
        with store(path / f"worker-{worker}.db") as one:
            rows = [row for row, _ in kept]
            digest = 0
            for row in rows:
                digest ^= states.sum_of(row.body)
            known: list[EntryRow] = []
            for at in range(0, len(kept), 7):  # inputs of several slots in a row, and each timer in one of its own
                some = [entry for _, inputs in kept[at : at + 7] for entry in inputs]
                groups = [[entry for entry in some if not entry.timer], *([entry] for entry in some if entry.timer)]
                for group in groups:
                    known.append(EntryRow("count", packed(CLASSES, group)))
            drawn = KnownEntry(700, 10**6 + worker, 10**6 + worker, (9,), ((0, b"drawn"),))
            known.append(EntryRow("gone", packed(CLASSES, [drawn])))
            if task_of_slot(700, len(placements["drawn"])) == placements["drawn"].index(worker):
                known.append(EntryRow("drawn", packed(CLASSES, [drawn])))
            known = known if remembered else []
            one.replace(Changes(states=[StateChange("count", rows, digest)]), entries=known)

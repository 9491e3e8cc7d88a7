"""Moves the data of spouts' tasks from one store to another, so that no crash loses any of it (F56).

Data is copied, durably, before it is removed from its old store. After a crash between the two steps both stores have
the same data, and it is moved again. Must not know why anything moves.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

import msgspec

from topology.storage.encoding.packing import begun_key, mark_key, trial_key
from topology.storage.sqlite.store import SqliteStore
from topology.storage.values import Begun, Changes, Letter, Loaded, Mark, Trial

LETTERS_AT_ONCE: Final = 50  # letters in memory with their records

Home = Callable[[str, int], int | None]  # for a component's task: the number of its store; None: where it is


def move(stores: Mapping[int, SqliteStore], home: Home) -> int:
    """Move all data that is in the wrong store; return the number of moved values. Raises StoreFull, StoreBroken."""
    moved = 0
    for number, source in stores.items():
        held = source.reread()
        letters = list(_letters(source))
        for other, target in stores.items():
            if other == number:
                continue

            def goes(component: str, task: int, to: int = other) -> bool:
                return home(component, task) == to

            moved += _move_values(source, target, held, goes)
            moved += _move_letters(source, target, [name for name, component, task in letters if goes(component, task)])
    return moved


def _letters(store: SqliteStore) -> Iterator[tuple[str, str, int]]:
    """Yield name, component and task of each letter."""
    after = ""
    while page := store.listed(after):
        for letter in page:
            yield letter.name, letter.component, letter.task
        after = page[-1].name


def _move_values(source: SqliteStore, target: SqliteStore, held: Loaded, goes: Callable[[str, int], bool]) -> int:
    marks = [mark for mark in held.marks if goes(mark.component, mark.task)]
    begun = [entry for entry in held.begun if goes(entry.component, entry.task)]
    trials = [trial for trial in held.trials if goes(trial.component, trial.task)]
    if not marks and not begun and not trials:
        return 0
    there = target.reread()
    marks_there = {mark_key(mark): mark for mark in there.marks}
    begun_there = {begun_key(entry): entry for entry in there.begun}
    trials_there = {trial_key(trial): trial for trial in there.trials}
    target.commit(
        Changes(
            marks=[earlier_mark(mark, marks_there.get(mark_key(mark), mark)) for mark in marks],
            begun=[_one_begun(entry, begun_there.get(begun_key(entry), entry)) for entry in begun],
            trials=[max(trial, trials_there.get(trial_key(trial), trial), key=_deaths) for trial in trials],
        )
    )
    source.replace(Changes(), marks=marks, begun=begun, trials=trials)
    return len(marks) + len(begun) + len(trials)


def _deaths(trial: Trial) -> int:
    return trial.deaths


def earlier_mark(one: Mark, other: Mark) -> Mark:
    """Return the mark that claims less, of two marks of one task and epoch. Two such marks exist only because of an
    older copy of a file. The result claims only what both claim, if anything."""
    if one == other or type(one.position) is not int or type(other.position) is not int:
        return one
    lower, higher = sorted((one, other), key=lambda mark: mark.position)
    return msgspec.structs.replace(lower, done=(), newest=higher.newest)


def _one_begun(one: Begun, other: Begun) -> Begun:
    """Merge two entries. If their numbers of tasks differ, neither is valid: the result has 0 tasks, so no mark
    counts."""
    return one if one.tasks == other.tasks else msgspec.structs.replace(one, tasks=0)


def _move_letters(source: SqliteStore, target: SqliteStore, names: Iterable[str]) -> int:
    moved = 0
    there = {*target.names()}
    remaining = iter(names)
    while group := list(islice(remaining, LETTERS_AT_ONCE)):
        letters: list[Letter] = source.letters([name for name in group if name not in there])
        if letters:
            target.commit(Changes(letters=letters))
        source.commit(Changes(gone=group))
        moved += len(group)
    return moved

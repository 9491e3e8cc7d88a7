"""Answers about the dead letters of a state directory that no run uses: the answers that a run's workers would give,
from its files. The caller has the directory open, and so locked. Must not know sockets or terminals.

A requested replay is marked in the letter, and the next run performs it.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType

import msgspec

from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.storage.directory.shape import names_in
from topology.storage.directory.state_dir import StateDir
from topology.storage.encoding.letter_pages import Showing, problem_of
from topology.storage.encoding.packing import LETTERS_BYTES_MAX, letter_order, packed_letter
from topology.storage.rescale.assign import opened_stores
from topology.storage.rescale.known_inputs import forget_inputs
from topology.storage.rescale.move import LETTERS_AT_ONCE
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import StoreBroken, StoreFull
from topology.storage.values import Changes, Letter

Where = dict[str, list[SqliteStore]]  # letter → the stores that have it: two after a crash, until a run moves it


def answer(state: StateDir, ask: DeadAsk) -> DeadAnswer:
    """Do what is asked, durably. Unknown names are ignored. A problem of the disk is reported in the answer. Raises
    StartError if a file cannot be read, ValueError for an unknown act."""
    with opened_stores(state) as stores:
        return answer_of(list(stores.values()), ask, names_in(state.shape))


def answer_of(
    stores: Sequence[SqliteStore], ask: DeadAsk, names: Mapping[str, str] = MappingProxyType({})
) -> DeadAnswer:
    """Answer as `answer` does, for open stores. `names`: former name → present name of renamed spouts."""
    where: Where = {}
    for store in stores:
        for name in store.names():
            where.setdefault(name, []).append(store)
    match ask.act:
        case "list":
            found = _listed(stores, ask, names)
            return DeadAnswer(ask.number, found, total=len(where))
        case "show":
            return _shown(where, ask, names)
        case "drop" | "replay":
            return _changed(stores, where, ask)
    raise ValueError(f"nothing can be done to dead letters by {ask.act!r:.40}")


def _listed(stores: Sequence[SqliteStore], ask: DeadAsk, names: Mapping[str, str]) -> tuple[bytes, ...]:
    """Return the letters after the one named `after`, of all stores in one order. Each store is read from there;
    letters behind the last one of a store may come with the next page."""
    pages = [store.listed(ask.after, ask.limit) for store in stores]
    end = min((_order(page[-1]) for page, store in zip(pages, stores, strict=True) if _cut(page, store)), default=None)
    letters = {letter.name: letter for page in pages for letter in page}
    packed: list[bytes] = []
    size = 0
    for letter in sorted(letters.values(), key=_order)[: ask.limit]:
        data = packed_letter(_named(letter, names))
        size += len(data)
        if (packed and size > LETTERS_BYTES_MAX) or (end is not None and _order(letter) > end):
            break
        packed.append(data)
    return tuple(packed)


def _named(letter: Letter, names: Mapping[str, str]) -> Letter:
    """Return the letter with the present name of its spout."""
    return msgspec.structs.replace(letter, component=names.get(letter.component, letter.component))


def _cut(page: Sequence[Letter], store: SqliteStore) -> bool:
    """Return True if the store has letters behind this page."""
    return bool(page) and store.names()[-1] != page[-1].name


def _order(letter: Letter) -> tuple[int, int]:
    return letter_order(letter.name)


def _shown(where: Where, ask: DeadAsk, names: Mapping[str, str]) -> DeadAnswer:
    showing = Showing()
    for name in dict.fromkeys(ask.names):
        for letter in where[name][0].letters([name]) if name in where else ():
            showing.add(_named(letter, names))
    return DeadAnswer(ask.number, tuple(showing.letters), total=len(where), problem=problem_of(showing.problems))


def _changed(every: Sequence[SqliteStore], where: Where, ask: DeadAsk) -> DeadAnswer:
    wanted = list(dict.fromkeys(name for name in ask.names if name in where)) if ask.names else [*where]
    done: list[str] = []
    origins: set[int] = set()  # of dropped letters
    problem = ""
    try:
        for stores, names in _groups(where, sorted(wanted, key=letter_order)):
            if ask.act == "drop":
                origins |= {letter.origin for letter in stores[0].letters(names)}
            for store in stores:
                if ask.act == "drop":
                    store.commit(Changes(gone=names))
                else:
                    letters = [letter for letter in store.letters(names) if not letter.replaying]
                    store.commit(
                        Changes(letters=[msgspec.structs.replace(letter, replaying=True) for letter in letters])
                    )
            done += names
        if origins:
            forget_inputs(every, origins)
    except (StoreFull, StoreBroken) as error:
        problem = str(error)
    left = len(where) - (len(done) if ask.act == "drop" else 0)
    return DeadAnswer(ask.number, (), tuple(done), left, problem)


def _groups(where: Where, names: Sequence[str]) -> Iterator[tuple[Sequence[SqliteStore], list[str]]]:
    """Yield groups of LETTERS_AT_ONCE letters, each group of the same stores."""
    for stores in {tuple(map(id, where[name])): where[name] for name in names}.values():
        its = (name for name in names if where[name] == stores)
        while group := list(islice(its, LETTERS_AT_ONCE)):
            yield stores, group

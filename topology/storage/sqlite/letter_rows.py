"""A store's dead letters, in two tables, so that listing them does not read long content: letters without record and
traceback, and these contents. Must not know SQL, nor what else a store keeps."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from topology.storage.encoding import packing
from topology.storage.sqlite import tables
from topology.storage.sqlite.database import Damaged, Database
from topology.storage.values import Letter

LISTED_BYTES_MAX: Final = 4 * 1024 * 1024  # of letters that are listed at once; the next page has more


@dataclass
class LetterIndex:
    """Facts on the letters in the file when it was opened: see `Loaded`."""

    count: int = 0
    size: int = 0
    unserved: list[str] = field(default_factory=list)
    replaying: list[str] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)


class LetterRows:
    """The letters of one open file. Methods that read raise Damaged, ValueError, StoreBroken."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._letters, self._contents = tables.RowTable("letters"), tables.RowTable("contents")
        self.tables = (self._letters, self._contents)

    def load(self, *, checked: bool) -> LetterIndex:
        """Read the index. `checked`: records and tracebacks were checked just before."""
        held = LetterIndex()
        for key, body in tables.loaded(self._database, self._letters):
            letter = packing.letter_of(body)
            if letter.name.encode() != key:
                raise Damaged("a letter has another name than its row")
            held.size += len(letter.text) + len(letter.problem)
            held.origins.append(letter.origin)
            if not letter.served:
                held.unserved.append(letter.name)
            if letter.replaying:
                held.replaying.append(letter.name)
        if checked:
            held.size += sum(tables.known(self._database, self._contents))
        else:
            for _, body in tables.loaded(self._database, self._contents):
                held.size += packing.contents_size(body)
        if self._letters.rows.keys() != self._contents.rows.keys():
            raise Damaged("letters without content, or content without letters")
        held.count = len(self._letters.rows)
        held.unserved.sort(key=packing.letter_order)
        held.replaying.sort(key=packing.letter_order)
        return held

    def of(self, names: Iterable[str]) -> list[Letter]:
        """Return the letters of these names, with their contents."""
        return [self._letter(name.encode(), whole=True) for name in names if name.encode() in self._letters.rows]

    def after(self, name: str, limit: int) -> list[Letter]:
        """Return letters with their contents, in the order of their names."""
        return [self._letter(key, whole=True) for key in self._keys_after(name)[:limit]]

    def listed(self, after: str, limit: int) -> list[Letter]:
        """Return letters without records and tracebacks. Long letters may be fewer than `limit`, but at least one if
        there is one."""
        found: list[Letter] = []
        total = 0
        for key in self._keys_after(after)[:limit]:
            found.append(self._letter(key, whole=False))
            total += len(found[-1].text) + len(found[-1].problem)
            if total > LISTED_BYTES_MAX:
                break
        return found

    def names(self) -> list[str]:
        return [key.decode() for key in self._keys_after("")]

    def put(self, writing: tables.Writing, letter: Letter) -> None:
        key = letter.name.encode()
        writing.put(self._letters, key, packing.packed_letter(packing.without_contents(letter)))
        writing.put(self._contents, key, packing.packed_contents(letter))

    def remove(self, writing: tables.Writing, names: Iterable[str]) -> None:
        keys = [name.encode() for name in names]
        for table in self.tables:
            writing.remove_all(table, keys)

    def _keys_after(self, after: str) -> list[bytes]:
        keys = sorted(self._letters.rows, key=lambda key: packing.letter_order(key.decode()))
        if not after:
            return keys
        order = packing.letter_order(after)
        return [key for key in keys if packing.letter_order(key.decode()) > order]

    def _letter(self, key: bytes, *, whole: bool) -> Letter:
        letter = packing.letter_of(tables.read(self._database, self._letters, key))
        return packing.with_contents(letter, tables.read(self._database, self._contents, key)) if whole else letter

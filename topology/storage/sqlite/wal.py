"""Commits in SQLite's write-ahead log that SQLite would ignore.

SQLite reads a log as far as its checksums are valid, and silently ignores the rest. That is right for a torn tail,
because a commit that was not synced was never reported. It is wrong for a flipped byte in the middle: later commits
were synced, reported and acted on (F22).

One commit is synced before the next one is written, and the log restarts only when it is empty. So more than one commit
behind the last valid frame is damage. A flip in the last commit itself looks like a torn one, and is treated as such.
Pure.
"""

from collections import Counter
from struct import Struct
from typing import Final

_HEADER: Final = 32  # bytes, before the first frame
_FRAME: Final = 24  # bytes, before each page
_MAGIC: Final = 0x377F0682  # its last bit is the byte order of the checksum's words
_MASK: Final = 0xFFFF_FFFF

_header = Struct(">8I").unpack_from
_frame = Struct(">6I").unpack_from


def commits_passed_over(log: bytes) -> int:
    """Return the number of commits in the log behind the last one that SQLite will read. 0 or 1 is sound."""
    if len(log) < _HEADER + _FRAME:
        return 0
    magic, _, page_bytes, _, salt_1, salt_2, *check = _header(log)
    order = ">" if magic & 1 else "<"
    sound = magic & ~1 == _MAGIC and list(_check(order, log[:24], 0, 0)) == check
    if not sound:  # page size and salts may have flipped: use those of the first frame, and try every page size
        _, _, salt_1, salt_2, *_ = _frame(log, _HEADER)
        sizes = [1 << shift for shift in range(9, 17)]
        return max(_commits_behind(log, _HEADER, size, salt_1, salt_2) for size in sizes)
    at, (one, two) = _HEADER, check
    whole = Struct(f"{order}{page_bytes // 4}I").unpack_from
    taken = at
    while at + _FRAME + page_bytes <= len(log):
        _, pages, first, second, *found = _frame(log, at)
        if (first, second) != (salt_1, salt_2):
            break
        one, two = _check(order, log[at : at + 8], one, two)
        one, two = _sum(whole(log, at + _FRAME), one, two)
        if [one, two] != found:
            break
        at += _FRAME + page_bytes
        if pages:
            taken = at
    return _commits_behind(log, taken, page_bytes, salt_1, salt_2)


def _commits_behind(log: bytes, at: int, page_bytes: int, salt_1: int, salt_2: int) -> int:
    """Return a lower bound of the commits. Each commit has a frame that marks it, and writes a page once; one page is
    in all of them. The flipped byte may be in a frame's salts, or in its mark."""
    commits = 0
    writes: Counter[int] = Counter()
    while at + _FRAME <= len(log):
        page, pages, first, second, *_ = _frame(log, at)
        if page and (first == salt_1 or second == salt_2):
            commits += bool(pages)
            writes[page] += 1
        at += _FRAME + page_bytes
    return max(commits, *writes.values(), 0)


def _check(order: str, data: bytes, one: int, two: int) -> tuple[int, int]:
    return _sum(Struct(f"{order}{len(data) // 4}I").unpack(data), one, two)


def _sum(words: tuple[int, ...], one: int, two: int) -> tuple[int, int]:
    pairs = iter(words)
    for first, second in zip(pairs, pairs, strict=True):
        one = (one + first + two) & _MASK
        two = (two + second + one) & _MASK
    return one, two

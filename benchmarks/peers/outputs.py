"""The output of a script, as a multiset of its rows, and its difference from another output. Pure except for reading.

No peer guarantees an order: rows are compared by how often each is there, and times as times, in any notation. Kedge's
rows also contain their key and their class, which are not part of the result.

    python -m benchmarks.peers.outputs KEDGES OTHER …

prints the problems of each, a list of sentences as JSON.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

OURS: Final = ("key", "record")
SHOWN: Final = 3  # rows that a difference shows

TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z")

Value = str | int | float | bool | None
Rows = Counter[tuple[tuple[str, Value], ...]]


def differences(ours: Path, *others: Path) -> list[str]:
    """Return each file's problem as a sentence, ours first; empty if it has none."""
    differences: list[str] = []
    expected: Rows = Counter()
    for path in (ours, *others):
        wrong = ""
        try:
            found = rows_of(path)
        except (OSError, ValueError) as error:
            wrong, found = f"the output is not readable: {error}", Counter()
        if path == ours:
            expected = found
            wrong = wrong or ("" if found else "it wrote no row, so there is nothing to compare")
        elif not wrong and (unlike := difference(found, expected)):
            wrong = f"the output differs from Kedge's: {unlike}"
        differences.append(wrong)
    return differences


def rows_of(path: Path) -> Rows:
    """Return a file's rows. Raises OSError, and ValueError for a line that is not a JSON object of plain values."""
    with open(path, "rb") as file:
        return rows(file)


def rows(lines: Iterable[bytes]) -> Rows:
    """Return the rows of these lines; see `rows_of`."""
    decode = msgspec.json.Decoder(dict[str, Value]).decode
    return Counter(
        tuple(sorted((name, _value(value)) for name, value in decode(line).items() if name not in OURS))
        for line in lines
    )


def _value(value: Value) -> Value:
    if isinstance(value, str) and TIME.fullmatch(value):
        return datetime.fromisoformat(value).isoformat()
    return value


def difference(found: Rows, expected: Rows) -> str:
    """Return the difference as a sentence, with its first few rows; empty if there is none."""
    missing, extra = expected - found, found - expected
    parts = [
        f"{_counted(what.total())} {word}: {', '.join(str(dict(row)) for row in list(what)[:SHOWN])}"
        for word, what in (("missing", missing), ("too many", extra))
        if what
    ]
    return "; ".join(parts)


def _counted(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows:,} rows"


if __name__ == "__main__":
    print(json.dumps(differences(*map(Path, sys.argv[1:]))))

"""What the topologies with state have stored, counted by SQL and compared with what the numbers alone say."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tallied import expected


def tallied_exactly(folder: Path, records: int) -> None:
    """Fails unless each word of the first `records` numbers has come to each of its counts once, and to no other."""
    with closing(sqlite3.connect(folder / "store.db")) as store:
        assert store.execute("PRAGMA quick_check").fetchone() == ("ok",)
        found = store.execute(
            "SELECT text, count(*), count(DISTINCT count), min(count), max(count) FROM tally GROUP BY text"
        )
        rows = {text: counts for text, *counts in found}
    wanted = {text: [count, count, 1, count] for text, count in expected(records).items()}
    wrong = {
        text: (rows.get(text), wanted.get(text)) for text in {*rows, *wanted} if rows.get(text) != wanted.get(text)
    }
    assert not wrong, (
        f"(rows, different, first, last), there and wanted, of {len(wrong)} words: {sorted(wrong.items())[:5]}"
    )
    print(f"exact: each of {len(wanted):,} words has come to each of its counts once")

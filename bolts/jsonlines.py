"""`JsonLinesSink`: records as lines of JSON at the end of a file, each once, whatever is replayed.

What a user declares; the batches are `batching`'s, the file is `jsonlines_store`'s.
"""

from collections.abc import Iterable
from os import PathLike, fspath

from bolts.batching import BatchingSink, Store
from bolts.jsonlines_store import JsonLinesStore


class JsonLinesSink(BatchingSink):
    """Appends each record as `{"key": "…", "record": "BruteForce", …its fields}`, and acks it when that is durable.

    The key, 48 hexadecimal digits (see `bolts.keys`), is inside the line, so file and keys can't disagree (C7). A
    replay has the key of its line and is dropped, in any later run on the same file too: `open` reads all lines. One
    emission that arrives by two subscriptions is one line (C5). A field called `key` or `record` keeps its name, and
    the member that is ours gets an underscore. datetimes are ISO 8601 in UTC, bytes base64, Decimals texts, enums their
    values, records objects, tuples and frozensets lists.

    `open` cuts a torn last line off, as a crash leaves it, and says so; a line damaged or edited is a
    ConfigurationError that names it. A value that a store would change fails alone, as in `SqliteSink`; a full disk
    fails the batch.

    The keys are kept in memory, about 150 bytes a line: for more than some million records, use `SqliteSink`. One task,
    one sink, one process writes a file, under a lock. It must not be moved, rotated or edited meanwhile: tuples fail
    then. `batch` and `within_ms`: as in `SqliteSink`.
    """

    def __init__(self, path: str | PathLike[str], *, batch: int = 500, within_ms: float = 5.0) -> None:
        """Raises ConfigurationError. Does no I/O: `open` does."""
        super().__init__(batch=batch, within_ms=within_ms)
        self.path = fspath(path)

    def summary(self) -> Iterable[str]:
        """What was stored, and where."""
        yield f"{self.stored:,} lines stored in {self.path}, {self.duplicates:,} known already"

    def _make_store(self) -> Store:
        return JsonLinesStore(self.path)

"""`JsonLinesSink`: records as lines of JSON at the end of a file, each once, whatever is replayed.

What a user declares; the batches are `batching`'s, the file is `jsonlines_store`'s.
"""

from collections.abc import Iterable
from os import PathLike, fspath

from bolts.batching import BatchingSink
from bolts.contract import Store
from bolts.jsonlines_store import JsonLinesStore
from bolts.upserting import Mode
from topology.codes.given import K343
from topology.errors import ConfigurationError


class JsonLinesSink(BatchingSink):
    """Appends each record as `{"key": "…", "record": "BruteForce", …its fields}`, and acks it when that is durable.

    The key, 48 hexadecimal digits (see `bolts.keys`), is inside the line, so file and keys can't disagree (C7). A
    replay has the key of its line and is dropped, in any later run on the same file too: `open` reads all lines. One
    emission that arrives by two subscriptions is one line (C5). A field called `key` or `record` keeps its name, and
    the member that is ours gets an underscore. datetimes are ISO 8601 in UTC, bytes base64, Decimals texts, enums their
    values, records objects, tuples and frozensets lists. Lines are never replaced: there is no upsert mode.

    `open` cuts a torn last line off, as a crash leaves it, and says so; a line damaged or edited is a
    ConfigurationError that names it. A value that a store would change fails alone, as in `SqliteSink`. Where the disk
    is full, or the file was moved or changed, the sink waits and asks again, for as long as it takes, and nothing
    fails; where an fsync fails, the process ends.

    No key is forgotten. The newest are in memory, up to 131,072, about 150 bytes each. Older ones are in an index on
    the disk, about 40 bytes each: a file without a name in the same folder, or, if nothing may be made there, in the
    system's folder for temporary files. It goes when the sink is closed, or its process dies. So the keys take 90 MB of
    memory at most, however many lines there are. Where the index has no room, the sink waits as for the file; at
    `open`, it is a ConfigurationError. `open` takes some microseconds a line.

    One task, one sink, one process writes a file, under a lock. `batch` and `within_ms`: as in `SqliteSink`.
    """

    def __init__(
        self, path: str | PathLike[str], *, mode: Mode = "append", batch: int = 500, within_ms: float = 5.0
    ) -> None:
        """Raises ConfigurationError. Does no I/O: `open` does."""
        super().__init__(batch=batch, within_ms=within_ms)
        if mode != "append":
            raise ConfigurationError(
                f"JsonLinesSink: lines are appended, and mode is 'append', not {mode!r}", code=K343
            )
        self.path = fspath(path)

    def summary(self) -> Iterable[str]:
        """What was stored, and where."""
        yield f"{self.stored:,} lines stored in {self.path}, {self.duplicates:,} known already"

    def _make_store(self) -> Store:
        return JsonLinesStore(self.path)

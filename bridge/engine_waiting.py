"""With `--trigger available-now`, whether all that is handed over is there: asked again and again until it is.

Knows the folders of inputs, and no Spark.
"""

from collections.abc import Iterable

from bridge.stream import Stream


class Waiting:
    """For the end of these inputs, while nobody reads them."""

    def __init__(self, streams: Iterable[Stream]) -> None:
        """Looks at nothing yet."""
        self._seen: list[tuple[Stream, dict[str, int]]] = [(stream, {}) for stream in streams]

    def over(self) -> bool:
        """Whether each task has said that it ends where its segments do. A look costs as much as has come since the one
        before: numbers have no gaps, and what was seen stays until it is read."""
        return all(self._is_over(stream, seen) for stream, seen in self._seen)

    def _is_over(self, stream: Stream, seen: dict[str, int]) -> bool:
        below = {task: seen.get(task) or stream.of(task).done() for task in stream.tasks()}
        seen |= stream.reached(below)
        return stream.ended(seen)

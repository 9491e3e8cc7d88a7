"""`Topology`, the class that a user declares and runs: a graph with its check, its picture and its run.

The file must not know how any of these is done. It delegates to `topology.checks`, `topology.drawing` and
`topology.runtime`, and imports each on first use, because a declaration alone must stay light.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topology.codes.command_line import RUN_DURING_IMPORT
from topology.errors import ConfigurationError, DeclarationError
from topology.graph import Graph, being_loaded

if TYPE_CHECKING:
    from topology.runtime.run.report import Report


class Topology(Graph):
    """A graph of spouts and bolts. Declare it in a module, then run it by `kedge run`, `run` or `serve`.

    A complete program, `words.py`, for `kedge run words.py`:

        from collections.abc import Iterator

        from bolts import SqliteSink
        from kedge import Record, Topology, bolt
        from spouts import FileTail, Line


        class Word(Record):
            text: str


        @bolt
        def split(line: Line) -> Iterator[Word]:
            for text in line.text.split():
                yield Word(text)


        topology = Topology("words")
        lines = topology.spout("lines", FileTail("book.txt"))
        words = topology.bolt("split", split, lines.shuffle(), tasks=2)
        topology.bolt("store", SqliteSink("words.db"), words.shuffle())

    Methods that declare do not raise for a mistake in the graph. `validate`, and each run, report all mistakes
    together.
    """

    def validate(self) -> None:
        """Raise DeclarationError with every mistake of the declaration; return None if there is none."""
        from topology.checks.declaration import require_valid

        require_valid(self)

    def run(
        self,
        *,
        workers: int | None = None,
        state_dir: str | Path | None = None,
        made_by: "Callable[[], Topology] | None" = None,
    ) -> "Report":
        """Run the topology. Blocks until the run has ended, or was interrupted and has drained. Returns its Report.

        workers    None: run in this process, in an event loop of its own. A number from 1 to 64: run on that many
                   processes, which this process starts, watches and replaces.
        state_dir  The directory that keeps positions, state and dead letters for the next run. None: nothing is kept.
                   Positions and state are then in memory. Each run reads its sources from their start, and so does a
                   worker that replaces a dead one. State in a worker begins empty after its death, and the state of
                   other workers counts the records that are read again twice. Dead letters are only logged.
        made_by    For several processes only: each process makes its own copy of the topology. Without `made_by`, a
                   process imports the module that has this topology as an attribute at its top level, usually the
                   program itself. Otherwise pass a function at the top level of a module, or a functools.partial of one
                   with plain values (None, bool, int, float, str, bytes, and lists and dicts of them).

        Each worker imports the program, so put the call of `run` under `if __name__ == "__main__":`.

        SIGINT and SIGTERM drain the run; a second one ends it at once. Afterwards the signals are handled as before.
        Raises DeclarationError, ConfigurationError or StartError if the run cannot begin. Raises RuntimeError in a
        running loop: await `serve` there. A later failure is in the Report and is not raised. When `run` returns or
        raises, no process, socket or lock of the run is left.
        """
        self._refuse_while_loading()
        from topology.runtime.launch import run

        return run(self, workers=workers, state_dir=state_dir, made_by=made_by)

    async def serve(
        self,
        *,
        workers: int | None = None,
        state_dir: str | Path | None = None,
        stop: Awaitable[Any] | None = None,
        made_by: "Callable[[], Topology] | None" = None,
    ) -> "Report":
        """Run the topology as `run` does, but in the running loop and without a signal handler.

        The run drains once `stop` is done. If the call is cancelled, it drains and closes everything before it raises
        CancelledError. If it is cancelled again, it does not wait for work in flight. To get the report, end the run by
        `stop`.
        """
        self._refuse_while_loading()
        from topology.runtime.launch import serve

        return await serve(self, workers=workers, state_dir=state_dir, stop=stop, made_by=made_by)

    def _refuse_while_loading(self) -> None:
        if what := being_loaded():
            raise ConfigurationError(
                f"{what} runs its topology {self.name!r:.80} while it is loaded", code=RUN_DURING_IMPORT
            )

    def _repr_svg_(self) -> str | None:
        """Return the picture that a notebook shows, or None while the declaration has mistakes."""
        from topology import drawing

        try:
            return drawing.svg(self)
        except DeclarationError:
            return None

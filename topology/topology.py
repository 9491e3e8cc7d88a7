"""`Topology`, what a user declares and runs: the graph, with its check, its picture and its run.

Must not know how any of them is done: it hands over to `topology.checks`, `topology.drawing` and `topology.runtime`,
which load when they are called, as a declaration alone must stay light.
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
    """A graph of spouts and bolts. Declare it in a module, then `kedge run` it, or call `run`, or await `serve`."""

    def validate(self) -> None:
        """Raises DeclarationError with every mistake of the declaration; returns where there is none."""
        from topology.checks.declaration import require_valid

        require_valid(self)

    def run(
        self,
        *,
        workers: int | None = None,
        state_dir: str | Path | None = None,
        made_by: "Callable[[], Topology] | None" = None,
    ) -> "Report":
        """Runs the topology; blocks until it has ended, or was interrupted and has drained. Returns how it ended.

        workers    None: in this process, in an event loop of its own. A number, 1 to 64: on so many processes, which
                   this one starts, watches and replaces.
        state_dir  Where positions, state and dead letters are kept for the next run. None: nowhere. Then positions and
                   state are in memory. Sources are read from their start in each run, and again when the worker that
                   reads them dies. State in a worker begins empty after its death, and other workers' state counts
                   again what is read again. Dead letters are logged only.
        made_by    Only for several processes: each makes the topology anew. Without it, it imports the module that has
                   this topology as an attribute at its top level: the program itself, most of the time. Otherwise give
                   a function at the top level of a module, or a functools.partial of one with plain values (None, bool,
                   int, float, str, bytes, and lists and dicts of them).

        As a worker imports the program, the call of `run` stands under `if __name__ == "__main__":`.

        SIGINT and SIGTERM drain the run, a second one ends it now; afterwards they are handled as before. Raises
        DeclarationError, ConfigurationError or StartError where it can't begin, and RuntimeError in a running loop:
        await `serve` there. What goes wrong later is in the Report, and is not raised. When it returns or raises, no
        process, socket or lock of the run is left.
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
        """As `run`, in the running loop; touches no signal handler. Drains once `stop` is done.

        Cancelled, it drains and closes everything before it raises CancelledError; cancelled again, it does not wait
        for what is under way. Who wants the report ends it by `stop`.
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
        """What a notebook shows: a picture, or nothing while the declaration has mistakes, as an unfinished one has."""
        from topology import drawing

        try:
            return drawing.svg(self)
        except DeclarationError:
            return None

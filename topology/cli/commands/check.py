"""`kedge check`: report all mistakes of a declaration, and what a replay would make wrong, without running anything."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Final

import typer

from topology.checks.declaration import require_valid
from topology.cli.options import ConfigOption, DebugOption, SetOption, TargetArgument, declared
from topology.cli.output import terminal
from topology.text import printable

if TYPE_CHECKING:
    from topology.graph import Graph

EXAMPLES: Final = (
    ("kedge check alerts.py", "the topology in this file"),
    ("kedge check shop.alerts:nightly --set path=x.log", "the topology that this function makes"),
    ("kedge check alerts.py --guarantees", "the guarantee of each sink, and the components that limit it"),
    ("kedge check alerts.py --engine spark", "the parts that Spark can't run, and why"),
)


def check(
    target: TargetArgument,
    set_: SetOption = None,
    config: ConfigOption = None,
    guarantees: Annotated[
        bool,
        typer.Option("--guarantees", help="Show the delivery guarantee of each sink and the component that limits it."),
    ] = False,
    no_state: Annotated[bool, typer.Option("--no-state", help="Show the guarantees of a run with --no-state.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print only the guarantees, as a JSON object.")] = False,
    engine: Annotated[
        str | None,
        typer.Option("--engine", metavar="NAME", help="Also report what this engine can't run: spark."),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Find every mistake of a topology, without running it.

    Also warns about results that a replay would make wrong, and about extras that the topology needs and that are not
    installed. Reads, stores and starts nothing, and needs no secret.
    """
    absent: list[str] = []
    topology, _ = declared(target, set_ or [], config or [], absent=absent)
    for line in absent:
        terminal.say(f"{line}; checked without it")
    require_valid(topology)
    if engine is not None:
        from topology.cli import engines

        engines.check(topology, engine)
    from topology.checks.declaration import warnings
    from topology.checks.guarantees import guarantees as promised
    from topology.cli.output import guarantees as promises
    from topology.cli.output.summary import described
    from topology.runtime.worker.sink_horizon import check_memories, memory_lines

    check_memories(topology.components, topology.config)
    found = [*map(str, warnings(topology)), *_missing(topology)]
    for warning in found:
        terminal.say(f"warning: {printable(warning)}")
    if as_json:
        terminal.put(promises.as_json(topology.name, promised(topology, keeps=not no_state)))
        return
    count = f", {len(found)} warning{'s' * (len(found) != 1)}" if found else ""
    terminal.put(f"{topology.name}: {described(topology)}, no mistakes{count}")
    for line in memory_lines(topology.components):
        terminal.put(f"  {printable(line)}")
    if guarantees or no_state:
        for line in promises.lines(promised(topology, keeps=not no_state)):
            terminal.put(line)
    if engine is not None:
        terminal.put(f"on {printable(engine)}: the whole topology can run there; nothing was started")


def _missing(topology: "Graph") -> Iterator[str]:
    """Return a warning for each module that a component imports when it opens, and that is not installed."""
    from topology.loading.load import how_to_install

    for component in topology.components:
        for module in getattr(component.prototype, "imports_at_open", ()):
            if find_spec(module) is None:
                yield f"{component.name!r} needs {module}, which is not installed here: {how_to_install(module)}"

"""`kedge state`: show, export and import the stored state of bolts, and keep checkpoints under a name.

All but the last work only on a state directory that no run uses, because only one process may open its files. A
checkpoint is kept by the run, if there is one.
"""

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from topology.checks.declaration import require_valid
from topology.cli.cleanup import interruptible
from topology.cli.options import DebugOption
from topology.cli.output import terminal
from topology.cli.state_dir_argument import TopologyOption, WhereOption, is_file, place
from topology.cli.state_dirs import HOME
from topology.codes.declarations import STATE_EXPORT_IO_ERROR
from topology.errors import ConfigurationError
from topology.filesystem.safe_files import write_anew
from topology.text import discard, escaped, printable, write_line

if TYPE_CHECKING:
    from topology.graph import Graph
    from topology.storage.directory.shape import ComponentShape

EXAMPLES: Final = (
    ("kedge state show count 10.0.0.1", "slot, task, value and timers of one key"),
    (
        "kedge state show joined '[\"a\", 1]' --topology app.py",
        "a key of two fields, with the value printed by its class",
    ),
    ("kedge state export -o state.jsonl", "all state of the only topology in this folder"),
    ("kedge state export count | jq -c 'select(.slot) | [.key, .value]'", "keys and values of one component"),
    ("kedge state import state.jsonl", "asks first if it runs on a terminal"),
    ("kedge state import state.jsonl --state-dir new", "into a directory, which need not exist"),
    (
        "kedge state checkpoint friday",
        "keeps a checkpoint of the run, which goes on; kedge run --from friday begins there",
    ),
    ("kedge state checkpoint --list", "all checkpoints that are kept, the newest last"),
)
LINES_AT_ONCE: Final = 1_000  # lines written together
HEADER: Final = b'{"kedge"'  # first bytes of a header line


def _savepoints(incomplete: str) -> list[str]:
    """Return the checkpoints of the topologies in this folder, to complete a word."""
    from topology.cli import savepoints

    return savepoints.offered(incomplete)


NameArgument = Annotated[
    str | None, typer.Argument(metavar="NAME", help="1 to 64 of A-Z a-z 0-9 _ and -. Default: the time.")
]
ComponentArgument = Annotated[str, typer.Argument(metavar="COMPONENT", help="A bolt with state.")]
ComponentsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="COMPONENT...", help="Bolts with state. Default: all of them.")
]
KeyArgument = Annotated[
    str,
    typer.Argument(
        metavar="KEY", help="The key as text or as JSON: 10.0.0.1, 42, '[\"a\", 1]' of two fields, '' of global_()."
    ),
]
FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="The output of kedge state export; - for stdin.")]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write to FILE, when the export is complete; - is stdout, the default."
    ),
]
AsJsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, in the format of export.")]


def state() -> None:
    """Show, export or import state, or keep a checkpoint.

    The topology must not be running, except for checkpoint. Export and import also need a run that has drained.
    """


def show(
    component: ComponentArgument,
    key: KeyArgument,
    topology: TopologyOption = None,
    state_dir: WhereOption = None,
    as_json: AsJsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show the state of one key: slot, task, value and timers."""
    from topology.cli.state_keys import keys_meant, shown
    from topology.groupings import slot_of, task_of_slot
    from topology.storage.offline.export import row_json
    from topology.storage.offline.state import HeldState

    meant = _meant(topology, state_dir)
    with HeldState(meant.directory) as held:
        known_as = held.known_as(component)
        noted = held.components[known_as]
        found = [kept for form in keys_meant(key) if (kept := held.found(known_as, slot_of(form), form)) is not None]
    decode = _decoder(meant.topology, known_as)
    for kept in found:
        task = task_of_slot(kept.slot, noted["tasks"])
        if as_json:
            terminal.put(json.dumps({"component": component, "task": task} | row_json(kept)))
        else:
            terminal.put("\n".join(shown(component, kept, task, noted["state"], decode)))
    if not found:
        terminal.say(f"{printable(component)!r} has no state for the key {escaped(key)!r:.80}")
        raise typer.Exit(1)


def export(
    components: ComponentsArgument = None,
    output: OutputOption = None,
    topology: TopologyOption = None,
    state_dir: WhereOption = None,
    debug: DebugOption = False,
) -> None:
    """Write state as JSON Lines.

    Writes a header per component, and after it a line per key.
    """
    from topology.storage.offline.state import HeldState

    with HeldState(_meant(topology, state_dir).directory) as held:
        lines = held.lines([held.known_as(component) for component in components or ()])
        if output is not None and str(output) != "-":
            with interruptible():  # so that no incomplete file stays
                _write_file(output, lines)
        else:
            _write_out(lines)


def import_(
    file: FileArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    topology: TopologyOption = None,
    state_dir: WhereOption = None,
    debug: DebugOption = False,
) -> None:
    """Replace stored state.

    Replaces all state of the components in FILE. The state of other components stays unchanged.
    """
    from topology.storage.offline.export import Reading
    from topology.storage.offline.state import HeldState

    meant = _meant(topology, state_dir, new=True)
    if not yes and file != "-" and _answering():
        names = ", ".join(map(escaped, _names(file))) or "no component"
        if not typer.confirm(f"replace all state of {names} in {meant.directory}?", err=True):
            terminal.say("replaced nothing")
            raise typer.Exit(1)
    decoder = partial(_decoder, meant.topology)
    with _opened(file) as lines:
        reading = Reading(lines, "stdin" if file == "-" else printable(file), decoder)
        name = meant.topology.name if meant.topology is not None else None
        if not (meant.directory / "state.json").exists():
            first = next(lines, b"")
            header, _ = next(Reading([first] if first else [], reading.name).sections())
            name = name or header.topology
            reading = Reading(chain([first], lines), reading.name, decoder)
        with HeldState(meant.directory, name) as held:
            counts = held.restore(reading, _declared(meant.topology))
    for name, count in counts.items():
        terminal.put(f"replaced the state of {escaped(name)!r}: {count:,} key{'s' * (count != 1)}")


def checkpoint(
    name: NameArgument = None,
    list_: Annotated[bool, typer.Option("--list", help="List the checkpoints that are kept, the newest last.")] = False,
    delete: Annotated[
        str | None, typer.Option("--delete", metavar="NAME", help="Delete this one.", autocompletion=_savepoints)
    ] = None,
    topology: TopologyOption = None,
    state_dir: WhereOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    debug: DebugOption = False,
) -> None:
    """Keep a checkpoint under a name.

    A kept checkpoint has the positions of all sources, all state and all dead letters, of one moment. A run that goes
    on keeps it meanwhile. kedge run --from NAME begins there, any number of times.
    """
    from topology.cli import savepoints

    if sum((name is not None, list_, delete is not None)) > 1:
        text = "a name, --list and --delete NAME exclude each other"
        raise typer.BadParameter(text)
    directory = place(topology, state_dir, by="--topology")
    if list_:
        savepoints.show_all(directory, as_json=as_json)
    elif delete is not None:
        savepoints.delete(directory, delete)
    else:
        raise typer.Exit(savepoints.keep(directory, name, as_json=as_json, debug=debug))


ACTS: Final = {"show": show, "export": export, "import": import_, "checkpoint": checkpoint}


# -- the state that a command works on


class _Meant(NamedTuple):
    directory: Path
    topology: "Graph | None"  # if its file was named


def _meant(named: str | None, state_dir: Path | None, *, new: bool = False) -> _Meant:
    """Return the state directory, and the topology if its file was named.

    `new`: the directory need not exist. A file that declares the topology also declares the types of its state, so it
    may be named together with a directory.
    """
    topology = None
    directory = state_dir
    if named is not None and is_file(named):
        from topology.cli.options import declared

        topology = declared(named, [], [])[0]
        named = topology.name if state_dir is None else None
        directory = state_dir or HOME / topology.name
    if not new or (named is not None and topology is None) or directory is None or directory.exists():
        directory = place(named, state_dir, by="--topology")
    return _Meant(directory, topology)


def _declared(topology: "Graph | None") -> "dict[str, ComponentShape] | None":
    """Return the components of a topology as its file declares them now."""
    if topology is None:
        return None
    from topology.plan import plan
    from topology.storage.directory.shape import shape_of

    require_valid(topology)
    return shape_of(plan(topology))["components"]


def _decoder(topology: "Graph | None", known_as: str) -> Callable[[bytes], Any] | None:
    """Return the decoder for values of the state's own type; None without the topology or the component in it."""
    for component in topology.components if topology is not None else ():
        if component.known_as == known_as and component.shape == "state":
            from topology.runtime.state.value import StateCodec
            from topology.signatures import state_type

            return StateCodec(component.name, state_type(component.prototype), timed=True).decode
    return None


# -- files


def _write_out(lines: Iterator[str]) -> None:
    """Write the lines to stdout. Ends without an error if the reader has closed the pipe."""
    try:
        while chunk := list(islice(lines, LINES_AT_ONCE)):
            write_line(sys.stdout, "\n".join(chunk))
    except BrokenPipeError:
        discard(sys.stdout)


def _write_file(path: Path, lines: Iterable[str]) -> None:
    """Write the file completely, or not at all; see `safe_files.write_anew` for links, pipes and devices."""
    try:
        write_anew(path, (f"{line}\n".encode("ascii") for line in lines), synced=True)
    except OSError as error:
        raise _unusable(str(path), error) from error


@contextlib.contextmanager
def _opened(file: str) -> Iterator[Iterator[bytes]]:
    if file == "-":
        yield iter(sys.stdin.buffer)
        return
    try:
        with open(file, "rb") as opened:
            yield iter(opened)
    except OSError as error:
        raise _unusable(file, error) from error


def _names(file: str) -> list[str]:
    """Return the components that the headers of a file name. A later step reports unreadable lines."""
    names: list[str] = []
    with _opened(file) as lines:
        for line in lines:
            if line.startswith(HEADER):
                with contextlib.suppress(ValueError, AttributeError):
                    names.append(str(json.loads(line).get("component")))
    return names


def _unusable(file: str, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"{printable(file)!r} can't be used: {error.strerror or error}", code=STATE_EXPORT_IO_ERROR
    )


def _answering() -> bool:
    """Return True if stdin and stderr are a terminal, so that the user can answer a question."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()

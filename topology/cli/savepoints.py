"""Checkpoints that are kept under a name, for a command: made by the run that uses the state directory or, without a
run, from its files; listed and deleted in the folder itself. Blocks.
"""

import json
from contextlib import closing
from pathlib import Path
from typing import Final

from topology.cli.next_steps import delete_checkpoint, run_from
from topology.cli.output import terminal
from topology.cli.run_client import no_run, reached
from topology.cli.state_dirs import called, visible_state_dirs
from topology.codes.catalogue import CODES
from topology.codes.savepoints import SAVEPOINT_FAILED
from topology.errors import StartError, WorkerError
from topology.filesystem.files import DiskFiles
from topology.runtime.clock import utc_now
from topology.runtime.run.command_socket import Save, Saved, Trouble
from topology.storage.directory import savepoints
from topology.storage.directory.savepoints import Savepoint
from topology.text import printable

SILENT_EACH: Final = 10  # seconds without an answer, after which a line says so
SILENT_MAX: Final = 3_600  # seconds without an answer, after which the command stops waiting: a copy may be large
COLUMNS: Final = ("name", "kept", "topology", "files", "bytes", "in flight")


def keep(directory: Path, name: str | None, *, as_json: bool, debug: bool) -> int:
    """Keep a checkpoint of this state directory, and print which; without a name, its time is the name. Return the exit
    status. Raises ConfigurationError, StartError."""
    from topology.cli.errors import print_error

    if name is not None:
        savepoints.checked_name(name)
    try:
        one = _kept(directory, name or "")
    except WorkerError as error:
        print_error(error, debug=debug)
        return 1
    if as_json:
        terminal.put(json.dumps(_fields(one)))
        return 0
    terminal.put(
        f"{printable(called(directory))}: kept checkpoint {one.name}, {one.size:,} bytes, in {shown(one.path)}"
    )
    terminal.say(f"try next: {run_from(directory, one.name)}   # begins there, any number of times")
    return 0


def shown(path: Path) -> str:
    """Return a path for people."""
    return printable(str(path))


def _kept(directory: Path, name: str) -> Savepoint:
    line = reached(directory)
    if line is None:
        return _of_files(directory, name)
    with line:
        line.ask(Save(name))
        answer = line.heard(lambda seconds: _silent(directory, seconds), SILENT_MAX)
    if isinstance(answer, Trouble):
        raise WorkerError(printable(answer.text), code=SAVEPOINT_FAILED)
    if not isinstance(answer, Saved):
        raise no_run("it has answered without a request")
    if answer.problem:
        raise StartError(printable(answer.problem), code=CODES.get(answer.code, SAVEPOINT_FAILED))
    if not savepoints.NAME.fullmatch(answer.name) or (name and answer.name != name):
        raise no_run("it has kept another checkpoint")
    return savepoints.found(DiskFiles(), savepoints.folder_of(directory, answer.name))


def _of_files(directory: Path, name: str) -> Savepoint:
    from topology.storage.directory.state_dir import StateDir
    from topology.storage.offline.savepoints import keep

    with closing(StateDir(directory, None)) as state:
        return keep(state, name, utc_now())


def _silent(directory: Path, seconds: int) -> None:
    if seconds % SILENT_EACH == 0:
        terminal.say(f"{printable(called(directory))}: the run has not kept it for {seconds} s yet; it is copying")


def show_all(directory: Path, *, as_json: bool) -> None:
    """Print all kept checkpoints of a state directory, the newest last."""
    there = savepoints.listed(DiskFiles(), directory)
    for name in savepoints.damaged(DiskFiles(), directory):
        terminal.say(f"checkpoint {name} is damaged; delete it: {delete_checkpoint(directory, name)}")
    if as_json:
        for kept in there:
            terminal.put(json.dumps(_fields(kept)))
        return
    if not there:
        terminal.say("no checkpoint is kept under a name")
        return
    rows = [COLUMNS, *map(_row, there)]
    sizes = [max(len(row[at]) for row in rows) for at in range(len(COLUMNS) - 1)]
    for row in rows:
        cells = [row[at].rjust(size) if at in (3, 4) else row[at].ljust(size) for at, size in enumerate(sizes)]
        terminal.put(f"{'  '.join(cells)}  {row[-1]}".rstrip())


def delete(directory: Path, name: str) -> None:
    """Delete a kept checkpoint of a state directory. Raises StartError, ConfigurationError."""
    left = savepoints.delete(DiskFiles(), directory, name)
    terminal.put(f"{printable(called(directory))}: deleted checkpoint {name}")
    if left:
        terminal.say(printable(left))


def offered(incomplete: str) -> list[str]:
    """Return the names of checkpoints that begin so, of all state directories of the folder."""
    there = {kept.name for directory in visible_state_dirs() for kept in savepoints.listed(DiskFiles(), directory)}
    return sorted(name for name in there if name.startswith(incomplete))


def _row(one: Savepoint) -> tuple[str, ...]:
    in_flight = "nothing" if one.is_clean else "messages"
    return (
        one.name,
        one.when,
        printable(one.manifest.topology),
        str(len(one.manifest.files)),
        f"{one.size:,}",
        in_flight,
    )


def _fields(one: Savepoint) -> dict[str, object]:
    return {
        "name": one.name,
        "path": str(one.path),
        "kept_at": one.when.replace(" ", "T"),
        "topology": one.manifest.topology,
        "run_id": one.manifest.run_id or None,
        "stores": len(one.manifest.files),
        "bytes": one.size,
        "drained": one.is_clean,
    }

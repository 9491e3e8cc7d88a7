"""`kedge demo`: the SSH alerts over a log that the command makes, for users who have only the wheel.

The wheel has this folder as the package `kedge_examples`, so this file finds its neighbours by their place, never by a
name. `ssh_alerts.py` explains the topology, and the command line prints what the run does.
"""

import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from math import inf
from pathlib import Path
from shutil import rmtree
from typing import Annotated, Any, Final

import typer

from topology.cli.cleanup import end_at_once, held, interruptible
from topology.cli.command import given_as
from topology.cli.commands.new import refuse_what_is_there, typed
from topology.cli.commands.run import start
from topology.cli.log_levels import LogFormat, LogLevel
from topology.cli.options import DebugOption, LogFormatOption, LogLevelOption
from topology.cli.output import terminal
from topology.codes.command_line import INVALID_DEMO_OPTION, PROJECT_DIR_NOT_EMPTY, PROJECT_DIR_NOT_WRITABLE
from topology.errors import ConfigurationError
from topology.loading.durations import Duration
from topology.plan import WORKERS_MAX
from topology.text import printable

ALERTS: Final = Path(__file__).with_name("ssh_alerts.py")
LINES_MIN: Final = 1_000  # with fewer there is no room for an attack
LINES_MAX: Final = 1_000_000  # lines are made in memory, and take about 100 bytes each
YEAR_S: Final = 366 * 86_400.0
EXAMPLES: Final = (
    ("kedge demo", "for about 17 s, so that there is time to kill a worker"),
    ("kedge demo --rate 0 --keep demo", "as fast as it can; the log and the stored alerts are kept in the folder demo"),
)


def demo(
    rate: Annotated[
        float, typer.Option("--rate", metavar="LINES", help="Lines a second; 0: as fast as it can.")
    ] = 1200.0,
    lines: Annotated[int, typer.Option("--lines", metavar="N", help="How long the log is.")] = 20_000,
    workers: Annotated[int, typer.Option("--workers", metavar="N", help="On how many worker processes.")] = 2,
    for_s: Annotated[
        Duration | None,
        typer.Option(
            "--for", metavar="TIME", parser=Duration, help="Drain and end after this long: 8s, 2m, or seconds."
        ),
    ] = None,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="DIR", help="Make the log and the store in DIR, and keep them.")
    ] = None,
    log_format: LogFormatOption = LogFormat.AUTO,
    log_level: LogLevelOption = LogLevel.INFO,
    debug: DebugOption = False,
) -> None:
    """Watch a run that finds attacks in an sshd log.

    It makes the log itself, runs on two worker processes, says how to kill one, prints alerts as they come, and removes
    what it wrote at the end.
    """
    if wrong := _wrong(rate, lines, workers, for_s):
        raise ConfigurationError(wrong, code=INVALID_DEMO_OPTION)
    if keep is not None:
        refuse_what_is_there(keep)
    os.environ.setdefault("KEDGE_HINT", "1")  # print how to kill a worker even without a terminal
    with interruptible(), _folder(keep) as folder:
        terminal.say("\n".join(_told(folder, lines, rate, workers, kept=keep is not None)))
        log, store, state = folder / "auth.log", folder / "alerts.db", folder / "state"
        _make(log, lines)
        values = [f"path={log}", f"store={store}", "show=true"]
        same = [*(word for value in values for word in ("--set", value)), "--state-dir", str(state)]
        if keep is None:
            try_next = f"{typed('kedge')} new my-alerts   # a topology of your own, with its tests"
        else:
            command = f"{typed('kedge')} run {shlex.join([str(ALERTS), *same])}"
            try_next = f"{printable(command)}   # the same log again: nothing is stored twice"
        end_at_once(lambda: rmtree(folder, ignore_errors=True) if keep is None else None)
        status = start(
            str(ALERTS),
            set_=[*values, f"rate={rate!r}"],
            for_s=for_s,
            state_dir=state,
            workers=workers,
            log_format=log_format,
            log_level=log_level,
            debug=debug,
            try_next=try_next,
        )
    raise typer.Exit(status)


def _wrong(rate: float, lines: int, workers: int, for_s: float | None) -> str:
    """Return a sentence about the invalid number; empty if all are valid."""
    if not 0 <= rate < inf:
        return f"{given_as('--rate')} takes a number of lines a second, or 0 for as fast as it can, not {rate:g}"
    if not LINES_MIN <= lines <= LINES_MAX:
        return f"{given_as('--lines')} takes a whole number from {LINES_MIN:,} to {LINES_MAX:,}, not {lines}"
    if not 1 <= workers <= WORKERS_MAX:
        return f"{given_as('--workers')} takes a whole number from 1 to {WORKERS_MAX}, not {workers}"
    if for_s is not None and not 0 < for_s < inf:
        return f"{given_as('--for')} takes a number of seconds above 0, not {for_s:g}"
    return ""


def _told(folder: Path, lines: int, rate: float, workers: int, *, kept: bool) -> Iterator[str]:
    """Yield what the demo will do, how to stop it, and what it leaves."""
    processes = f"{workers} worker process{'es' * (workers != 1)}"
    yield f"kedge demo: finds brute-force attacks in an sshd log of {lines:,} lines that it makes, on {processes}"
    takes = f"takes about {lines / rate:,.0f} s" if lines < YEAR_S * rate else "takes more than a year"
    yield f"  {takes if rate else 'reads as fast as it can'}; Ctrl-C ends it sooner"
    left = "keeps it" if kept else "removes it at the end (--keep DIR keeps it)"
    yield f"  writes to {printable(str(folder))}, and {left}"


@contextmanager
def _folder(keep: str | None) -> Iterator[Path]:
    """The demo's folder: a new temporary one that is removed afterwards, or the folder to keep.

    The folder to keep is removed only if it is empty.
    """
    made: list[Path] = []
    try:
        with held():
            made += _made(keep)
        yield made[-1] if keep is None else Path(keep).absolute()
    except BaseException:
        _take_away(made)
        raise
    finally:
        if keep is None and made:
            with held():
                rmtree(made[-1], ignore_errors=True)


def _made(keep: str | None) -> list[Path]:
    """Make the folder; return the folders that were not there before, outermost first."""
    if keep is None:
        try:
            return [Path(tempfile.mkdtemp(prefix="kedge-demo-"))]
        except OSError as error:
            raise ConfigurationError(
                f"no temporary folder can be made: {error.strerror}", code=PROJECT_DIR_NOT_WRITABLE
            ) from None
    made: list[Path] = []
    try:
        folder = Path(keep).absolute()
        for missing in (parent for parent in (*reversed(folder.parents), folder) if not parent.exists()):
            missing.mkdir(exist_ok=True)
            made.append(missing)
    except OSError as error:
        _take_away(made)
        raise ConfigurationError(f"{keep} can't be made: {error.strerror}", code=PROJECT_DIR_NOT_WRITABLE) from None
    return made


def _take_away(made: list[Path]) -> None:
    """Remove the folders that are empty, innermost first."""
    for path in reversed(made):
        with suppress(OSError):
            path.rmdir()


def _make(log: Path, lines: int) -> None:
    """Write the log, or nothing.

    Raises ConfigurationError, also if the log exists by now, because another demo has made it.
    """
    maker: Any = import_module(f"{__package__}.auth_log")
    made = maker.auth_log(count=lines)
    try:
        log.open("x").close()
    except FileExistsError:
        raise ConfigurationError(f"{log.parent} is not empty: it has {log.name}", code=PROJECT_DIR_NOT_EMPTY) from None
    except OSError as error:
        raise ConfigurationError(f"{log} can't be written: {error.strerror}", code=PROJECT_DIR_NOT_WRITABLE) from None
    try:
        maker.write(made, log)
    except BaseException as error:
        with suppress(OSError):
            log.unlink()
        if isinstance(error, OSError):
            raise ConfigurationError(
                f"{log} can't be written: {error.strerror}", code=PROJECT_DIR_NOT_WRITABLE
            ) from None
        raise

"""`kedge demo`: the SSH alerts over a log that is made for it, for who has nothing but the wheel.

The wheel has this folder as the package `kedge_examples`, so this file finds what is beside it by its place, never by a
name. What the topology does is told in `ssh_alerts.py`, and what the run does by the command line.
"""

import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from topology.cli import terminal
from topology.cli.command import given_as
from topology.cli.commands.new import refuse_what_is_there, typed
from topology.cli.commands.run import WORKERS_MAX, start
from topology.cli.options import DebugOption
from topology.cli.undoing import interruptible
from topology.codes.loading import K143, K144
from topology.errors import ConfigurationError
from topology.text import printable

ALERTS: Final = Path(__file__).with_name("ssh_alerts.py")
LINES_MIN: Final = 1_000  # fewer have no room for an attack
LINES_MAX: Final = 1_000_000  # they are made in memory, and take about 100 bytes each
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
        float | None, typer.Option("--for", metavar="SECONDS", help="Drain and end after this long.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="DIR", help="Make the log and the store in DIR, and keep them.")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Watch a run that finds attacks in an sshd log.

    It makes the log itself, runs on two worker processes, says how to kill one, and removes what it wrote at the end.
    """
    if wrong := _wrong(rate, lines, workers, for_s):
        raise ConfigurationError(wrong, code=K144)
    if keep is not None:
        refuse_what_is_there(keep)
    os.environ.setdefault("KEDGE_HINT", "1")  # how to kill a worker is told without a terminal, too
    with interruptible(), _folder(keep) as folder:
        terminal.say("\n".join(_told(folder, lines, rate, workers, kept=keep is not None)))
        log, store, state = folder / "auth.log", folder / "alerts.db", folder / "state"
        _make(log, lines)
        values = [f"path={log}", f"store={store}"]
        same = [*(word for value in values for word in ("--set", value)), "--state-dir", str(state)]
        if keep is None:
            try_next = f"{typed('kedge')} new my-alerts   # a topology of your own, with its tests"
        else:
            command = f"{typed('kedge')} run {shlex.join([str(ALERTS), *same])}"
            try_next = f"{printable(command)}   # the same log again: nothing is stored twice"
        status = start(
            str(ALERTS),
            set_=[*values, f"rate={rate!r}"],
            for_s=for_s,
            state_dir=state,
            workers=workers,
            debug=debug,
            try_next=try_next,
        )
    raise typer.Exit(status)


def _wrong(rate: float, lines: int, workers: int, for_s: float | None) -> str:
    """The number that can't be, in a sentence; empty where there is none."""
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
    """What will happen, how to stop it, and what it leaves."""
    processes = f"{workers} worker process{'es' * (workers != 1)}"
    yield f"kedge demo: finds brute-force attacks in an sshd log of {lines:,} lines that it makes, on {processes}"
    yield f"  {f'takes about {lines / rate:,.0f} s' if rate else 'reads as fast as it can'}; Ctrl-C ends it sooner"
    left = "keeps it" if kept else "removes it at the end (--keep DIR keeps it)"
    yield f"  writes to {printable(str(folder))}, and {left}"


@contextmanager
def _folder(keep: str | None) -> Iterator[Path]:
    """Where the demo writes: a new temporary folder, which is gone afterwards, or the one to keep."""
    if keep is None:
        try:
            made = tempfile.TemporaryDirectory(prefix="kedge-demo-", ignore_cleanup_errors=True)
        except OSError as error:
            raise ConfigurationError(f"no temporary folder can be made: {error.strerror}", code=K143) from None
        with made as name:
            yield Path(name)
    else:
        try:
            os.makedirs(keep, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"{keep} can't be made: {error.strerror}", code=K143) from None
        yield Path(keep).absolute()


def _make(log: Path, lines: int) -> None:
    maker: Any = import_module(f"{__package__}.auth_log")
    try:
        maker.write(maker.auth_log(count=lines), log)
    except OSError as error:
        raise ConfigurationError(f"{log} can't be written: {error.strerror}", code=K143) from None

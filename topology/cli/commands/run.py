"""`kedge run`: a topology until its sources end, or until it is told to stop. Other commands run one by `start`."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import typer

from topology.cli import terminal
from topology.cli.command import given_as
from topology.cli.options import (
    ConfigOption,
    DebugOption,
    DuplicatesOption,
    EngineOption,
    ForOption,
    FreshOption,
    JsonOption,
    LinksOption,
    LogFormat,
    LogFormatOption,
    LogLevel,
    LogLevelOption,
    LossOption,
    RunIdOption,
    SetOption,
    StateDirOption,
    TargetArgument,
    WorkersOption,
    declared,
)
from topology.codes.loading import K102, K103, K104, K105, K174
from topology.errors import ConfigurationError
from topology.text import printable
from topology.version import version

WORKERS_MAX: Final = 64  # each has a link to each other one, which says something twice a second
RUN_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
LINKS: Final = "ipc"
NOTHING: Final[Mapping[str, str | list[str] | None]] = MappingProxyType({})
EXAMPLES: Final = (
    ("kedge run alerts.py", "the topology in this file, until its sources end"),
    ("kedge run alerts.py --workers 2 --set path=/var/log/auth.log", "on two processes, with a value of yours"),
    ("kedge run alerts.py --engine spark --trigger 1s", "its bolts on Spark, in a micro-batch a second"),
    ("KEDGE_LOG_FORMAT=json kedge run shop.alerts:nightly --for 3600", "for an hour, as a service would"),
)


def run(
    target: TargetArgument,
    set_: SetOption = None,
    config: ConfigOption = None,
    workers: WorkersOption = None,
    for_s: ForOption = None,
    state_dir: StateDirOption = None,
    fresh: FreshOption = False,
    run_id: RunIdOption = None,
    accept_duplicates: DuplicatesOption = False,
    accept_loss: LossOption = False,
    links: LinksOption = None,
    engine: EngineOption = None,
    as_json: JsonOption = False,
    log_format: LogFormatOption = LogFormat.AUTO,
    log_level: LogLevelOption = LogLevel.INFO,
    debug: DebugOption = False,
    **beside: str | list[str] | None,
) -> None:
    """Run a topology until its sources end, or until Ctrl-C.

    Ctrl-C, or SIGTERM, drains it: nothing new is read, and what is under way is done. A second one ends it now.
    """
    status = start(
        target,
        set_=set_,
        config=config,
        for_s=for_s,
        state_dir=state_dir,
        fresh=fresh,
        run_id=run_id,
        accept_duplicates=accept_duplicates,
        accept_loss=accept_loss,
        workers=workers,
        links=links,
        engine=engine,
        as_json=as_json,
        log_format=log_format,
        log_level=log_level,
        debug=debug,
        beside=beside,
    )
    raise typer.Exit(status)


def start(
    target: str,
    *,
    set_: list[str] | None = None,
    config: list[str] | None = None,
    for_s: float | None = None,
    state_dir: Path | None = None,
    fresh: bool = False,
    run_id: str | None = None,
    accept_duplicates: bool = False,
    accept_loss: bool = False,
    workers: int | None = None,
    links: str | None = None,
    engine: str | None = None,
    as_json: bool = False,
    log_format: LogFormat = LogFormat.AUTO,
    log_level: LogLevel = LogLevel.INFO,
    debug: bool = False,
    beside: Mapping[str, str | list[str] | None] = NOTHING,
    try_next: str = "",
) -> int:
    """Runs the topology that `target` names, to its end; each argument means what the option of its name does, `beside`
    has those of options for companions, and `try_next` is what the summary ends with in place of the same command.
    Blocks; returns the exit status. Raises a KedgeError for whatever keeps it from starting."""
    terminal.say(f"kedge {version()}: {printable(target)}")
    if for_s is not None and not 0 < for_s < float("inf"):
        raise ConfigurationError(f"{given_as('--for')} takes a number of seconds above 0, not {for_s:g}", code=K102)
    if state_dir == Path():
        raise ConfigurationError(
            f"{given_as('--state-dir')} takes a directory of its own, not the current one", code=K103
        )
    check_processes(workers, links)
    if run_id is not None and not RUN_ID.fullmatch(run_id):
        text = f"{given_as('--run-id')} takes 1 to 64 of A-Z a-z 0-9 _ and -, not {run_id!r:.80}"
        raise ConfigurationError(text, code=K174)
    from topology.cli import logs

    level = LogLevel.DEBUG if debug else log_level
    show_the_rest = logs.configure(log_format, level, numbered=workers is not None)
    topology, recipe = declared(target, set_ or [], config or [])
    if engine is not None:
        from topology.cli.engines import put_on

        topology, recipe = put_on(topology, engine, recipe)
        state_dir = state_dir or Path(".kedge") / f"{topology.name}-{engine}"  # what is kept there is another
    if beside:
        from topology.cli.beside import configure

        configure(topology, beside)
    show_the_rest()
    from topology.cli import running
    from topology.runtime.beginning import Terms

    processes = running.Processes(workers, links or LINKS, recipe) if workers is not None else None
    terms = Terms(fresh, run_id or "", accept_duplicates, accept_loss)
    options = running.Options(state_dir, terms, for_s, as_json, logs.level_of(level), processes, try_next)
    with terminal.unhurried():
        return running.run(topology, options)


def check_processes(workers: int | None, links: str | None) -> None:
    """Raises ConfigurationError for a number of workers, or links, that can't be."""
    if workers is not None and not 1 <= workers <= WORKERS_MAX:
        raise ConfigurationError(
            f"{given_as('--workers')} takes a whole number from 1 to {WORKERS_MAX:,}, not {workers}", code=K104
        )
    if links is None or (links == LINKS and workers is not None):
        return
    if workers is None:
        raise ConfigurationError(
            f"{given_as('--links')} is for runs on several processes", code=K105, next="give --workers N, too"
        )
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(links)
        good = parts.scheme == "tcp" and parts.hostname and links == f"tcp://{parts.netloc}" and parts.port != 0
    except ValueError:  # a port that is none
        good = False
    if not good:
        raise ConfigurationError(
            f"{given_as('--links')} takes ipc, tcp://HOST or tcp://HOST:PORT, not {links!r}", code=K105
        )

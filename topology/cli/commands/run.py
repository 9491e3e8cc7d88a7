"""`kedge run`: run a topology until its sources end, or until the user stops it. Other commands use `start` for it."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import typer

from topology.cli.command import given_as
from topology.cli.log_levels import LogFormat, LogLevel
from topology.cli.options import (
    CheckTypesOption,
    ConfigOption,
    DebugOption,
    DuplicatesOption,
    EngineOption,
    ForOption,
    FreshOption,
    FromOption,
    JsonOption,
    LinksOption,
    LogFormatOption,
    LogLevelOption,
    LossOption,
    NoStateOption,
    RunIdOption,
    SetOption,
    StateDirOption,
    TargetArgument,
    WorkersOption,
    declared,
)
from topology.cli.output import terminal
from topology.cli.worker_options import LINKS, check_processes
from topology.codes.command_line import (
    INVALID_RUN_ID,
    INVALID_RUN_TIME,
    INVALID_STATE_DIR,
    OPTION_NEEDS_STATE_DIR,
)
from topology.codes.savepoints import CONFLICTING_FROM_OPTIONS, SAVEPOINT_NOT_FOUND
from topology.errors import ConfigurationError
from topology.text import printable
from topology.version import version

RUN_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
NOTHING: Final[Mapping[str, str | list[str] | None]] = MappingProxyType({})
EXAMPLES: Final = (
    ("kedge run alerts.py", "the topology in this file, until its sources end"),
    ("kedge run alerts.py --workers 2 --set path=/var/log/auth.log", "on two processes, with a parameter set"),
    ("kedge run alerts.py --engine spark --trigger 1s", "its bolts on Spark, one micro-batch per second"),
    ("kedge run alerts.py --from friday", "from the checkpoint that was kept under this name"),
    (
        "KEDGE_LOG_FORMAT=json kedge run shop.alerts:nightly --for 1h",
        "for an hour, with a JSON log, as a service would",
    ),
)


def run(
    target: TargetArgument,
    set_: SetOption = None,
    config: ConfigOption = None,
    workers: WorkersOption = None,
    for_s: ForOption = None,
    state_dir: StateDirOption = None,
    no_state: NoStateOption = False,
    fresh: FreshOption = False,
    run_id: RunIdOption = None,
    from_: FromOption = None,
    accept_duplicates: DuplicatesOption = False,
    accept_loss: LossOption = False,
    links: LinksOption = None,
    engine: EngineOption = None,
    check_types: CheckTypesOption = False,
    as_json: JsonOption = False,
    log_format: LogFormatOption = LogFormat.AUTO,
    log_level: LogLevelOption = LogLevel.INFO,
    debug: DebugOption = False,
    **beside: str | list[str] | None,
) -> None:
    """Run a topology until its sources end, or until Ctrl-C.

    Ctrl-C, or SIGTERM, drains the run: it reads nothing new, and finishes the messages in flight. A second Ctrl-C or
    SIGTERM ends the run now.
    """
    if no_state:
        _refuse_first(
            ("--state-dir", state_dir is not None),
            ("--fresh", fresh),
            ("--run-id", run_id is not None),
            ("--from", from_ is not None),
            ("--accept-duplicates", accept_duplicates),
            ("--accept-loss", accept_loss),
            ("--engine", engine is not None),
        )
    status = start(
        target,
        set_=set_,
        config=config,
        for_s=for_s,
        state_dir=state_dir,
        no_state=no_state,
        fresh=fresh,
        run_id=run_id,
        from_=from_,
        accept_duplicates=accept_duplicates,
        accept_loss=accept_loss,
        workers=workers,
        links=links,
        engine=engine,
        check_types=check_types,
        as_json=as_json,
        log_format=log_format,
        log_level=log_level,
        debug=debug,
        beside=beside,
    )
    raise typer.Exit(status)


def _refuse_first(*options: tuple[str, bool]) -> None:
    """Refuse the first of these options that is given: it needs a state directory. Raises ConfigurationError."""
    for option, given in options:
        if given:
            raise needs_state(given_as(option))


def start(
    target: str,
    *,
    set_: list[str] | None = None,
    config: list[str] | None = None,
    for_s: float | None = None,
    state_dir: Path | None = None,
    no_state: bool = False,
    fresh: bool = False,
    run_id: str | None = None,
    from_: str | None = None,
    accept_duplicates: bool = False,
    accept_loss: bool = False,
    workers: int | None = None,
    links: str | None = None,
    engine: str | None = None,
    check_types: bool = False,
    as_json: bool = False,
    log_format: LogFormat = LogFormat.AUTO,
    log_level: LogLevel = LogLevel.INFO,
    debug: bool = False,
    beside: Mapping[str, str | list[str] | None] = NOTHING,
    try_next: str = "",
) -> int:
    """Run the topology that `target` names, to its end. Each argument has the meaning of the option of its name.

    `beside` has the values of options for companions. The summary ends with `try_next`, or with the same command if it
    is empty. Blocks; returns the exit status. Raises a KedgeError if the run can't start.
    """
    terminal.say(f"kedge {version()}: {printable(target)}")
    check_given(for_s, state_dir, run_id)
    check_processes(workers, links)
    from topology.cli.output import log

    level = LogLevel.DEBUG if debug else log_level
    show_the_rest = log.configure(log_format, level, numbered=workers is not None)
    topology, recipe = declared(target, set_ or [], config or [], check_types=check_types)
    kept = None if no_state else state_dir or Path(".kedge") / topology.name
    source = None
    if from_ is not None and kept is not None:
        source = _source(from_, kept, fresh=fresh, run_id=run_id, engine=engine)
    if engine is not None:
        from topology.cli.engines import put_on

        topology, recipe = put_on(topology, engine, recipe)
        kept = state_dir or Path(".kedge") / f"{topology.name}-{engine}"  # the engine keeps other data there
    if beside:
        from topology.cli.companion_options import configure

        configure(topology, beside)
    show_the_rest()
    from topology.cli import run_session
    from topology.runtime.run.startup import Terms

    processes = run_session.WorkerProcesses(workers, links or LINKS, recipe) if workers is not None else None
    if no_state and topology.companions:
        raise needs_state(f"{topology.companions[0].name!r:.80}, which {topology.name!r:.80} hands streams over to,")
    terms = Terms(fresh, run_id or "", accept_duplicates, accept_loss, source)
    options = run_session.Options(kept, terms, for_s, as_json, log.level_of(level), processes, try_next)
    with terminal.unhurried():
        return run_session.run(topology, options)


def _source(from_: str, state_dir: Path, *, fresh: bool, run_id: str | None, engine: str | None) -> Path:
    """Return the folder of the checkpoint that --from names. Raises ConfigurationError."""
    from topology.storage.directory.savepoints import checked_name, folder_of

    if engine is not None:
        other = given_as("--engine")
        text = f"{given_as('--from')} begins from what a checkpoint has, and {other} keeps the bolts' state elsewhere"
        raise ConfigurationError(text, code=CONFLICTING_FROM_OPTIONS)
    other = "--fresh" if fresh else "--run-id" if run_id is not None else ""
    if other:
        text = f"{given_as('--from')} begins from what a checkpoint has, and {given_as(other)} forgets it"
        raise ConfigurationError(text, code=CONFLICTING_FROM_OPTIONS)
    if "/" in from_:
        return Path(from_)
    folder = folder_of(state_dir, checked_name(from_, own=True))
    if not folder.exists() and (Path(from_) / "state.json").exists():
        shown = printable(from_)
        text = f"{printable(str(state_dir))} has no checkpoint {shown}, and there is a folder {shown} here"
        raise ConfigurationError(text, code=SAVEPOINT_NOT_FOUND, next=f"name the folder by its path: --from ./{shown}")
    return folder


def needs_state(what: str) -> ConfigurationError:
    """Return the error for an option or a companion that needs a state directory."""
    return ConfigurationError(
        f"{what} needs a state directory, and {given_as('--no-state')} makes the run keep none",
        code=OPTION_NEEDS_STATE_DIR,
    )


def check_given(for_s: float | None, state_dir: Path | None, run_id: str | None) -> None:
    """Raise ConfigurationError for an invalid time, directory or run id."""
    if for_s is not None and not 0 < for_s < float("inf"):
        raise ConfigurationError(
            f"{given_as('--for')} takes a number of seconds above 0, not {for_s:g}", code=INVALID_RUN_TIME
        )
    if state_dir == Path():
        raise ConfigurationError(
            f"{given_as('--state-dir')} takes a directory of its own, not the current one", code=INVALID_STATE_DIR
        )
    if run_id is not None and not RUN_ID.fullmatch(run_id):
        text = f"{given_as('--run-id')} takes 1 to 64 of A-Z a-z 0-9 _ and -, not {run_id!r:.80}"
        raise ConfigurationError(text, code=INVALID_RUN_ID)

"""`kedge dead`: list, show, replay and drop dead letters, the messages that could not be processed.

If a run uses the state directory, the command asks the run, because only the run may open its files. Otherwise the
command opens the files.
"""

import shutil
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from topology.cli.command import given_as
from topology.cli.options import DebugOption
from topology.cli.output import terminal
from topology.cli.state_dir_argument import TopologyOption, WhereOption, place
from topology.codes.command_line import INVALID_LETTER_LIMIT, INVALID_LETTER_SELECTION
from topology.errors import ConfigurationError
from topology.text import escaped, printable

if TYPE_CHECKING:
    from topology.cli.dead_letters import Asked
    from topology.storage.values import Letter

EXAMPLES: Final = (
    ("kedge dead list", "all letters of the only topology in this folder, the newest last"),
    ("kedge dead list --json | jq -r 'select(.spout == \"lines\") | .name'", "their names, for further commands"),
    ("kedge dead show 0-17", "record, traceback, attempts"),
    ("kedge dead replay 0-17 0-18", "these two, after you have fixed the cause"),
    ("kedge dead replay --all --topology ssh-alerts", "all letters of one topology"),
    ("kedge dead drop 0-17", "asks first if it runs on a terminal"),
)
LIMIT: Final = 100  # letters listed without --limit
PAGE: Final = 200  # letters per list request: their texts fit into one answer
NAMES_MAX: Final = 500  # names per request
SHOWN_AT_ONCE: Final = 1  # complete letters per answer: a record may be large
SHOWN_CHARACTERS: Final = 8_000_000  # characters held in memory until they are written
MISSING_MAX: Final = 20  # unknown names that are printed; the others are counted
TOLD_MAX: Final = 10  # names of replayed or dropped letters that are printed
LISTED_MAX: Final = 1_000_000  # letters that the command accepts from a run; more are an invalid answer
NONE: Final = "there are no dead letters"

NamesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="NAME...", help="Names that kedge dead list prints: 0-17.")
]
SomeNamesArgument = Annotated[
    list[str], typer.Argument(metavar="NAME...", help="Names that kedge dead list prints: 0-17.")
]
AllOption = Annotated[bool, typer.Option("--all", help="All dead letters.")]
LimitOption = Annotated[int | None, typer.Option("--limit", metavar="N", help=f"List the newest N. Default: {LIMIT}.")]
AsJsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]


def dead() -> None:
    """List, show, replay or drop dead letters.

    Kedge keeps a message whose replays are spent, or that a bolt rejects, with its record and the traceback.
    """


def list_(
    topology: TopologyOption = None,
    state_dir: WhereOption = None,
    limit: LimitOption = None,
    as_json: AsJsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List dead letters, the newest last."""
    from topology.cli.dead_letters import as_json as json_of
    from topology.cli.dead_letters import table

    if limit is not None and limit < 1:
        raise ConfigurationError(
            f"{given_as('--limit')} takes a whole number of at least 1, not {limit}", code=INVALID_LETTER_LIMIT
        )
    with _asking(topology, state_dir) as ask:
        newest: deque[Letter] = deque(maxlen=limit or LIMIT)
        total = 0
        for letter in _listed(ask):
            newest.append(letter)
            total += 1
    if as_json:
        for letter in newest:
            terminal.put(json_of(letter, whole=False))
    elif newest:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        terminal.put("\n".join(table(newest, width)))
    if total > len(newest):
        terminal.say(f"the newest {len(newest):,} of {total:,}; --limit {total} lists all")
    elif not total:
        terminal.say(NONE)


def show(
    names: SomeNamesArgument,
    topology: TopologyOption = None,
    state_dir: WhereOption = None,
    as_json: AsJsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show all details of dead letters.

    Shows the component that failed, the reason, the record and the traceback.
    """
    from topology.cli.dead_letters import as_json as json_of
    from topology.cli.dead_letters import details
    from topology.storage.encoding.packing import letter_of

    found: list[str] = []
    chunks = deque(_chunks(names, SHOWN_AT_ONCE))
    while chunks:
        texts: list[str] = []
        with _asking(topology, state_dir) as ask:
            while chunks and sum(map(len, texts)) < SHOWN_CHARACTERS:
                for letter in map(letter_of, ask("show", chunks.popleft()).letters):
                    lines = [json_of(letter, whole=True)] if as_json else [*([""] if found else []), *details(letter)]
                    texts.append("\n".join(lines))
                    found.append(letter.name)
        for text in texts:  # a slow reader may take its time: the directory is released by now
            terminal.put(text)
    raise typer.Exit(_missing(_without(names, found)))


def replay(
    names: NamesArgument = None,
    all_: AllOption = False,
    topology: TopologyOption = None,
    state_dir: WhereOption = None,
    debug: DebugOption = False,
) -> None:
    """Replay dead letters.

    Kedge processes each letter once more, under its old identity. A letter that is processed is removed. A letter that
    fails again is kept.
    """
    _check_names(names, all_, "replay")
    with _asking(topology, state_dir) as ask:
        done, problems, unknown = _done(ask, "replay", names)
    how = "are being replayed" if ask.running else "are replayed by the next run"
    _tell(done, how, how.replace("are ", "is ", 1), none=not names and not problems)
    raise typer.Exit(max(problems, _missing(unknown)))


def drop(
    names: NamesArgument = None,
    all_: AllOption = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    topology: TopologyOption = None,
    state_dir: WhereOption = None,
    debug: DebugOption = False,
) -> None:
    """Drop dead letters for good."""
    _check_names(names, all_, "drop")
    meant = names or None  # None: all
    if not yes and _answering():
        meant = names or _all(topology, state_dir)  # the present letters, and none that arrives before the answer
        count = len({*meant})
        if count == 0:
            terminal.say(NONE)
            return
        if not typer.confirm(f"drop {count:,} dead letter{'s' * (count != 1)} for good?", err=True):
            terminal.say("dropped nothing")
            raise typer.Exit(1)
    with _asking(topology, state_dir) as ask:
        done, problems, unknown = _done(ask, "drop", meant)
    _tell(done, "are dropped", "is dropped", none=not names and not problems)
    raise typer.Exit(max(problems, _missing(unknown if names else ())))


ACTS: Final = {"list": list_, "show": show, "replay": replay, "drop": drop}


def _asking(topology: str | None, state_dir: Path | None) -> "Asked":
    from topology.cli.dead_letters import Asked

    return Asked(place(topology, state_dir, by="--topology"))


def _listed(ask: "Asked") -> "Iterator[Letter]":
    """Yield all letters, oldest first, without their records."""
    from topology.cli import run_client
    from topology.storage.encoding.packing import letter_of

    after, count = "", 0
    while count <= LISTED_MAX:
        letters = [letter_of(packed) for packed in ask("list", after=after, limit=PAGE).letters]
        yield from letters
        count += len(letters)
        if not letters or letters[-1].name == after:
            return
        after = letters[-1].name
    raise run_client.no_run(f"it lists more than {LISTED_MAX:,} dead letters")


def _all(topology: str | None, state_dir: Path | None) -> list[str]:
    """Return the names of all letters. Releases the directory, so that a run may start while the user is asked."""
    with _asking(topology, state_dir) as ask:
        return [letter.name for letter in _listed(ask)]


def _done(ask: "Asked", act: str, names: Sequence[str] | None) -> tuple[list[str], int, list[str]]:
    """Replay or drop these letters, or all. Return the names of the letters that it was done to, 1 if there was a
    problem (else 0), and the unknown names."""
    done: list[str] = []
    status = 0
    for chunk in _chunks(names, NAMES_MAX) if names else [()]:
        answer = ask(act, chunk)
        done += answer.names
        for line in answer.problem.splitlines():
            terminal.say(f"kedge: {printable(line)}", level="error")
            status = 1
    unknown = _without(names or (), done)
    if status and unknown:  # a letter that was not handled may still exist
        unknown = _without(unknown, [letter.name for letter in _listed(ask)])
    return done, status, unknown


def _chunks(names: Sequence[str], size: int) -> "Iterator[tuple[str, ...]]":
    names = [*dict.fromkeys(names)]
    yield from (tuple(names[at : at + size]) for at in range(0, len(names), size))


def _check_names(names: Sequence[str] | None, all_: bool, act: str) -> None:
    if bool(names) == all_:
        text = "takes names or --all, and not both" if names else "needs names of dead letters, or --all"
        raise ConfigurationError(f"kedge dead {act} {text}", code=INVALID_LETTER_SELECTION)


def _without(names: Sequence[str], found: Sequence[str]) -> list[str]:
    known = {*found}
    return [name for name in dict.fromkeys(names) if name not in known]


def _missing(names: Sequence[str]) -> int:
    """Print the unknown names. Return the exit status."""
    for name in names[:MISSING_MAX]:
        terminal.say(f"kedge: there is no dead letter {escaped(name)!r:.80}", level="error")
    if len(names) > MISSING_MAX:
        terminal.say(f"kedge: {len(names) - MISSING_MAX:,} more do not exist", level="error")
    return 1 if names else 0


def _tell(done: Sequence[str], several: str, one: str, *, none: bool) -> None:
    """Print what was done to which letters. `none`: True if there were no letters."""
    if done:
        listed = ", ".join(done[:TOLD_MAX]) + (", …" if len(done) > TOLD_MAX else "")
        what = f"1 dead letter {one}" if len(done) == 1 else f"{len(done):,} dead letters {several}"
        terminal.put(f"{what}: {listed}")
    elif none:
        terminal.say(NONE)


def _answering() -> bool:
    """Return True if stdin and stderr are a terminal, so that the user can answer a question."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()

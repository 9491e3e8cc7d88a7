"""Access to dead letters for a command: through the run that uses the state directory or, without a run, its files.

Also formats letters as a table, in detail and as JSON. Blocks.
"""

import base64
import json
import math
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from topology.cli.output import terminal
from topology.cli.run_client import no_run, reached
from topology.cli.state_dirs import called
from topology.codes.command_line import DEAD_LETTER_COMMAND_FAILED, RUN_ENDED_MEANWHILE
from topology.errors import WorkerError
from topology.runtime.run.command_socket import Trouble
from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.storage.values import Letter
from topology.text import escaped, printable

if TYPE_CHECKING:
    from topology.storage.directory.state_dir import StateDir

COLUMNS: Final = ("name", "died", "spout", "failed in", "reason", "attempts", "record")
CELL_MAX: Final = 28  # characters of each column but the last, on a wide terminal
NARROW_MAX: Final = 14  # characters of each column but the last, on a narrow terminal
WIDE: Final = 100  # columns of a wide terminal; a narrower one shows no years and attempts
UNREADABLE: Final = "(can't be decoded)"


def table(letters: Iterable[Letter], width: int | None) -> Iterator[str]:
    """Yield a line of titles and one line per letter, cut to `width` columns; None: not cut."""
    narrow = width is not None and width < WIDE
    rows = [COLUMNS, *(_row(letter, narrow=narrow) for letter in letters)]
    shown = [at for at, title in enumerate(COLUMNS[:-1]) if not (narrow and title == "attempts")]
    sizes = {at: max(len(row[at]) for row in rows) for at in shown}
    for row in rows:
        right = COLUMNS.index("attempts")
        cells = (row[at].rjust(size) if at == right else row[at].ljust(size) for at, size in sizes.items())
        line = f"{'  '.join(cells)}  {row[-1]}".rstrip()
        yield line if width is None else cut(line, width)


def _row(letter: Letter, *, narrow: bool) -> tuple[str, ...]:
    most = NARROW_MAX if narrow else CELL_MAX
    return (
        letter.name,
        _when(letter.died_at)[len("2026-") if narrow else 0 :],
        cut(escaped(letter.component), most),
        cut(escaped(letter.failed_in), most),
        cut(reason(letter), most),
        f"{letter.attempts:,}",
        escaped(letter.text),
    )


def reason(letter: Letter) -> str:
    """Return the reason of the death, or "replaying" if a replay was requested, in a word or two."""
    return "replaying" if letter.replaying else escaped(letter.reason)


def details(letter: Letter) -> Iterator[str]:
    """Yield all details of one letter."""
    yield f"{letter.name}: {escaped(letter.text)}"
    facts = {
        "died": f"{_when(letter.died_at)}, {escaped(letter.reason)} in {escaped(letter.failed_in)}",
        "problem": _lined(letter.problem),
        "attempts": f"{letter.attempts:,}" + (f", with {letter.deaths:,} deaths of workers" if letter.deaths else ""),
        "spout": f"{escaped(letter.component)}, task {letter.task}",
        "position": _position(letter),
        "event time": _when(letter.at) if letter.at is not None else "",
        "identity": f"{letter.origin:016x}-{letter.identity:016x}",
        "code": f"{letter.code}: kedge explain {letter.code}" if letter.code else "",
        "replay": "asked for, and not done yet" if letter.replaying else "",
        "subscribers": f"could not process it: {_lined(letter.unheard)}" if letter.unheard else "",
        "record": f"{escaped(letter.record_class)} {_json(_decoded(letter.record))}",
    }
    width = max(map(len, facts))
    yield from (f"  {name:<{width}}  {text}" for name, text in facts.items() if text)
    yield from (f"  {escaped(line)}" for line in letter.traceback.rstrip().split("\n") if line)


def as_json(letter: Letter, *, whole: bool) -> str:
    """Return one JSON object in one line. `whole`: with the record and the traceback."""
    fields: dict[str, Any] = {
        "name": letter.name,
        "died_at": _iso(letter.died_at),
        "spout": letter.component,
        "task": letter.task,
        "partition": letter.partition,
        "epoch": letter.epoch,
        "id": _plain(letter.id),
        "event_time": _iso(letter.at) if letter.at is not None else None,
        "origin": f"{letter.origin:016x}",
        "identity": f"{letter.identity:016x}",
        "failed_in": letter.failed_in,
        "reason": letter.reason,
        "code": letter.code or None,
        "problem": letter.problem,
        "attempts": letter.attempts,
        "deaths": letter.deaths,
        "replaying": letter.replaying,
        "stream": letter.record_class,
        "text": letter.text,
    }
    if whole:
        fields |= {
            "unheard": letter.unheard or None,
            "record": _decoded(letter.record),
            "bytes": base64.b64encode(letter.record).decode(),
            "traceback": letter.traceback,
        }
    return _json(fields)


def _json(value: Any) -> str:
    """Return JSON in ASCII, so that no terminal interprets it and every encoding accepts it."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def _decoded(record: bytes) -> Any:
    """Return the fields of a record as JSON values: times as text, bytes in base64."""
    try:
        return _plain(msgspec.msgpack.decode(record))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return UNREADABLE


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return _iso(value)
        case bytes():
            return base64.b64encode(value).decode()
        case list() | tuple():
            return [_plain(item) for item in value]
        case dict():
            return {str(_plain(key)): _plain(item) for key, item in value.items()}
        case float() if not math.isfinite(value):
            return str(value)  # JSON has no such numbers
        case None | bool() | int() | float() | str():
            return value
    return repr(value)


def _position(letter: Letter) -> str:
    parts = [f"id {escaped(repr(letter.id))}"]
    parts += [f"partition {escaped(letter.partition)}"] if letter.partition else []
    parts += [f"epoch {escaped(letter.epoch)}"] if letter.epoch else []
    return ", ".join(parts)


def _when(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _lined(text: str) -> str:
    return escaped(text.strip())


def cut(text: str, width: int) -> str:
    """Return the text, cut to at most `width` characters."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


SILENT: Final = 5  # seconds without an answer, after which a line says so
SILENT_MAX: Final = 120  # seconds without an answer, after which the command stops waiting
PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")  # names of letters


class Asked:
    """The letters of one state directory. Call it with an act and names. Leaving `with` releases the directory.

    `running`: True if a run uses the directory. If that run ends in the meantime, a call raises WorkerError.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._line = reached(directory)
        self.running = self._line is not None
        self._state: StateDir | None = None
        self._number = 0

    def __enter__(self) -> "Asked":
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.__exit__()
        if self._state is not None:
            self._state.close()

    def __call__(self, act: str, names: tuple[str, ...] = (), after: str = "", limit: int = 1_000) -> DeadAnswer:
        """Return the answer. Raise WorkerError if the run gives none, StartError if the files can't be used."""
        self._number += 1
        ask = DeadAsk(self._number, act, names, after, limit)
        return self._of_run(ask) if self.running else self._of_files(ask)

    def _of_run(self, ask: DeadAsk) -> DeadAnswer:
        line = self._line or reached(self._directory)  # one connection per request
        self._line = None
        if line is None:
            raise WorkerError("the run has ended meanwhile", code=RUN_ENDED_MEANWHILE)
        with line:
            line.ask(ask)
            answer = line.heard(self._silent, SILENT_MAX)
        if isinstance(answer, Trouble):
            raise WorkerError(printable(answer.text), code=DEAD_LETTER_COMMAND_FAILED)
        if not isinstance(answer, DeadAnswer):
            raise no_run("it has answered without a request")
        _check(ask, answer)
        return answer

    def _silent(self, seconds: int) -> None:
        if seconds == SILENT:
            name = printable(called(self._directory))
            terminal.say(f"{name}: the run has not answered yet; its event loop may be blocked")

    def _of_files(self, ask: DeadAsk) -> DeadAnswer:
        from topology.storage.directory.state_dir import StateDir
        from topology.storage.offline.dead_letters import answer

        if self._state is None:
            self._state = StateDir(self._directory, None)
            self._state.check_files()
        return answer(self._state, ask)


def _check(ask: DeadAsk, answer: DeadAnswer) -> None:
    """Raise WorkerError for an answer to another request, and for an answer that no run gives."""
    from topology.storage.encoding.packing import letter_of

    if answer.number != ask.number or len(answer.letters) > ask.limit:
        raise no_run("it has answered another request")
    if ask.names and not {*ask.names}.issuperset(answer.names):
        raise no_run("it has named letters that were not requested")
    try:
        names = [letter_of(letter).name for letter in answer.letters]
    except (ValueError, RecursionError) as error:
        raise no_run("it has sent an invalid dead letter") from error
    if not all(map(PLAIN.fullmatch, (*names, *answer.names))):
        raise no_run("it has sent an invalid name of a letter")
    if ask.act == "list" and names and not ask.after < names[0]:
        raise no_run("it lists the same letters again")

"""What a mode that has failed has said: the line that tells the most, and a copy of its log.

All other files of a comparison go with its folder. The copy is one file in the temporary directory, for this user
alone, which a row names; a later comparison removes it after a week, or once there are many newer ones. Knows files,
and no mode.
"""

import contextlib
import os
import re
import stat
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bridge.files.process_log import last_life
from bridge.spark.errors import JAVA_NOTES, java_said

PREFIX: Final = "kedge-compared-"  # of what is kept; a folder of a comparison's own has another one
SUFFIX: Final = ".log"
KEPT_S: Final = 7 * 86_400.0
KEPT_MAX: Final = 50  # of what is kept; older ones go
LOG_BYTES: Final = 256 * 2**10  # of the end of each log, that are kept
JAVA_GONE: Final = "JAVA_GATEWAY_EXITED"  # what pyspark says where Java has ended, which has said why itself
RAISED: Final = re.compile(  # as Python tells it, or Java, which tells the cause of one behind it
    r"(?P<cause>(?:Caused by)?: )?(?P<what>(?:[A-Za-z_][\w$]*\.)*[A-Za-z_][\w$]*(?:Error|Exception|Exit)(?::.*)?)"
)
SAID_MAX: Final = 400  # characters of what has failed
WHY: Final = re.compile(r"^(?:exit status \d+|kedge): (.+)$", re.MULTILINE)
CODE: Final = re.compile(r"\((K\d+): `kedge explain")
COMPANION: Final = re.compile(r"the companion '([^']+)' ")  # the run says that it has ended, and not why
CALLED: Final = re.compile(r"An error occurred while calling \w+(?:\.\w+)*")  # what py4j says of an error of Java's
CAUSE: Final = re.compile(r"Caused by: [\w.$]+: (.+?)(?:\. .*|\.)?")
FAILED: Final = "failed "  # how a driver begins the sentence why it can't go on


def why_run_ended(mode: str, folder: Path, status: int) -> str:
    """Why a `kedge run` has ended before it should: the last error that it has told, with its code, and what its
    companion has said last where the error is of that one's end; else how it has ended. And where its log is."""
    said = _end_of(folder / "run.err")
    found = [*WHY.finditer(said)]
    if not found:
        raised = telling(folder / "run.err", raised=True)
        return _with_log(f"{_ended(status)}{f': {raised}' if raised else ''}", mode, folder)
    told = found[-1][1].split("\\n")[0]  # as lines of what it quotes are told
    told = told.removeprefix("WorkerError: ").removeprefix("spark: ")  # whose word it is, which the row says
    beside = COMPANION.search(told)
    for log in _companions(folder):
        told = _by_its_cause(told, log)
        if beside is not None and log.stem == beside[1] and (last := telling(log)):
            told += f"; it said: {last}"
    code = CODE.search(said, found[-1].end())
    return _with_log(told, mode, folder, f" ({code[1]})" if code else "")


def why_driver_ended(mode: str, folder: Path, status: int) -> str:
    """Why the driver of a mode without Python has ended: in its own words, where it has any. And where its log is."""
    said = _end_of(folder / "driver.out").splitlines()
    words = [line.removeprefix(FAILED) for line in said if line.startswith(FAILED)]
    log = folder / "driver.err"
    if words and JAVA_GONE not in words[-1]:
        own = _by_its_cause(words[-1].strip(), log)
    else:
        own = telling(log) if status >= 0 else ""  # who was killed has said nothing of it
    return _with_log(f"Spark has ended it: {own}" if own else _ended(status), mode, folder)


def telling(log: Path, *, raised: bool = False) -> str:
    """The line of a log that tells the most of why its process has ended; empty where there is none. What Java has said
    comes before what Python says of Java, and an exception before any other line, which counts only unless it has to be
    `raised`; of these the last, and of one with causes the last of these that says anything."""
    lines = _last_life(log)
    if any(JAVA_GONE in line for line in lines) and (said := java_said(log)):
        return said
    told = ""
    for found in filter(None, map(RAISED.fullmatch, lines)):
        if not told or not found["cause"] or ": " in found["what"]:
            told = found["what"]
    return told or ("" if raised or not lines else lines[-1])


def keep(mode: str, folder: Path, logs: Sequence[Path]) -> Path | None:
    """Copies these logs of a round's folder into one file; None where there are none, or no room for it."""
    if not logs:
        return None
    name = re.sub(r"[^A-Za-z0-9]+", "-", mode)
    path = ""
    try:
        descriptor, path = tempfile.mkstemp(prefix=f"{PREFIX}{name}-", suffix=SUFFIX)
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            for one in logs:
                file.write(f"==> {one.relative_to(folder)} <==\n{_end_of(one).strip()}\n\n")
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path)
        return None
    return Path(path)


def sweep() -> None:
    """Removes what was kept long ago, and all but the newest ones, of this user's. Never raises."""
    found: list[tuple[float, str]] = []
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.name.endswith(SUFFIX):
                with contextlib.suppress(OSError):
                    its = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(its.st_mode) and its.st_uid == os.geteuid():
                        found.append((its.st_mtime, entry.path))
    for newer, (written, path) in enumerate(sorted(found, reverse=True)):
        if newer >= KEPT_MAX or time.time() - written > KEPT_S:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _logs(folder: Path) -> list[Path]:
    """Of a run, of a driver, and of companions: the last one tells the most."""
    _, _, names = next(os.walk(folder), ("", [], []))
    return [folder / name for name in sorted(names) if name.endswith(".err")] + _companions(folder)


def _companions(folder: Path) -> list[Path]:
    """What goes while it is looked for, is passed over: a run that ends removes files of its own."""
    found = ((Path(where), names) for where, _, names in os.walk(folder / "state"))
    return sorted(
        where / name for where, names in found if where.name == "companions" for name in names if name.endswith(".log")
    )


def _with_log(text: str, mode: str, folder: Path, code: str = "") -> str:
    """As much of it as is told, and the code. With the place of what is kept, for that of a log that goes with the
    folder, or behind the sentence."""
    logs = [path for path in _logs(folder) if _last_life(path)]
    kept = keep(mode, folder, logs)
    if kept is None:
        return f"{text[:SAID_MAX]}{code}"
    copied = "|".join(re.escape(str(path)) for path in logs)
    changed = re.sub(rf"(?:{copied})(?![\w/-]|\.\w)", lambda _: str(kept), text)  # and no longer path
    cut = changed.find(str(kept), max(0, SAID_MAX - len(str(kept)) + 1))  # in the middle of it, or behind
    told = changed[: min(cut, SAID_MAX) if cut >= 0 else SAID_MAX].rstrip()
    return f"{told}{code}" if str(kept) in told else f"{f'{told}{code}'.rstrip('.')}; its log: {kept}"


def _last_life(log: Path) -> list[str]:
    """The lines of a log, without those of processes before."""
    lines = [line.strip() for line in last_life(_end_of(log)).splitlines() if line.strip()]
    return [line for line in lines if not line.startswith(JAVA_NOTES)]


def _by_its_cause(text: str, log: Path) -> str:
    """With what Java says of the cause, in place of the name of what Python had called in Java."""
    found = [cause[1] for line in _last_life(log) if (cause := CAUSE.fullmatch(line))] if CALLED.search(text) else []
    return CALLED.sub(lambda _: found[-1], text) if found else text


def _ended(status: int) -> str:
    return f"it ended {f'by signal {-status}' if status < 0 else f'with status {status}'} before it should"


def _end_of(log: Path) -> str:
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_BYTES))
            return file.read(LOG_BYTES).decode("utf-8", "backslashreplace")
    except OSError:
        return ""

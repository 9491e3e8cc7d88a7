"""The output of a failed mode: the most relevant line, and a copy of its log.

All other files of a comparison go with its folder. The copy is one file in the temporary directory, for this user
alone, which a row names. A later comparison removes it after a week, or once there are many newer ones. Knows files,
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

PREFIX: Final = "kedge-compared-"  # prefix of kept logs; the folder of a comparison has another one
SUFFIX: Final = ".log"
KEPT_S: Final = 7 * 86_400.0
KEPT_MAX: Final = 50  # number of kept logs; older ones are removed
LOG_BYTES: Final = 256 * 2**10  # bytes of the end of each log that are kept
JAVA_GONE: Final = "JAVA_GATEWAY_EXITED"  # pyspark's error if Java has ended; Java itself has printed the reason
RAISED: Final = re.compile(  # an exception as Python or Java prints it; Java prints its cause after it
    r"(?P<cause>(?:Caused by)?: )?(?P<what>(?:[A-Za-z_][\w$]*\.)*[A-Za-z_][\w$]*(?:Error|Exception|Exit)(?::.*)?)"
)
SAID_MAX: Final = 400  # characters of the text of a failure
WHY: Final = re.compile(r"^(?:exit status \d+|kedge): (.+)$", re.MULTILINE)
CODE: Final = re.compile(r"\((K\d+): `kedge explain")
COMPANION: Final = re.compile(r"the companion '([^']+)' ")  # the run reports that it has ended, but not why
CALLED: Final = re.compile(r"An error occurred while calling \w+(?:\.\w+)*")  # py4j's words for an error of Java's
CAUSE: Final = re.compile(r"Caused by: [\w.$]+: (.+?)(?:\. .*|\.)?")
FAILED: Final = "failed "  # a driver begins the sentence about its failure with this


def why_run_ended(mode: str, folder: Path, status: int) -> str:
    """Return why a `kedge run` has ended too early, and where its log is.

    The reason is the last error printed, with its code. If that error is the end of its companion, the companion's last
    output is added. Without an error, it is the exit status.
    """
    said = _end_of(folder / "run.err")
    found = [*WHY.finditer(said)]
    if not found:
        raised = telling(folder / "run.err", raised=True)
        return _with_log(f"{_ended(status)}{f': {raised}' if raised else ''}", mode, folder)
    cause = found[-1][1].split("\\n")[0]  # lines of a quoted text are escaped so
    # the source of the message, which the row names already
    cause = cause.removeprefix("WorkerError: ").removeprefix("spark: ")
    beside = COMPANION.search(cause)
    for log in _companions(folder):
        cause = _by_its_cause(cause, log)
        if beside is not None and log.stem == beside[1] and (last := telling(log)):
            cause += f"; it said: {last}"
    code = CODE.search(said, found[-1].end())
    return _with_log(cause, mode, folder, f" ({code[1]})" if code else "")


def why_driver_ended(mode: str, folder: Path, status: int) -> str:
    """Return why the driver of a mode without Python has ended, in its own words if it has any; and where its log
    is."""
    said = _end_of(folder / "driver.out").splitlines()
    words = [line.removeprefix(FAILED) for line in said if line.startswith(FAILED)]
    log = folder / "driver.err"
    if words and JAVA_GONE not in words[-1]:
        own = _by_its_cause(words[-1].strip(), log)
    else:
        own = telling(log) if status >= 0 else ""  # a killed process has printed nothing about it
    return _with_log(f"Spark has ended it: {own}" if own else _ended(status), mode, folder)


def telling(log: Path, *, raised: bool = False) -> str:
    """Return the line of a log that best explains why its process has ended; empty if there is none.

    A line of Java comes before Python's line about Java. An exception comes before any other line, and `raised` allows
    exceptions only. Of several, the last counts; of an exception with causes, the last cause that has a text.
    """
    lines = _last_life(log)
    if any(JAVA_GONE in line for line in lines) and (said := java_said(log)):
        return said
    cause = ""
    for found in filter(None, map(RAISED.fullmatch, lines)):
        if not cause or not found["cause"] or ": " in found["what"]:
            cause = found["what"]
    return cause or ("" if raised or not lines else lines[-1])


def keep(mode: str, folder: Path, logs: Sequence[Path]) -> Path | None:
    """Copy these logs of a round's folder into one file; return None if there are none, or no room for it."""
    if not logs:
        return None
    name = re.sub(r"[^A-Za-z0-9]+", "-", mode)
    path = ""
    try:
        descriptor, path = tempfile.mkstemp(prefix=f"{PREFIX}{name}-", suffix=SUFFIX)
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            for log_file in logs:
                file.write(f"==> {log_file.relative_to(folder)} <==\n{_end_of(log_file).strip()}\n\n")
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path)
        return None
    return Path(path)


def sweep() -> None:
    """Remove this user's kept logs that are old, and all but the newest ones. Never raises."""
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
    """Return the logs of a run, of a driver, and of companions: the last one is the most relevant."""
    _, _, names = next(os.walk(folder), ("", [], []))
    return [folder / name for name in sorted(names) if name.endswith(".err")] + _companions(folder)


def _companions(folder: Path) -> list[Path]:
    """Return the companions' logs. Ignores files that vanish meanwhile: a run that ends removes files of its own."""
    found = ((Path(where), names) for where, _, names in os.walk(folder / "state"))
    return sorted(
        where / name for where, names in found if where.name == "companions" for name in names if name.endswith(".log")
    )


def _with_log(text: str, mode: str, folder: Path, code: str = "") -> str:
    """Return the text, cut, with the code and the path of the kept log.

    The path replaces that of a log which goes with the folder, or stands after the sentence.
    """
    logs = [path for path in _logs(folder) if _last_life(path)]
    kept = keep(mode, folder, logs)
    if kept is None:
        return f"{text[:SAID_MAX]}{code}"
    copied = "|".join(re.escape(str(path)) for path in logs)
    changed = re.sub(rf"(?:{copied})(?![\w/-]|\.\w)", lambda _: str(kept), text)  # and no longer path
    cut = changed.find(str(kept), max(0, SAID_MAX - len(str(kept)) + 1))  # at or after the middle of the path
    text = changed[: min(cut, SAID_MAX) if cut >= 0 else SAID_MAX].rstrip()
    return f"{text}{code}" if str(kept) in text else f"{f'{text}{code}'.rstrip('.')}; its log: {kept}"


def _last_life(log: Path) -> list[str]:
    """Return the lines of a log, without those of earlier processes."""
    lines = [line.strip() for line in last_life(_end_of(log)).splitlines() if line.strip()]
    return [line for line in lines if not line.startswith(JAVA_NOTES)]


def _by_its_cause(text: str, log: Path) -> str:
    """Replace the name of the Java method that Python called by Java's text about the cause."""
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

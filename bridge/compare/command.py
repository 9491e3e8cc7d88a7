"""`kedge compare`: checks the command line before anything is measured, then measures, prints figures and writes
reports.

Modules that take long to import, or need the extra, are imported once the command line is known to be valid.
"""

import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from math import inf, nan
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bridge.compare.job import ComparisonJob
from bridge.compare.options import (
    ForOption,
    JsonOption,
    KillOption,
    ModesOption,
    P99Option,
    PngOption,
    RateOption,
    ReportOption,
    RoundsOption,
    SparkConfOption,
    SparkOption,
    WarmUpOption,
)
from bridge.compare.workload.sample_data import SAMPLES, counted_of, sample_of
from bridge.queries.options import MASTER, SETTING
from topology.checks.declaration import require_valid
from topology.cli.cleanup import interruptible
from topology.cli.command import given_as
from topology.cli.options import ConfigOption, DebugOption, SetOption, TargetArgument, declared
from topology.cli.output import terminal
from topology.cli.redact import blind, hide, warn_of
from topology.codes.comparison import COMPARISON_EXTRA_NOT_INSTALLED, INVALID_COMPARISON_NUMBER, REPORT_NOT_WRITABLE
from topology.errors import ConfigurationError
from topology.filesystem.safe_files import followed
from topology.loading.durations import Duration
from topology.loading.settings import pairs, shown_settings
from topology.text import printable
from topology.version import version

if TYPE_CHECKING:
    from bridge.compare.results import Comparison

ALL_AT_ONCE: Final = "max"  # value of `--rate`: all messages at once
FOR_S: Final = Duration(20)
WARM_UP_S: Final = Duration(5)
ROUNDS_MAX: Final = 100
INTERRUPTED: Final = 130  # exit status after Ctrl-C
COLUMNS_MIN: Final = 20
EXAMPLES: Final = (
    ("kedge compare alerts.py", "1,000 messages per second, in all modes that can run here"),
    ("kedge compare alerts.py --modes record,embedded --rate max", "the highest throughput of two modes"),
    ("kedge compare alerts.py --modes record,spark:1s --report a.html", "with a report as a page"),
    ("kedge compare alerts.py --p99 10ms --for 5s", "the highest rate of each mode with 99 % of results within 10 ms"),
    ("kedge compare alerts.py --kill", "the cost of a kill in each mode"),
)


def compare(
    target: TargetArgument,
    set_: SetOption = None,
    config: ConfigOption = None,
    modes: ModesOption = None,
    rate: RateOption = "1000",
    p99: P99Option = None,
    for_s: ForOption = FOR_S,
    warm_up: WarmUpOption = WARM_UP_S,
    rounds: RoundsOption = 2,
    kill: KillOption = False,
    spark: SparkOption = None,
    spark_conf: SparkConfOption = None,
    report: ReportOption = None,
    png: PngOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Measure a topology in several modes, side by side.

    Shows how long each result takes with the same messages: on Kedge's workers, in one process, and in Spark's
    micro-batches. The topology's own sinks don't run, so nothing is stored or sent. Ctrl-C ends the comparison and
    shows the results so far.
    """
    terminal.say(f"kedge {version()}: compares modes of {printable(target)}")
    if wrong := _wrong(rate, for_s, warm_up, rounds, modes) or _wrong_bound(p99, rate, kill):
        raise ConfigurationError(wrong, code=INVALID_COMPARISON_NUMBER)
    job = ComparisonJob(
        target,
        tuple(set_ or ()),
        tuple(config or ()),
        _rate(rate),
        float(for_s),
        float(warm_up),
        rounds,
        _modes(modes),
        spark or "",
        tuple(spark_conf or ()),
        kill,
        p99_ms=float(p99 or 0) * 1_000,
    )
    secrets = shown_settings(pairs(job.spark_conf, given_as(SETTING)))
    hide(secrets)
    if given_as(SETTING) == SETTING:
        warn_of(secrets, SETTING)
    _check_libraries(drawn=report is not None or png is not None)
    _check_files({"--report": report, "--png": png})
    with interruptible(), sample_of(target) if not set_ else nullcontext(()) as made:
        if made:
            terminal.say(
                f"no --set is given: {SAMPLES} in the same folder made sample data ({', '.join(map(printable, made))})"
            )
        job = replace(job, sample=made, counted=counted_of(target))
        topology, _ = declared(target, list(job.settings), config or [])
        require_valid(topology)
        raise SystemExit(_measured_and_shown(job, report, png, as_json))


# -- before the measurement


def _wrong(rate: str, for_s: float, warm_up: float, rounds: int, modes: str | None) -> str:
    """Return a sentence about an invalid option; empty if all are valid."""
    number = _rate(rate)
    if number is not None and not 0 < number < inf:
        return f"{given_as('--rate')} takes a number of messages per second above 0, or max, not {rate!r:.80}"
    if not 0 < for_s < inf:
        return f"{given_as('--for')} takes a number of seconds above 0, not {for_s:g}"
    if not 0 <= warm_up < inf:
        return f"{given_as('--warm-up')} takes a number of seconds, 0 or more, not {warm_up:g}"
    if not 1 <= rounds <= ROUNDS_MAX:
        return f"{given_as('--rounds')} takes a whole number from 1 to {ROUNDS_MAX}, not {rounds}"
    if modes is not None and not _modes(modes):
        return f"{given_as('--modes')} names no mode; two modes are record,embedded"
    return ""


def _wrong_bound(p99: float | None, rate: str, kill: bool) -> str:
    """Return a sentence about an invalid `--p99`; empty if it is valid."""
    if p99 is None:
        return ""
    if not 0 < p99 < inf:
        return f"{given_as('--p99')} takes a time above 0, not {p99:g}"
    if _rate(rate) is None:
        return f"{given_as('--p99')} needs a first rate, but {given_as('--rate')} is max"
    if kill:
        return f"{given_as('--p99')} searches for a rate without kills, but {given_as('--kill')} is given"
    return ""


def _rate(given: str) -> float | None:
    """Return messages per second, NaN for an invalid number, or None for all at once."""
    if given.strip().lower() == ALL_AT_ONCE:
        return None
    try:
        return float(given.replace(",", ""))
    except ValueError:
        return nan


def _modes(given: str | None) -> tuple[str, ...]:
    return tuple(mode.strip() for mode in (given or "").split(",") if mode.strip())


def _check_libraries(drawn: bool) -> None:
    """Raises ConfigurationError if a library is missing or broken. `drawn`: True if there will be plots."""
    wanted = {"psutil": "kedge compare measures processes with"}
    if drawn:
        wanted["matplotlib"] = "--report and --png draw with"
    for module, purpose in wanted.items():
        try:
            import_module(module)
        except Exception as error:
            missing = isinstance(error, ModuleNotFoundError) and error.name == module
            why = "which is not installed" if missing else f"whose import fails: {type(error).__name__}: {error}"
            install = f"{sys.executable} -m pip install 'kedge-streams[compare]'"
            raise ConfigurationError(
                f"{purpose} {module}, {why}", code=COMPARISON_EXTRA_NOT_INSTALLED, next=install
            ) from error


def _check_files(files: dict[str, Path | None]) -> None:
    """Raises ConfigurationError for a file that could not be written at the end. Leaves no file."""
    taken: dict[Path, str] = {}
    for option, path in files.items():
        if path is None:
            continue
        try:
            real = followed(path)
            if real.is_dir():
                raise _unwritable(option, path, "it is a folder")
            if real.exists() and not real.is_file():
                raise _unwritable(option, path, "it is not a regular file")  # and would become one, even /dev/null
            made, name = tempfile.mkstemp(prefix=f".{real.name[:80]}.", dir=real.parent)
            os.close(made)
            os.unlink(name)
        except OSError as error:
            raise _unwritable(option, path, error.strerror or str(error)) from error
        if (other := taken.setdefault(real, option)) != option:
            raise _unwritable(option, path, f"{other} writes there")


def _unwritable(option: str, path: Path, why: str) -> ConfigurationError:
    return ConfigurationError(f"{given_as(option)} {str(path)!r:.200} is not writable: {why}", code=REPORT_NOT_WRITABLE)


# -- the measurement and its results


def _measured_and_shown(job: ComparisonJob, report: Path | None, png: Path | None, as_json: bool) -> int:
    """Return the exit status. From the last measurement on no signal prevents the figures from being shown."""
    from bridge.compare.measure import compare as measure
    from bridge.compare.processes import Interrupts
    from bridge.compare.report.live import display
    from bridge.compare.sustained import sustained

    interrupts = Interrupts()
    with interrupts.taken():
        with display(job) as shown:
            comparison = sustained(job, shown, interrupts, measure) if job.p99_ms else measure(job, shown, interrupts)
        try:
            _show(comparison, as_json)
        finally:  # a full stdout must not cost the report
            _write(comparison, job, report, png)
        return INTERRUPTED if interrupts.received or comparison.interrupted else _status(comparison)


def _status(comparison: "Comparison") -> int:
    from bridge.compare.report.table import measured

    return 0 if any(measured(mode) for mode in comparison.modes) else 1


def _show(comparison: "Comparison", as_json: bool) -> None:
    """Print the table, on stderr if stdout is for JSON."""
    from bridge.compare.report import table

    columns = max(COLUMNS_MIN, shutil.get_terminal_size().columns)
    lines = [*table.lines(comparison, columns)]
    if as_json:
        for line in lines:
            terminal.say(line)
        terminal.put(json.dumps(comparison.as_json(), default=str))
    else:
        terminal.put("\n".join(lines))


def _write(comparison: "Comparison", job: ComparisonJob, report: Path | None, png: Path | None) -> None:
    """Write the files. Raises ConfigurationError if a file cannot be written any more."""
    if report is None and png is None:
        return
    from bridge.compare.report import html as reports
    from bridge.compare.report import plots

    wanted: tuple[tuple[str, Path | None, Callable[[], bytes]], ...] = (
        ("--report", report, lambda: reports.as_html(comparison, again(job)).encode()),
        ("--png", png, lambda: plots.png(comparison)),
    )
    failed: ConfigurationError | None = None
    for option, path, made in wanted:
        if path is None:
            continue
        data = made()
        try:
            reports.write(path, data)
        except OSError as error:
            failed = failed or _unwritable(option, path, error.strerror or str(error))
        else:
            terminal.say(f"written: {printable(str(path))}")
    if failed is not None:
        raise failed


def again(job: ComparisonJob) -> str:
    """Return a command line that repeats the comparison, including every setting that came from the environment."""
    return f"kedge compare {shlex.join(blind([*_words(job)]))}"


def _words(job: ComparisonJob) -> Iterator[str]:
    yield job.target
    for option, values in (("--set", job.values), ("--config", job.config), (SETTING, job.spark_conf)):
        for value in values:
            yield from (option, value)
    yield from ("--rate", ALL_AT_ONCE if job.rate is None else f"{job.rate:.10g}")
    yield from ("--for", f"{job.seconds:.10g}", "--warm-up", f"{job.warm_up_s:.10g}", "--rounds", str(job.rounds))
    if job.modes:
        yield from ("--modes", ",".join(job.modes))
    if job.spark_master:
        yield from (MASTER, job.spark_master)
    if job.kill:
        yield "--kill"
    if job.p99_ms:
        yield from ("--p99", f"{job.p99_ms:.10g}ms")

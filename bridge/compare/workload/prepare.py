"""Turns a job into its script: the topology, the number of messages, and their reading in a process of its own."""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bridge.compare.folder import can_not_begin, unmade, without_room
from bridge.compare.job import ComparisonJob
from bridge.compare.processes import environment, started
from bridge.compare.workload.read_sources import ALL_S, QUIET_S
from bridge.compare.workload.script import SCRIPT, Script, ScriptSource, kept
from bridge.compare.workload.topology import replaced, sources_of
from topology.checks.declaration import require_valid
from topology.checks.guarantees import Guarantee, guarantees
from topology.codes.catalogue import CODES
from topology.codes.comparison import INCOMPARABLE_TOPOLOGY, NO_COMPARISON_MESSAGES, TOO_MANY_COMPARISON_MESSAGES
from topology.config import Config
from topology.errors import ConfigurationError
from topology.graph import Graph
from topology.loading import settings
from topology.loading.load import LoadTarget, load, target_of

AT_ONCE_A_SECOND: Final = 10_000  # with `--rate max`: number of messages for a second of `--for`
WARM_RATE: Final = 1_000.0  # messages per second of the warm-up, with `--rate max`
OFFERED_MAX: Final = 3_000_000  # messages of one round
COUNTED_MAX: Final = 1e15  # larger counts are not shown as a number
HELD_MAX: Final = 1_000_000  # messages that are read; a longer script repeats them
FIRST_S: Final = 15.0  # seconds that all spouts together may take to give their first message
READING_S: Final = ALL_S + 90.0  # seconds for the process that reads, importing and closing included
LOOK_S: Final = 0.05
SAID_MAX: Final = 300  # characters of its last output when it died


@dataclass(frozen=True)
class Offer:
    """The compared topology: where it is, its values, its name and spouts, and the guarantee of its results on Kedge.

    `notes`: weaker guarantees of a normal run.
    """

    target: LoadTarget
    values: dict[str, str]
    topology: str
    sources: tuple[ScriptSource, ...]
    guarantee: str
    notes: tuple[str, ...] = ()

    def description(self, **beside: Any) -> dict[str, Any]:
        """Return the description for other processes, which load the topology again."""
        file = str(self.target.file) if self.target.file else None
        where = {"where": self.target.where, "attribute": self.target.attribute, "file": file, "values": self.values}
        return {**where, **beside}


def offer_of(job: ComparisonJob) -> Offer:
    """Load the topology, and check that it can be compared. Raises ConfigurationError or DeclarationError."""
    target, values = target_of(job.target), dict(settings.pairs(job.settings, "--set"))
    made = load(target, values)
    made.config = settings.configured(made.config, settings.pairs(job.config, "--config"), os.environ)
    require_valid(made)
    if made.companions:
        names = ", ".join(repr(component.name) for component in made.companions)
        raise ConfigurationError(
            f"{target} has companions ({names}), which kedge compare does not support", code=INCOMPARABLE_TOPOLOGY
        )
    sources = sources_of(made)
    name, config = made.name, made.config
    notes = tuple(_unrepeatable(made))
    promised = guarantees(replaced(made, "", ""))
    assert isinstance(config, Config), "validated"
    weakest = max(
        (component.guarantee for component in promised), key=[*Guarantee].index, default=Guarantee.EXACTLY_ONCE
    )
    return Offer(target, values, name, sources, weakest.value, notes)


def _unrepeatable(made: Graph) -> Iterator[str]:
    """Yield the replays that a normal run does not get from its spouts, but a comparison does, as it repeats
    messages."""
    missed = {
        "never": "can't replay messages, so the comparison replaces it with a source that can: in a normal run, "
        "messages in flight are lost if a worker dies",
        "other ids": "replays messages under other ids, so the comparison replaces it with a source that keeps ids: in "
        "a normal run, a replayed message may be counted twice",
    }
    for component in made.components:
        if component.kind == "spout" and (text := missed.get(component.prototype.given_again)):
            yield f"The spout {component.name!r} {text}."


def counts_of(job: ComparisonJob) -> tuple[int, int, float]:
    """Return how many messages are offered in all, how many of these are not measured, and how many per second."""
    rate = job.rate if job.rate is not None else WARM_RATE
    warm = 1 + rate * job.warm_up_s
    measured = (job.rate if job.rate is not None else AT_ONCE_A_SECOND) * job.seconds
    if not warm + measured <= OFFERED_MAX:
        all_ = warm + measured
        many = f"{all_:,.0f} messages" if all_ < COUNTED_MAX else "more messages than can be counted"
        raise ConfigurationError(
            f"that is {many} per round; the maximum is {OFFERED_MAX:,}", code=TOO_MANY_COMPARISON_MESSAGES
        )
    return math.ceil(warm) + max(1, math.ceil(measured)), math.ceil(warm), rate


def read(job: ComparisonJob, offer: Offer, folder: Path, mark: str) -> Script:
    """Read the messages into `folder`; takes some seconds, a minute at most.

    Raises ConfigurationError if there are none, and StartError if they cannot be written.
    """
    count, warm, warm_rate = counts_of(job)
    try:
        said = _read(offer.description(folder=str(folder), wanted=min(count, HELD_MAX), first_s=FIRST_S), folder, mark)
    except OSError as error:
        raise can_not_begin(unmade(error)) from error
    if "unmade" in said:
        raise can_not_begin(said["unmade"])
    if "error" in said:
        wrong = _unread(said["error"], said["code"], said["next"])
        wrong.trace = said.get("trace", "")
        raise wrong
    if not said["held"]:
        raise _unread(_nothing(offer, said["why"]))
    (folder / SCRIPT).unlink()
    notes = [*_notes(said["held"], count, said["why"]), *offer.notes]
    return Script(folder, offer.topology, offer.sources, said["held"], count, warm, job.rate, warm_rate, tuple(notes))


def _unread(why: str, code: str = "", next: str = "") -> ConfigurationError:
    """Return the error for a script without messages."""
    return ConfigurationError(why, code=CODES.get(code, NO_COMPARISON_MESSAGES), next=next)


def _read(description: dict[str, Any], folder: Path, mark: str) -> dict[str, Any]:
    """Return the reader's result. Raises OSError, and ConfigurationError if it gives none."""
    folder.mkdir(exist_ok=True)
    request = folder / "request.json"
    with open(os.open(request, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        json.dump(description, file)  # a file and no argument: values may be secrets
    command = [sys.executable, "-P", "-m", "bridge.compare.workload.read_sources", str(request)]
    process = started(command, environment(mark), folder / "reading")
    try:
        _wait(process)
    finally:
        process.kill()
        process.wait()
    try:
        return kept(folder)
    except FileNotFoundError:
        if why := without_room(folder):
            raise OSError(why) from None
        raise _unread(f"the spouts could not be read: {_last(folder, process)}") from None


def _wait(process: "subprocess.Popen[bytes]") -> None:
    ends = time.monotonic() + READING_S
    while process.poll() is None and time.monotonic() < ends:
        time.sleep(LOOK_S)


def _last(folder: Path, process: "subprocess.Popen[bytes]") -> str:
    lines = [line for line in (folder / "reading.err").read_text(errors="replace").splitlines() if line.strip()]
    said = lines[-1][:SAID_MAX] if lines else "it said nothing"
    return f"the process that read them ended with status {process.returncode}, and {said}"


def _nothing(offer: Offer, why: str) -> str:
    names = " and ".join(repr(source.name) for source in offer.sources)
    if why:
        return f"{names} gave no message within some seconds, so there are no messages to compare with"
    return f"{names} ended without a message, so there are no messages to compare with"


def _notes(held: int, count: int, why: str) -> list[str]:
    notes = ["No sink of the topology ran: a probe timed and counted their inputs."]
    if held < count:
        because = {
            "": " and ended",
            "quiet": f" and then none for {QUIET_S:g} s",
            "slow": f" within {ALL_S:g} s",
        }.get(why, "")
        times = count / held
        offered = f"these were offered {times:,.1f} times over" if times >= 1.05 else "a few were offered twice"
        notes.append(f"The spouts gave {held:,} messages{because}; {offered}, under new ids each time.")
    return notes

"""From a job to its script: which topology, how many messages, and the reading of them in a process of its own."""

import json
import math
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bridge.compare.job import Job
from bridge.compare.processes import environment, started
from bridge.compare.reading import ALL_S, QUIET_S
from bridge.compare.script import SCRIPT, Script, Source, kept
from bridge.compare.scripted import replaced, sources_of
from topology.cli import settings
from topology.cli.loading import Target, load, target_of
from topology.codes.catalogue import CODES
from topology.codes.comparing import K705, K706, K707
from topology.config import Config
from topology.errors import ConfigurationError
from topology.guarantees import Guarantee, guarantees

AT_ONCE_A_SECOND: Final = 10_000  # with `--rate max`: how many messages stand for a second of `--for`
WARM_RATE: Final = 1_000.0  # of the warm-up, with `--rate max`
OFFERED_MAX: Final = 3_000_000  # messages of one round
HELD_MAX: Final = 1_000_000  # messages that are read; more are these once more
FIRST_S: Final = 15.0  # how long all spouts together may take to give their first message
READING_S: Final = ALL_S + 90.0  # for the process that reads, importing and closing included
LOOK_S: Final = 0.05
SAID_MAX: Final = 300  # characters of what it has said as it died


@dataclass(frozen=True)
class Offer:
    """What is compared: where the topology is, with its values; its name, spouts and config, and what its results get
    from Kedge."""

    target: Target
    values: dict[str, str]
    topology: str
    sources: tuple[Source, ...]
    guarantee: str

    def told(self, **beside: Any) -> dict[str, Any]:
        """As other processes are told, which load it once more."""
        file = str(self.target.file) if self.target.file else None
        where = {"where": self.target.where, "attribute": self.target.attribute, "file": file, "values": self.values}
        return {**where, **beside}


def offer_of(job: Job) -> Offer:
    """Loads the topology, and looks whether it can be compared. Raises ConfigurationError or DeclarationError."""
    target, values = target_of(job.target), dict(settings.pairs(job.values, "--set"))
    made = load(target, values)
    made.config = settings.configured(made.config, settings.pairs(job.config, "--config"), os.environ)
    made.validate()
    if made.companions:
        names = ", ".join(repr(one.name) for one in made.companions)
        raise ConfigurationError(f"{target} has processes beside it ({names}), and can't be compared", code=K705)
    sources = sources_of(made)
    name, config = made.name, made.config
    promised = guarantees(replaced(made, "", ""))
    assert isinstance(config, Config), "validated"
    weakest = max((one.guarantee for one in promised), key=[*Guarantee].index, default=Guarantee.EXACTLY_ONCE)
    return Offer(target, values, name, sources, weakest.value)


def counts_of(job: Job) -> tuple[int, int, float]:
    """How many messages are offered in all, how many of these are not measured, and how many a second those are."""
    rate = job.rate if job.rate is not None else WARM_RATE
    warm = 1 + math.ceil(rate * job.warm_up_s)
    measured = math.ceil((job.rate if job.rate is not None else AT_ONCE_A_SECOND) * job.seconds)
    if warm + measured > OFFERED_MAX:
        text = f"that is {warm + measured:,} messages a round, and {OFFERED_MAX:,} are the most"
        raise ConfigurationError(text, code=K707)
    return warm + max(1, measured), warm, rate


def read(job: Job, offer: Offer, folder: Path, mark: str) -> Script:
    """Reads the messages into `folder`; takes some seconds, a minute at most. Raises ConfigurationError where there are
    none."""
    count, warm, warm_rate = counts_of(job)
    told = offer.told(folder=str(folder), wanted=min(count, HELD_MAX), first_s=FIRST_S)
    request = folder / "request.json"
    with open(os.open(request, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        json.dump(told, file)  # a file and no argument: values may be secrets
    command = [sys.executable, "-P", "-m", "bridge.compare.reading", str(request)]
    process = started(command, environment(mark), folder / "reading")
    try:
        _wait(process)
    finally:
        process.kill()
        process.wait()
    try:
        said = kept(folder)
    except FileNotFoundError:
        raise ConfigurationError(f"the spouts could not be read: {_last(folder, process)}", code=K706) from None
    if "error" in said:
        code = CODES.get(said["code"], K706)
        error = ConfigurationError(said["error"], code=code, next=said["next"])
        error.trace = said.get("trace", "")
        raise error
    if not said["held"]:
        raise ConfigurationError(_nothing(offer, said["why"]), code=K706)
    (folder / SCRIPT).unlink()
    notes = _notes(said["held"], count, said["why"])
    return Script(folder, offer.topology, offer.sources, said["held"], count, warm, job.rate, warm_rate, tuple(notes))


def _wait(process: "subprocess.Popen[bytes]") -> None:
    ends = time.monotonic() + READING_S
    while process.poll() is None and time.monotonic() < ends:
        time.sleep(LOOK_S)


def _last(folder: Path, process: "subprocess.Popen[bytes]") -> str:
    lines = [line for line in (folder / "reading.err").read_text(errors="replace").splitlines() if line.strip()]
    said = lines[-1][:SAID_MAX] if lines else "it said nothing"
    return f"the process that read them ended with status {process.returncode}, and {said}"


def _nothing(offer: Offer, why: str) -> str:
    names = " and ".join(repr(one.name) for one in offer.sources)
    if why:
        return f"{names} gave no message within some seconds, so there is nothing to compare with"
    return f"{names} ended without a message, so there is nothing to compare with"


def _notes(held: int, count: int, why: str) -> list[str]:
    notes = ["No sink of the topology ran: what would have reached them was timed and counted."]
    if held < count:
        because = {
            "": "had no more",
            "quiet": f"gave nothing more for {QUIET_S:g} s",
            "slow": f"gave no more within {ALL_S:g} s",
        }.get(why, "were read no further")
        times = count / held
        offered = f"these were offered {times:,.1f} times over" if times >= 1.05 else "a few were offered twice"
        notes.append(f"The spouts {because} than {held:,} messages; {offered}, under new ids each time.")
    return notes

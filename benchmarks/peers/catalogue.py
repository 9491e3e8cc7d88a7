"""The compared peers: the needs of each, how its scripts are started, and its guarantee for a record.

The guarantee is that of these scripts, unchanged, on one machine; figures must be shown with it. Must not know how
anything is measured.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MSGSPEC: Final = "msgspec>=0.19"  # JSON is written by the same encoder everywhere
SCRIPTS: Final = "benchmarks.peers"
BASELINE: Final = "asyncio"  # the peer to which ratios refer


@dataclass(frozen=True)
class Call:
    """One run: the peer's Python, the workload's name, the file of lines, the output file, a folder of its own."""

    python: str
    workload: str
    lines: Path
    out: Path
    folder: Path


@dataclass(frozen=True)
class Peer:
    """One row of each workload.

    folder     of its scripts in this package
    needs      what pip installs into an environment of its own; empty for Kedge, which runs in the project's
    guarantee  its guarantee in a few words; `means` in a sentence
    command    the command that is run and measured; `prepared` is run before, and not measured
    """

    name: str
    title: str
    folder: str
    needs: tuple[str, ...]
    guarantee: str
    means: str
    command: Callable[[Call], Sequence[str]]
    prepared: Callable[[Call], Sequence[str]] | None = None


def _kedge(call: Call, *options: str) -> list[str]:
    settings = ("--set", f"path={call.lines}", "--set", f"store={call.out}", "--state-dir", str(call.folder / "state"))
    module = f"{SCRIPTS}.with_kedge.{call.workload}"
    return [call.python, "-m", "kedge", "run", module, *settings, *options]


def _script(folder: str) -> Callable[[Call], list[str]]:
    return lambda call: [call.python, "-m", f"{SCRIPTS}.{folder}.{call.workload}", str(call.lines), str(call.out)]


def _bytewax(call: Call, *options: str) -> list[str]:
    flow = f"{SCRIPTS}.with_bytewax.{call.workload}:flow({str(call.lines)!r}, {str(call.out)!r})"
    return [call.python, "-m", "bytewax.run", flow, *options]


EXACT: Final = "each once, through any kill"
OF_KEDGE: Final = (
    "a line counts once, and each row is once in the file, whatever dies, the whole run or the machine's power too "
    '(`durability="disk"`, the default): every change of state is on the disk before anything comes of it'
)
OF_CHECKPOINTS: Final = (
    'the same, by other means (`durability="checkpoint"`): rows leave at once, and who starts it again has all of it '
    "go back to the last checkpoint, taken five times a second; a row that is made again has the name that it had, by "
    "which the file's sink drops it, as long as each key gets its inputs in the order of before"
)

PEERS: Final[tuple[Peer, ...]] = (
    Peer(
        "asyncio",
        "asyncio queues",
        "asyncio_queues",
        (MSGSPEC,),
        "none",
        "what is under way, and all that was counted, is lost with the process",
        _script("asyncio_queues"),
    ),
    Peer(
        "pyzmq",
        "plain pyzmq, 3 processes",
        "with_pyzmq",
        (MSGSPEC, "pyzmq>=26.3"),
        "none",
        "what is in a process or on its way between two is lost when one of them dies, and the others wait for ever",
        _script("with_pyzmq"),
    ),
    Peer(
        "bytewax",
        "Bytewax, no recovery",
        "with_bytewax",
        (MSGSPEC, "bytewax==0.21.1"),
        "none",
        "without a recovery directory an execution that died begins anew, with nothing counted, at the first line",
        _bytewax,
    ),
    Peer(
        "bytewax-recovery",
        "Bytewax, recovery",
        "with_bytewax",
        (MSGSPEC, "bytewax==0.21.1"),
        "at least once, from a snapshot",
        "who starts it again has it go on at its last snapshot, taken every 10 s and at the end of the input, which "
        "runs as short as these have alone; what came after that is processed again; its file sink cuts the file back "
        "to the snapshot, so that each row is in it once",
        lambda call: _bytewax(call, "-r", str(call.folder), "-s", "10", "-b", "0"),
        lambda call: [call.python, "-m", "bytewax.recovery", str(call.folder), "1"],
    ),
    Peer("kedge", "Kedge, one process", "with_kedge", (), EXACT, OF_KEDGE, _kedge),
    Peer(
        "kedge-2w",
        "Kedge, 2 workers",
        "with_kedge",
        (),
        EXACT,
        f"{OF_KEDGE}; a worker that dies is replaced while the run goes on",
        lambda call: _kedge(call, "--workers", "2"),
    ),
    Peer(
        "kedge-checkpoint",
        'Kedge, one process, "checkpoint"',
        "with_kedge",
        (),
        EXACT,
        OF_CHECKPOINTS,
        lambda call: _kedge(call, "--set", "durability=checkpoint"),
    ),
)

LEFT_OUT: Final = {  # a peer that is not measured → the reason
    "Quix Streams": "needs a Kafka broker",
    "faust-streaming": "needs a Kafka broker",
    "PyFlink": "brings 330 MB of jars, and a JVM: `kedge compare` has Spark for engines of that kind",
    "Pathway": "brings 560 MB, which took more than four minutes to install",
}

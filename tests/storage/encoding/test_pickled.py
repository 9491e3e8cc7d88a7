"""S13: bytes that would run a command if they were unpickled, put into every store, frame and file: refused as damage,
and the command has not run.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from topology.records import Record, decoder
from topology.runtime.control.messages import Unpacker
from topology.runtime.links.codec import unpack
from topology.storage.encoding.packing import begun_of, letter_of, mark_of, trial_of

ROOT = Path(__file__).resolve().parents[3]
RAN = "it-was-unpickled"
PICKLED = f"cos\nsystem\n(S'touch {RAN}'\ntR.".encode()  # protocol 0: what a pickle.loads would run


class Failure(Record):
    user: str


def framed(data: bytes, *, orders: bool) -> Any:
    return Unpacker(orders=orders).fed(len(data).to_bytes(4, "little") + data)


@pytest.mark.parametrize(
    "read",
    [
        unpack,
        lambda data: framed(data, orders=True),
        lambda data: framed(data, orders=False),
        decoder(Failure),
        mark_of,
        begun_of,
        trial_of,
        letter_of,
    ],
    ids=["frame", "order", "word", "record", "mark", "begun", "trial", "letter"],
)
def test_s13_pickled_bytes_are_refused_wherever_bytes_are_read(
    read: Callable[[bytes], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception, match=r".+"):  # each has an error of its own
        read(PICKLED)
    assert not (tmp_path / RAN).exists()


TOPOLOGY = """
from bolts import JsonLinesSink, SqliteSink
from spouts import Items
from topology import Record, Topology

class Number(Record):
    number: int

topology = Topology("pickled")
numbers = topology.spout("numbers", Items([Number(n) for n in range(10)]))
topology.bolt("lines", JsonLinesSink("rows.jsonl"), numbers.shuffle())
topology.bolt("table", SqliteSink("rows.db"), numbers.shuffle())
"""


def run(folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "kedge", "run", "it.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_s13_pickled_bytes_in_any_file_of_a_run_are_refused_by_the_files_name(tmp_path: Path) -> None:
    (tmp_path / "it.py").write_text(TOPOLOGY)
    first = run(tmp_path)
    assert first.returncode == 0, first.stderr
    kept = {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()}
    stores = [one for one, data in kept.items() if data and one.suffix in (".db", ".jsonl", ".json", ".manifest")]
    assert len(stores) >= 3, kept.keys()
    for store in stores:
        store.write_bytes(PICKLED + b"\n")
        again = run(tmp_path)
        assert again.returncode in (2, 3), (store, again.stderr)
        assert store.name in again.stderr
        assert not (tmp_path / RAN).exists()
        for one, data in kept.items():
            one.write_bytes(data)

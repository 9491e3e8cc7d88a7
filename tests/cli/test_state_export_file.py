"""Where `kedge state export -o` writes: what is there already may be a device or a link, and a signal may come."""

import os
import signal
from pathlib import Path

from cli_kit import kedge, started, wait_for

APP = """
from spouts import Items
from topology import Bolt, Record, State, Topology


class Word(Record):
    text: str


class Keep(Bolt):
    def process(self, word: Word, state: State[bytes]) -> None:
        state.set(bytes(SIZE))


topology = Topology("words")
words = topology.spout("words", Items([Word(str(number)) for number in range(KEYS)]))
topology.bolt("keep", Keep(), words.fields("text"))
"""


def ran(folder: Path, keys: int, size: int) -> None:
    """In this folder there is state of so many keys, of so many bytes each."""
    (folder / "app.py").write_text(APP.replace("KEYS", str(keys)).replace("SIZE", str(size)))
    assert kedge("run", "app.py", cwd=folder).returncode == 0


def test_what_is_no_regular_file_is_written_and_not_replaced_and_a_link_stays_one(tmp_path: Path) -> None:
    """As root, `-o /dev/null` took the device away from the whole machine."""
    ran(tmp_path, keys=2, size=1)
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert kedge("state", "export", "-o", "pipe", cwd=tmp_path).returncode == 0
        written = os.read(reader, 1 << 16).decode()
    finally:
        os.close(reader)
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "link").symlink_to("real")
    assert kedge("state", "export", "-o", "link", cwd=tmp_path).returncode == 0
    assert (tmp_path / "link").is_symlink()
    assert written == (tmp_path / "real").read_text()
    assert len(written.splitlines()) == 3


def test_ctrl_c_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    ran(tmp_path, keys=300, size=200_000)
    with started("state", "export", "-o", "out.jsonl", cwd=tmp_path) as run:
        wait_for(lambda: any(path.name.startswith(".out.") for path in tmp_path.iterdir()), "that it writes")
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(30) == 1
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".out.")] == []

"""A folder with the topologies that the tests of the command run, and signals as a terminal's programs have them."""

import signal
from pathlib import Path

import pytest
from cli_kit import COUNTING, ENDLESS

if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # `nohup make test`: what is ignored would be by every program that a test starts, and hides how that takes the
    # signal. A handler is not inherited, and this one lets the suite go on as before.
    signal.signal(signal.SIGHUP, lambda number, frame: None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "counting.py").write_text(COUNTING)
    (tmp_path / "endless.py").write_text(ENDLESS)
    return tmp_path

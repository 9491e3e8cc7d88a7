"""A folder with the topologies that the tests of the command run, and signals as a terminal's programs have them."""

import compileall
import signal
from pathlib import Path

import pytest
from cli_kit import COUNTING, ENDLESS
from hypothesis import HealthCheck, settings

from topology.user_frames import HOME, PACKAGES

# Hundreds of processes import Kedge here. Where Python keeps no bytecode by itself (PYTHONDONTWRITEBYTECODE, as in many
# containers), each would compile all of it, which takes twice as long as all else of its start.
for package in PACKAGES:
    compileall.compile_dir(HOME / package, quiet=2)

# How long an example takes is the machine's, and no property. For all that is collected after this, in one session.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # `nohup make test`: what is ignored would be by every program that a test starts, and hides how that takes the
    # signal. A handler is not inherited, and this one lets the suite go on as before.
    signal.signal(signal.SIGHUP, lambda number, frame: None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "counting.py").write_text(COUNTING)
    (tmp_path / "endless.py").write_text(ENDLESS)
    return tmp_path

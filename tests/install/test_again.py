"""An environment that had Kedge installed, ran pytest, and gets Kedge anew as a clone that is edited: what README and
tutorial have somebody type, in this order."""

import os
from pathlib import Path

import pytest
from install_kit import Stranger, copied, stranger

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # it builds and installs twice

OLD_WAY = """
from topology.testing import run_bolt
from topology import Bolt, Record


class Word(Record):
    text: str


class Same(Bolt):
    def process(self, word: Word) -> list[Word]:
        return [word]


def test_same() -> None:
    assert run_bolt(Same(), [Word("a")]).well().outputs == [Word("a")]
"""


@pytest.fixture
def one(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Stranger:
    made = stranger(tmp_path_factory.mktemp("a"), wheel)  # a short path, since sockets are made below it
    for line in ("pip install --quiet pytest", "kedge new alerts"):
        result = made.types(line)
        assert result.returncode == 0, result.stderr
    return made


def left(one: Stranger) -> list[Path]:
    """Folders of our packages in site-packages."""
    (site,) = one.environment.glob("lib/python*/site-packages")
    return [site / name for name in ("acker", "bolts", "bridge", "spouts", "topology") if (site / name).exists()]


def works(one: Stranger) -> None:
    """Every command, typed in the starter's folder, and its tests."""
    project = one.home / "alerts"
    for line in (
        "kedge --version",
        "kedge check alerts.py",
        "kedge run alerts.py --workers 2 --fresh",
        "python -m kedge run alerts.py --fresh",
        "pytest -q",
        "python -c 'from kedge import Topology; print(Topology)'",
    ):
        result = one.types(line, cwd=project)
        assert result.returncode == 0, f"{line}\n{result.stdout}\n{result.stderr}"


def test_after_pytest_has_run_an_editable_install_takes_the_place_of_the_other_and_all_commands_work(
    one: Stranger, source: Path, tmp_path: Path
) -> None:
    (one.home / "alerts/test_old_way.py").write_text(OLD_WAY)
    tests = one.types("pytest -q test_old_way.py", cwd=one.home / "alerts")
    assert tests.returncode == 0, tests.stdout
    clone = copied(tmp_path / "clone", source)
    result = one.types(f"pip install --quiet --editable '{clone}'")
    assert result.returncode == 0, result.stderr
    assert left(one) != []  # what hides an editable install: else this test tells nothing
    assert [
        name for at in left(one) for _, _, names in os.walk(at) for name in names if not name.endswith(".pyc")
    ] == []
    works(one)
    where = one.types("python -c 'import kedge, bolts; print(kedge.Topology, bolts.__file__)'")
    assert str(clone) in where.stdout

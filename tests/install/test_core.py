"""The compiled core, built from a copy of the source, does what the Python core does, and passes the tests of tasks."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from install_kit import ROOT, copied, done, ran

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

BUILD = (sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--force")
TESTED = ("tests/property/test_both_cores.py", "tests/acker", "tests/runtime/tasks")


def env_of(folder: Path, **variables: str) -> Mapping[str, str]:
    return {**os.environ, "PYTHONPATH": str(folder), **variables}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which the core is compiled."""
    folder = copied(tmp_path_factory.mktemp("core") / "kedge")
    done(*BUILD, cwd=folder)
    return folder


def version(folder: Path, **variables: str) -> str:
    command = (sys.executable, "-P", "-c", "import kedge; kedge.main()", "--version")
    result = ran(*command, cwd=folder, env=env_of(folder, **variables))
    return result.stdout or result.stderr


def test_its_tasks_pass_their_tests_and_make_the_same(checkout: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTED]
    env = env_of(checkout, KEDGE_CORE="compiled")
    told = subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True, timeout=550, check=False)
    assert told.returncode == 0, told.stdout[-4_000:]
    assert "skipped" not in told.stdout


def test_the_version_names_the_core_and_a_variable_chooses_it(checkout: Path) -> None:
    assert version(checkout).endswith(", compiled core)\n")
    assert version(checkout, KEDGE_CORE="Python").endswith(", Python core: KEDGE_CORE=python)\n")
    assert version(checkout, KEDGE_CORE="fast") == "kedge: KEDGE_CORE is python or compiled, not 'fast'\n"


@pytest.mark.parametrize("source", ["topology/core/tuples.py", "acker/hash64.pxd", "setup.py"])
def test_a_core_whose_sources_have_changed_does_not_run_until_it_is_built_again(
    checkout: Path, tmp_path: Path, source: str
) -> None:
    changed = copied(tmp_path / "kedge", checkout)
    for built in (checkout / "topology").rglob("*.so"):
        (changed / built.relative_to(checkout)).write_bytes(built.read_bytes())
    assert version(changed).endswith(", compiled core)\n")
    (changed / source).touch()
    said = f"{Path(source).name} has changed since it was compiled: make core"
    assert version(changed).endswith(f", Python core: {said})\n")
    refused = version(changed, KEDGE_CORE="compiled")
    assert refused == f"kedge: KEDGE_CORE=compiled, but there is no compiled core to run: {said}\n"
    done(*BUILD, cwd=changed)
    assert version(changed).endswith(", compiled core)\n")


def test_without_a_compiler_the_build_ends_well_and_says_that_the_python_core_runs(tmp_path: Path) -> None:
    folder = copied(tmp_path / "kedge", ROOT)
    result = ran(*BUILD, cwd=folder, env=env_of(folder, CC="/nowhere/cc", LDSHARED="/nowhere/cc"))
    assert result.returncode == 0, result.stderr
    assert "the hot path is not compiled and runs as Python" in result.stdout
    assert [*folder.rglob("*.so")] == []
    assert version(folder).endswith(", Python core: it was not compiled)\n")

"""The compiled core: an install builds it if there is a compiler, and works without one. It runs, or says why not."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from install_kit import ROOT, copied, done, into, ran, stranger

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

BUILD = (sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--force")
NO_COMPILER = {"CC": "/nowhere/cc", "LDSHARED": "/nowhere/cc"}


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


def test_the_version_names_the_core_and_a_variable_chooses_it(checkout: Path) -> None:
    assert version(checkout).endswith(", compiled core)\n")
    assert version(checkout, KEDGE_CORE="Python").endswith(", Python core: KEDGE_CORE=python)\n")
    assert version(checkout, KEDGE_CORE="fast") == "kedge: KEDGE_CORE is python or compiled, not 'fast'\n"


@pytest.mark.parametrize("source", ["topology/core/tuples.pyx", "acker/hash64.pxd", "acker/identity.py"])
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
    if source.endswith(".py"):  # once is enough: it compiles for ten seconds
        done(*BUILD, cwd=changed)
        assert version(changed).endswith(", compiled core)\n")


def test_a_core_that_can_not_be_loaded_does_not_run_and_the_version_says_why(checkout: Path, tmp_path: Path) -> None:
    changed = copied(tmp_path / "kedge", checkout)
    for built in (checkout / "topology").rglob("*.so"):
        (changed / built.relative_to(checkout)).write_bytes(b"for another system")
    assert ", Python core: it can't be loaded here: " in version(changed)
    assert "there is no compiled core to run: it can't be loaded here: " in version(changed, KEDGE_CORE="compiled")


def test_without_a_compiler_the_build_ends_well_and_says_that_the_python_core_runs(tmp_path: Path) -> None:
    folder = copied(tmp_path / "kedge", ROOT)
    result = ran(*BUILD, cwd=folder, env=env_of(folder, **NO_COMPILER))
    assert result.returncode == 0, result.stderr
    assert "the hot path is not compiled and runs as Python" in result.stdout
    assert [*folder.rglob("*.so")] == []
    assert version(folder).endswith(", Python core: it was not compiled)\n")
    refused = ran(*BUILD, cwd=folder, env=env_of(folder, KEDGE_CORE="compiled", **NO_COMPILER))
    assert refused.returncode != 0
    assert "Kedge: KEDGE_CORE=compiled, but the hot path can't be compiled: " in refused.stderr


def test_types_that_cython_does_not_take_end_the_build_well_too_and_are_named(tmp_path: Path) -> None:
    folder = copied(tmp_path / "kedge", ROOT)
    with (folder / "topology/core/tuples.pyx").open("a") as file:
        file.write("cdef nonsense x = 1\n")
    result = ran(*BUILD, cwd=folder, env=env_of(folder))
    assert result.returncode == 0, result.stderr
    assert "the hot path is not compiled and runs as Python" in result.stdout
    assert "tuples.pyx" in result.stdout + result.stderr
    assert version(folder).endswith(", Python core: it was not compiled)\n")


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, ", compiled core)\n"),
        (NO_COMPILER, ", Python core: it was not compiled)\n"),
        ({"KEDGE_CORE": "python"}, ", Python core: it was not compiled)\n"),
    ],
)
def test_pip_installs_with_a_compiler_and_without_one_and_the_version_says_which(
    tmp_path: Path, source: Path, variables: dict[str, str], said: str
) -> None:
    """Beside what this environment has: test_newcomer.py installs into an empty one."""
    folder, target = copied(tmp_path / "kedge", source), tmp_path / "installed"
    into(Path(sys.executable), [folder], "--no-deps", "--target", str(target), env={**os.environ, **variables})
    assert version(target).endswith(said)


def test_an_editable_install_without_an_environment_for_the_build_compiles_in_place(
    tmp_path: Path, source: Path
) -> None:
    """As a developer of Kedge installs it who has setuptools and Cython already."""
    folder = copied(tmp_path / "kedge", source)
    one = stranger(tmp_path, "setuptools>=77", "cython>=3.1")
    python = one.environment / "bin" / "python"
    into(python, ["-e", folder], "--no-build-isolation", env=one.env)
    assert one.types("kedge --version").stdout.endswith(", compiled core)\n")
    assert [*folder.rglob("*.so")] != [], "it was not compiled in place"
    (folder / "topology/core/tuples.py").touch()
    assert "tuples.py has changed since it was compiled: make core" in one.types("kedge --version").stdout

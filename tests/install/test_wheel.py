"""The wheel, and the source distribution that it is built from, have all of our files, and nothing else.

The tests need a compiler, since the compiled core is in the wheel.
"""

import ast
import email.message
import email.parser
import os
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest
from install_kit import ROOT, Stranger, built, copied, into, ran, stranger

import kedge
from topology.core.choice import COMPILED

PACKAGES = ("acker", "topology", "spouts", "bolts", "bridge")
EXAMPLES = "kedge_examples"  # what examples/ is called in the wheel
SIZE_MAX = 2_000_000  # bytes of the wheel,
FILE_MAX = 50_000  # of each source in it; something large that got into it by mistake is larger;
BUILT_MAX = 300_000  # and of each compiled module

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # the first test builds, and compiles


def contents(wheel: Path) -> dict[str, bytes]:
    """File → its bytes."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def sources(wheel: Path) -> dict[str, bytes]:
    """Return its files that are not compiled."""
    return {name: content for name, content in contents(wheel).items() if not name.endswith(".so")}


def ours(source: Path) -> dict[str, bytes]:
    """What has to be installed: every file of every package, by the name that it has then."""
    files = [file for package in PACKAGES for file in (source / package).rglob("*") if file.is_file()]
    beside = [*source.glob("kedge*.py"), *source.glob("kedge-stubs/*.pyi")]
    found = {file.relative_to(source).as_posix(): file for file in [*files, *beside]}
    found |= {f"{EXAMPLES}/{file.name}": file for file in (source / "examples").glob("*.py")}
    return {name: file.read_bytes() for name, file in found.items()}


def told(wheel: Path, name: str) -> str:
    """A file of the wheel's metadata."""
    (text,) = (content for path, content in contents(wheel).items() if path.endswith(f".dist-info/{name}"))
    return text.decode()


@pytest.fixture(scope="session")
def metadata(wheel: Path) -> email.message.Message:
    return email.parser.Parser().parsestr(told(wheel, "METADATA"))


@pytest.fixture(scope="session")
def plain_wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel without the compiled core."""
    folder = tmp_path_factory.mktemp("plain")
    env = {**os.environ, "KEDGE_CORE": "python"}
    return built(copied(folder / "source", source), folder / "dist", "--wheel", env=env)


def test_the_wheel_has_every_file_of_our_packages_as_it_is_and_no_other(source: Path, wheel: Path) -> None:
    inside = {name: content for name, content in sources(wheel).items() if ".dist-info/" not in name}
    assert sorted(inside) == sorted(ours(source))
    assert inside == ours(source)


def test_the_metadata_are_what_they_have_to_be_and_the_licence_is_among_them(wheel: Path) -> None:
    names = {name.partition(".dist-info/")[2] for name in contents(wheel) if ".dist-info/" in name}
    assert names == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "top_level.txt"}
    assert told(wheel, "licenses/LICENSE").lstrip().startswith("Apache License")
    assert set(told(wheel, "top_level.txt").split()) == {*PACKAGES, EXAMPLES, "kedge", "kedge-stubs", "kedge_pytest"}


def test_type_checkers_are_told_all_names_that_kedge_has(wheel: Path) -> None:
    stub = ast.parse((ROOT / "kedge-stubs/__init__.pyi").read_text())
    imported = {name.name for node in stub.body if isinstance(node, ast.ImportFrom) for name in node.names}
    assert imported == {*kedge.__all__}
    assert "kedge-stubs/__init__.pyi" in contents(wheel)


def test_type_checkers_are_told_that_each_package_is_typed(wheel: Path) -> None:
    assert [package for package in PACKAGES if f"{package}/py.typed" not in contents(wheel)] == []


def test_the_command_its_demo_and_the_pytest_plugin_are_entry_points(wheel: Path) -> None:
    found = ConfigParser()
    found.read_string(told(wheel, "entry_points.txt"))
    assert dict(found["console_scripts"]) == {"kedge": "kedge:main"}
    commands = {"demo": "kedge_examples.demo:demo", "compare": "bridge.compare.command:compare"}
    assert dict(found["kedge.commands"]) == commands
    assert dict(found["kedge.companions"]) == {"spark": "bridge.queries.options:OPTIONS"}
    assert dict(found["pytest11"]) == {"kedge": "kedge_pytest"}


def test_the_readme_is_the_description_and_needs_no_guess_of_its_form(
    source: Path, metadata: email.message.Message
) -> None:
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload() == (source / "README.md").read_text("utf-8")
    assert metadata["License-Expression"] == "Apache-2.0"


def test_versions_and_extras_are_those_of_pyproject_and_nothing_is_fetched_from_an_address(
    source: Path, metadata: email.message.Message
) -> None:
    project = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))["project"]
    assert (metadata["Name"], metadata["Version"]) == (project["name"], project["version"])
    assert metadata["Requires-Python"] == project["requires-python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra", [])) == set(project["optional-dependencies"])
    wanted = metadata.get_all("Requires-Dist", [])
    assert len([one for one in wanted if "extra ==" not in one]) == len(project["dependencies"])
    assert [one for one in wanted if " @ " in one or "://" in one] == []


def test_the_wheel_is_for_this_system_has_the_compiled_core_and_is_small(wheel: Path) -> None:
    assert wheel.name.endswith(f"-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}.whl")
    built = {name: len(content) for name, content in contents(wheel).items() if name.endswith(".so")}
    assert [name.partition(".")[0].replace("/", ".") for name in sorted(built)] == sorted(COMPILED)
    assert max(built.values()) < BUILT_MAX
    assert wheel.stat().st_size < SIZE_MAX
    sizes = {name: len(content) for name, content in sources(wheel).items() if not name.endswith("dist-info/RECORD")}
    assert {name: size for name, size in sizes.items() if size >= FILE_MAX} == {}


def test_a_wheel_built_from_the_source_itself_is_the_same_as_one_from_the_source_distribution(
    source: Path, wheel: Path, tmp_path: Path
) -> None:
    again = built(copied(tmp_path / "source", source), tmp_path / "dist", "--wheel")
    assert again.name == wheel.name
    assert contents(again).keys() == contents(wheel).keys()
    ours = {name: content for name, content in sources(wheel).items() if not name.endswith("/RECORD")}
    assert ours.items() <= sources(again).items()


def test_a_wheel_of_the_python_core_is_for_every_system(plain_wheel: Path) -> None:
    assert plain_wheel.name.endswith("-py3-none-any.whl")
    assert [name for name in contents(plain_wheel) if name.endswith(".so")] == []


def test_the_source_distribution_has_what_a_build_needs_and_no_tests(source: Path, dist: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "examples/demo.py"} <= names
    assert {name for name in ours(source) if not name.startswith(EXAMPLES)} <= names
    assert [name for name in names if name.split("/")[0] in ("tests", "benchmarks", "docs", "runs")] == []


def test_an_older_python_is_refused_by_pip(plain_wheel: Path, tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "download", "--no-deps", "--dest", tmp_path / "to", "--only-binary", ":all:")
    told = ran(*pip, "--python-version", "3.10", plain_wheel, cwd=tmp_path)
    assert told.returncode != 0
    assert "requires a different Python: 3.10" in told.stderr
    assert list(tmp_path.rglob("*.whl")) == []


def test_the_extra_of_a_host_brings_psutil_and_nothing_else(newcomer: Stranger, wheel: Path) -> None:
    python = newcomer.environment / "bin/python"
    told = into(
        python, [f"{wheel}[host]"], "--dry-run", "--ignore-installed", "--report", "-", "--quiet", env=newcomer.env
    )
    assert '"name": "psutil"' in told
    assert '"name": "sphinx"' not in told.lower()
    assert '"name": "pytest"' not in told


def test_uninstalling_leaves_nothing(wheel: Path, tmp_path: Path) -> None:
    one = stranger(tmp_path, pip=False)
    python = one.environment / "bin/python"
    before = sorted(path for path in one.environment.rglob("*") if not path.is_dir())
    into(python, [wheel], "--no-deps", env=one.env)
    assert "kedge" in {path.name for path in (one.environment / "bin").iterdir()}
    pip = (sys.executable, "-m", "pip", "--python", python, "uninstall", "--yes", "kedge-streams")
    assert ran(*pip, cwd=one.home).returncode == 0
    assert sorted(path for path in one.environment.rglob("*") if not path.is_dir()) == before

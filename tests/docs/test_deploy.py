"""The unit and the image that the page on deployment shows: checked by systemd's own tool where it is, and run."""

import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from snippets import ROOT, Block, blocks

from topology import Config

PAGE = "docs/how-to/deploy.md"
INSTRUCTIONS = {"FROM", "RUN", "COPY", "USER", "WORKDIR", "VOLUME", "ENV", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
LIMIT_S = 100.0  # on a loaded machine


def block(file: str) -> Block:
    (found,) = (one for one in blocks(PAGE) if one.comments.get("file") == file)
    return found


def settings(unit: str) -> dict[str, list[str]]:
    """The settings of a unit: name → its values."""
    found: dict[str, list[str]] = {}
    for line in unit.replace("\\\n", " ").splitlines():
        name, mark, value = line.partition("=")
        if mark:
            found.setdefault(name, []).append(value.strip())
    return found


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """The lines of a Dockerfile, instruction and rest."""
    lines = dockerfile.replace("\\\n", " ").splitlines()
    return [(line.split()[0], line.partition(" ")[2]) for line in lines if line.strip() and not line.startswith("#")]


UNIT = settings(block("ssh-alerts.service").text)
DOCKER = instructions(block("Dockerfile").text)


def systemd_command() -> tuple[list[str], dict[str, str]]:
    environment = dict(pair.split("=", 1) for line in UNIT["Environment"] for pair in shlex.split(line))
    return shlex.split(UNIT["ExecStart"][0]), environment


def docker_command() -> tuple[list[str], dict[str, str]]:
    found = dict(DOCKER)
    environment = dict(pair.split("=", 1) for pair in shlex.split(found["ENV"]))
    return [*json.loads(found["ENTRYPOINT"]), *json.loads(found["CMD"])], environment


def verified(unit: str, directory: Path) -> list[str]:
    """What systemd's own tool has to say about a unit. Skips the test where there is none."""
    if (tool := shutil.which("systemd-analyze")) is None:
        pytest.skip("there is no systemd-analyze here")
    text = unit.replace("/opt/ssh-alerts/.venv/bin/kedge", sys.executable)
    text = text.replace("User=kedge", "User=root")  # who need not exist here
    file = directory / "ssh-alerts.service"
    file.write_text(text)
    checked = subprocess.run(
        [tool, "verify", "--man=no", str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    return [line for line in checked.stderr.splitlines() if file.name in line]


def test_systemd_has_nothing_to_say_about_the_unit(tmp_path: Path) -> None:
    unit = block("ssh-alerts.service").text
    assert verified(unit, tmp_path) == []
    (said,) = verified(unit.replace("KillMode=mixed", "KillMode=mix"), tmp_path)
    assert "kill mode" in said


def test_the_unit_is_as_little_exposed_as_the_page_says(tmp_path: Path) -> None:
    (level,) = re.findall(r"exposure level of ([\d.]+) of 10", (ROOT / PAGE).read_text("utf-8"))
    if (tool := shutil.which("systemd-analyze")) is None:
        pytest.skip("there is no systemd-analyze here")
    (tmp_path / "ssh-alerts.service").write_text(block("ssh-alerts.service").text)
    command = [tool, "security", "--offline=true", "--no-pager", str(tmp_path / "ssh-alerts.service")]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "unrecognized option" in told.stderr:
        pytest.skip("this systemd-analyze does not judge files")
    (found,) = re.findall(r"exposure level for \S+: ([\d.]+)", told.stdout)
    assert float(found) == pytest.approx(float(level), abs=1.0)  # each version of systemd asks a little more


def test_a_manager_waits_for_longer_than_a_run_drains() -> None:
    _, environment = systemd_command()
    assert float(UNIT["TimeoutStopSec"][0]) > float(environment["KEDGE_DRAIN_TIMEOUT_S"]) == Config().drain_timeout_s
    text = (ROOT / PAGE).read_text("utf-8")
    assert [int(one) > Config().drain_timeout_s for one in re.findall(r"docker stop --time (\d+)", text)] == [True]


def test_the_image_is_made_of_instructions_that_there_are_and_runs_as_nobody_special() -> None:
    assert {name for name, _ in DOCKER} <= INSTRUCTIONS
    assert dict(DOCKER)["USER"] not in ("root", "0")


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """As short as the one of a service: those of tests are longer than a socket's path may be."""
    with tempfile.TemporaryDirectory(prefix="r-") as folder:
        yield Path(folder)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("given", [systemd_command, docker_command], ids=["systemd", "docker"])
def test_the_command_as_it_is_shown_finds_attacks_and_drains_on_sigterm(
    given: object, tmp_path: Path, short_folder: Path
) -> None:
    assert callable(given)
    command, extra = given()
    log, store, run = tmp_path / "auth.log", tmp_path / "data/alerts.db", short_folder
    store.parent.mkdir()
    made = [sys.executable, "-m", "examples.auth_log", str(log)]
    subprocess.run(made, cwd=ROOT, check=True, capture_output=True, timeout=60)
    here = {
        "/opt/ssh-alerts/.venv/bin/kedge": str(Path(sys.executable).parent / "kedge"),
        "/opt/ssh-alerts/ssh_alerts.py": str(ROOT / "examples/ssh_alerts.py"),
        "/app/ssh_alerts.py": str(ROOT / "examples/ssh_alerts.py"),
        "/var/log/auth.log": str(log),
        "/logs/auth.log": str(log),
        "/var/lib/ssh-alerts": str(store.parent),
        "=/state/": f"={store.parent}/",
        "/state/kedge": str(store.parent / "kedge"),
        "/run/ssh-alerts": str(run),
    }
    for shown, real in here.items():
        command = [word.replace(shown, real) for word in command]
        extra = {name: value.replace(shown, real) for name, value in extra.items()}
    if command[0] == "kedge":
        command[0] = here["/opt/ssh-alerts/.venv/bin/kedge"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **extra}
    with (tmp_path / "journal").open("wb") as journal:
        service = subprocess.Popen(command, cwd=store.parent, env=environment, stdout=journal, stderr=journal)
        try:
            wait_for_rows(store, service, tmp_path / "journal")
            service.send_signal(signal.SIGTERM)
            status = service.wait(LIMIT_S)
        finally:
            service.kill()
            service.wait()
    assert status == 0, (tmp_path / "journal").read_text()


def wait_for_rows(store: Path, service: subprocess.Popen[bytes], journal: Path) -> None:
    """Until the store has alerts."""
    deadline = time.monotonic() + LIMIT_S
    while not (store.exists() and rows(store)):
        assert service.poll() is None, journal.read_text()
        assert time.monotonic() < deadline, f"no row after {LIMIT_S:g} s\n{journal.read_text()}"
        time.sleep(0.05)


def rows(store: Path) -> int:
    with sqlite3.connect(store) as database:
        try:
            return int(database.execute("select count(*) from brute_force").fetchone()[0])
        except sqlite3.OperationalError:
            return 0  # not made yet, or locked

"""S12: a secret that is given to a topology is in none of the things that a run leaves behind, however it ends.

Every artefact is grepped for a canary: what is printed in all formats, the log, the live view, the state directory byte
by byte, pictures, what other users see of the processes, pytest's journal.
"""

import base64
import contextlib
import json
import os
import pty
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from postgres_kit import Database, through

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
KEDGE = [sys.executable, "-m", "kedge"]
FROM_ENV, FROM_FILE, IN_DSN, TYPED = (f"kanarie{one}-7f3ab2" for one in ("umwelt", "datei", "verbindung", "getippt"))
CANARIES = (FROM_ENV, FROM_FILE, IN_DSN, TYPED)


def found_in(data: bytes) -> list[str]:
    """The canaries that these bytes have, as they are or in an encoding that hides nothing."""
    return [
        canary
        for canary in CANARIES
        for shape in (
            canary.encode(),
            base64.b64encode(canary.encode())[:-4],
            canary.encode("utf-16-le"),
            canary.encode().hex().encode(),
        )
        if shape in data
    ]


def assert_blind(**artefacts: bytes | str) -> None:
    for name, data in artefacts.items():
        data = data.encode() if isinstance(data, str) else data
        assert not found_in(data), f"{name} has {found_in(data)}: {data[:4000].decode('utf-8', 'replace')}"


class Watch:
    """What others may see of a process and its children, looked at again and again while it lives."""

    def __init__(self) -> None:
        self.processes: set[int] = set()
        self.arguments: set[bytes] = set()  # those of two workers may be the same
        self.environments: set[bytes] = set()
        self._ended = threading.Event()

    @contextlib.contextmanager
    def over(self, pid: int) -> Iterator[None]:
        thread = threading.Thread(target=self._look, args=(pid,))
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _look(self, pid: int) -> None:
        while not self._ended.is_set():
            for one in [pid, *_descendants(pid)]:
                with contextlib.suppress(OSError):
                    self.arguments.add(Path(f"/proc/{one}/cmdline").read_bytes())
                    self.environments.add(Path(f"/proc/{one}/environ").read_bytes())
                    self.processes.add(one)
            time.sleep(0.02)


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += [int(child), *_descendants(int(child))]
    return found


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(FROM_FILE + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    return path


def environment(**changed: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **changed}


def kedge(folder: Path, *arguments: str, **changed: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([*KEDGE, *arguments], cwd=folder, env=environment(**changed), capture_output=True, timeout=90)


def state_of(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


TARGET = str(HERE / "canaries.py")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("--workers", "2")], ids=["one process", "two workers"])
@pytest.mark.parametrize("log", ["console", "json"])
def test_s12_a_run_that_fails_and_crashes_shows_no_secret(
    workers: tuple[str, ...], log: str, folder: Path, secret_file: Path
) -> None:
    crashes = ["--set", "crashes=true"] if workers else []
    given = ["--set", "password=env:CANARY", "--set", f"token=file:{secret_file}", *crashes]
    process = subprocess.Popen(
        [*KEDGE, "run", TARGET, *given, *workers, "--log-format", log, "--debug", "--config", "max_replays=1"],
        cwd=folder,
        env=environment(CANARY=FROM_ENV),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    watch = Watch()
    with watch.over(process.pid):
        out, err = process.communicate(timeout=90)
    assert process.returncode == 1, err
    assert b"no answer for Secret(" in err, "it was raised, and told"
    assert b"Traceback" in err or b"traceback" in err
    assert len(watch.processes) >= (3 if workers else 1)
    state = state_of(folder)
    assert any("canaries" in name for name in state), "it has left something to grep"
    assert_blind(stdout=out, stderr=err, **{f"argv {n}": one for n, one in enumerate(watch.arguments)}, **state)
    own = f"CANARY={FROM_ENV}".encode()  # where the user has put it themselves
    assert_blind(**{f"environment {n}": one.replace(own, b"") for n, one in enumerate(watch.environments)})
    # the log's format changes nothing of what is kept
    looks = (("list",), ("list", "--json"), ("show", "--all")) if log == "json" else ()
    letters = [kedge(folder, "dead", *words) for words in looks]
    assert_blind(**{f"dead {n}": one.stdout + one.stderr for n, one in enumerate(letters)})


def test_s12_the_live_view_shows_no_secret(folder: Path, secret_file: Path) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*KEDGE, "run", TARGET, "--set", "password=env:CANARY", "--set", f"token=file:{secret_file}", "--debug"],
        cwd=folder,
        env=environment(CANARY=FROM_ENV, TERM="xterm-256color"),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    seen = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while data := os.read(master, 65_536):
            seen += data
    os.close(master)
    process.wait(30)
    assert b"canaries" in seen
    assert_blind(screen=seen)


def test_s12_a_secret_that_is_typed_is_warned_of_and_not_repeated(folder: Path) -> None:
    done = kedge(folder, "run", TARGET, "--set", f"password={TYPED}")
    assert b"--set password=" in done.stderr
    assert b"K351" in done.stderr
    assert "password=…".encode() in done.stdout, "the command to try next"
    assert_blind(stdout=done.stdout, stderr=done.stderr, **state_of(folder))


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", TARGET),
        ("graph", TARGET),
        ("graph", TARGET, "--format", "svg"),
        ("graph", TARGET, "--format", "mermaid"),
        ("graph", TARGET, "--workers", "2"),
        ("check", TARGET, "--set", "fails=declaration"),
        ("check", TARGET, "--set", "fails=factory"),
        ("run", TARGET, "--set", "fails=factory", "--debug"),
        ("check", TARGET, "--set", "pasword=env:CANARY"),
        ("check", TARGET, "--set", "crashes=perhaps"),
        ("check", TARGET, "--set", f"pasword={TYPED}"),
        ("check", TARGET, "--set", f"dsn=postgresql://me:{TYPED}@127.0.0.1:1/x"),
    ],
    ids=lambda arguments: " ".join(arguments[0:1] + arguments[2:])[:40].replace(TYPED, "…"),
)
def test_s12_what_looks_at_a_topology_shows_no_secret(
    arguments: tuple[str, ...], folder: Path, secret_file: Path
) -> None:
    given = ("--set", "password=env:CANARY", "--set", f"token=file:{secret_file}")
    done = kedge(folder, *arguments, *given, CANARY=FROM_ENV)
    assert done.stdout or done.stderr
    assert_blind(stdout=done.stdout, stderr=done.stderr, **state_of(folder))


@pytest.mark.slow
@pytest.mark.service("postgres")
@pytest.mark.parametrize("workers", [(), ("--workers", "2")], ids=["one process", "two workers"])
@pytest.mark.parametrize("how", ["typed", "env", "unreadable"])
def test_s12_a_connection_string_shows_no_password(
    how: str, workers: tuple[str, ...], folder: Path, secret_file: Path, database: Database
) -> None:
    password = quote(IN_DSN, safe="")
    good = (
        through(database.dsn, "127.0.0.1", 5432)
        .replace("@", f":{password}@")
        .replace("sslmode", "connect_timeout=2&sslmode")
    )
    good += f"&options=-csearch_path%3D{database.schema}"
    dsn = {
        "typed": good,
        "env": "env:DSN",
        "unreadable": f"postgresql://me:x@{password}@127.0.0.1:1/test",
    }[how]
    done = kedge(
        folder,
        *("run", TARGET, "--set", "password=env:CANARY", "--set", f"dsn={dsn}", "--debug", *workers),
        CANARY=FROM_ENV,
        DSN=good,
    )
    if how in ("typed", "env"):
        assert b"in number of database test at 127.0.0.1" in done.stdout, done.stderr
        assert database.do("SELECT count(*) AS n FROM number") == [{"n": 8}]
    else:
        assert done.returncode in (2, 3), done.stderr
        assert b"can't be read" in done.stderr
    assert_blind(stdout=done.stdout, stderr=done.stderr, **state_of(folder))


@pytest.mark.slow
def test_s12_a_server_that_can_not_be_reached_shows_no_password(folder: Path) -> None:
    """Both runs wait for it at the same time, for as long as a sink waits when it opens."""
    dsn = f"postgresql://me:{quote(IN_DSN, safe='')}@127.0.0.1:1/test"
    given = ("run", TARGET, "--set", "password=env:CANARY", "--set", f"dsn={dsn}", "--debug")
    runs = []
    for name, workers in (("one", ()), ("two", ("--workers", "2"))):
        (folder / name).mkdir()
        command = [*KEDGE, *given, *workers]
        settings = environment(CANARY=FROM_ENV)
        pipe = subprocess.PIPE
        runs.append(subprocess.Popen(command, cwd=folder / name, env=settings, stdout=pipe, stderr=pipe))
    for run in runs:
        out, err = run.communicate(timeout=90)
        assert run.returncode in (2, 3), err
        assert b"can't be reached" in err
        assert_blind(stdout=out, stderr=err, **state_of(folder))


def test_s12_the_journal_of_a_failing_test_shows_no_secret(folder: Path) -> None:
    (folder / "test_it.py").write_text(
        "from canaries import Client, Number\nfrom topology import Secret\n\n"
        "def test_it(run_bolt):\n    password = Secret(open('secret').read())\n"
        "    ran = run_bolt(Client(password, None), Number(3))\n    assert ran.failures == [], password\n"
    )
    (folder / "secret").write_text(FROM_ENV)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=long", "--showlocals", "test_it.py"],
        cwd=folder,
        env=environment(PYTHONPATH=f"{ROOT}:{HERE}"),
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert b"Secret(" in done.stdout
    assert_blind(stdout=done.stdout, stderr=done.stderr)


def test_the_grep_finds_what_is_there() -> None:
    with pytest.raises(AssertionError, match="stdout has"):
        assert_blind(stdout=json.dumps({"password": TYPED}))
    assert found_in(base64.b64encode(FROM_ENV.encode())) == [FROM_ENV]

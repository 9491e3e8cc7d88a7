"""What the tests of the examples share: where they are, the real command, and the rows that it leaves."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
DATA = ROOT / "../shared/data"  # real logs and series, where they are


def kedge(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, timeout_s: float = 100
) -> subprocess.CompletedProcess[str]:
    """The command as a user has it, in a folder of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KEDGE_")}
    return subprocess.run(
        [sys.executable, "-m", "kedge", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env={**environment, **(env or {})},
    )


def run_example(
    name: str, *arguments: str, cwd: Path, workers: int = 1, timeout_s: float = 100
) -> subprocess.CompletedProcess[str]:
    """`kedge run` of an example, which has to end well."""
    several = ("--workers", str(workers)) if workers > 1 else ()
    ran = kedge("run", str(EXAMPLES / name), *several, *arguments, cwd=cwd, timeout_s=timeout_s)
    assert ran.returncode == 0, ran.stderr
    return ran


def rows(store: Path, table: str) -> list[tuple[Any, ...]]:
    """A table's rows in the order of their storing, without the sink's key."""
    with closing(sqlite3.connect(store)) as database:
        return [row[:-1] for row in database.execute(f"SELECT * FROM {table} ORDER BY rowid")]

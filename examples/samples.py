"""Data to try the examples on: `kedge compare` calls the function of an example's name if it is given no `--set`.

Each function writes files into an existing folder, and returns the settings that read them. The same call writes the
same bytes. Knows the other generators of this folder, and no topology; must not be imported by one.
"""

import importlib.util
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from types import ModuleType

LINES = 30_000  # more than 25 s at 1,000 per second, which is what `kedge compare` measures by default
FIRST_AT = datetime(2026, 1, 1, tzinfo=UTC)


def ssh_alerts(folder: Path) -> dict[str, str]:
    """An sshd log with attacks in it."""
    maker = _beside("auth_log")
    maker.write(maker.auth_log(1, LINES), folder / "auth.log")
    return {"path": str(folder / "auth.log")}


def fraud(folder: Path) -> dict[str, str]:
    """Card payments with frauds among them, without the query on Spark, which is a process beside the topology."""
    maker = _beside("cards")
    maker.write(maker.cards(1, LINES), folder)
    return {
        "path": str(folder / "transactions.csv"),
        "holders": str(folder / "cardholders.csv"),
        "spark": "false",
    }


def apache_errors(folder: Path) -> dict[str, str]:
    """An error log with a line each second: of each 100 lines six are of one client, within a minute."""
    random, lines = Random(1), []
    for number in range(LINES):
        block, place = divmod(number, 100)
        if place < 60 and place % 10 == 0:
            level, client = "error", f"192.0.{block // 100 % 250}.{block % 100}"
        else:
            level, client = (
                random.choice(("error", "notice")),
                f"198.51.{random.randrange(250)}.{random.randrange(250)}",
            )
        at = f"{FIRST_AT + timedelta(seconds=number):%a %b %d %H:%M:%S %Y}"
        lines.append(f"[{at}] [{level}] [client {client}] File does not exist: /var/www/html/{number % 97}")
    return _written(folder / "error.log", lines)


def silent_hosts(folder: Path) -> dict[str, str]:
    """The log of twenty hosts. A host without a line for 60 ms is silent, so that there are results."""
    random = Random(1)
    times = (FIRST_AT + timedelta(seconds=number) for number in range(LINES))
    lines = [f"{at.isoformat()} web{random.randrange(20)} sshd[1]: Connection closed" for at in times]
    return _written(folder / "syslog", lines) | {"minutes": "0.001"}


def machine_temperature(folder: Path) -> dict[str, str]:
    """A reading every five minutes; after two weeks every third day is too hot."""
    random, rows = Random(1), ["timestamp,value"]
    for number in range(LINES):
        day = 5 * number // 1_440
        rows.append(
            f"{FIRST_AT + timedelta(minutes=5 * number):%Y-%m-%d %H:%M:%S},"
            f"{85.0 + random.gauss(0.0, 5.0) + (60.0 if day >= 14 and day % 3 == 0 else 0.0):.3f}"
        )
    return _written(folder / "machine.csv", rows)


def _written(path: Path, lines: list[str]) -> dict[str, str]:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return {"path": str(path)}


def _beside(name: str) -> ModuleType:
    """Return the generator in this folder, whatever name the folder is installed under."""
    spec = importlib.util.spec_from_file_location(f"_sample_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec and spec.loader, "a file of ours"  # noqa: PT018  # one fact
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

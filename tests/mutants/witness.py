"""A plugin of pytest's, loaded where a mutant's test runs: whose code ran, and what became of the test.

Writes a report, since an exit status alone does not tell a failed assertion from a test that hung, or from an error
around it. Reads its two paths from the environment; must not know mutants.
"""

import importlib.util
import json
import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import Phase, settings

CHECKED: Final = ("acker", "topology", "spouts", "bolts", "kedge")
TEXT_MAX: Final = 300

# The same examples in each run, and none made smaller: it is enough that one fails.
settings.register_profile("mutants", derandomize=True, database=None, phases=(Phase.explicit, Phase.generate))

_found: dict[str, list[str]] = {"passed": [], "failed": [], "hung": [], "skipped": [], "errors": []}


def pytest_configure(config: pytest.Config) -> None:
    """Refuses to run anything but the copy's code: the packages of the work tree are installed too."""
    settings.load_profile("mutants")
    root = Path(os.environ["MUTANTS_ROOT"]).resolve()
    for name in CHECKED:
        found = importlib.util.find_spec(name)  # and not imported: a mutant may break what its test does without
        file = found.origin if found is not None else None
        if file is None or not Path(file).resolve().is_relative_to(root):
            pytest.exit(f"{name} comes from {file}, not from {root}", returncode=3)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _found["errors"].append(f"not collected: {_line(str(report.longrepr))}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    text = _told(report)
    if report.failed and "Timeout (>" in str(report.longrepr):
        _found["hung"].append(text)
    elif report.failed:
        _found["failed" if report.when == "call" else "errors"].append(text)
    elif report.skipped:
        _found["skipped"].append(text)
    elif report.when == "call":
        _found["passed"].append(report.nodeid)


def pytest_sessionfinish() -> None:
    if any(_found.values()):
        Path(os.environ["MUTANTS_REPORT"]).write_text(json.dumps(_found), "utf-8")


def _told(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return _line(crash.message if crash is not None else str(report.longrepr))


def _line(text: str) -> str:
    """One line of it."""
    return " ".join(text.split())[:TEXT_MAX]

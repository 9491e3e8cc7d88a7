"""Says at the beginning of a run of tests which core they are of."""

from topology.core import CORE, REASON


def pytest_report_header() -> str:
    return f"Kedge's core: {CORE}{f', as {REASON}' if REASON else ''}"

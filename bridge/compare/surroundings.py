"""On what a comparison was made: the machine, and the versions of what matters. Reads, and starts nothing."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import psutil  # type: ignore[import-untyped]  # it has no stubs

from topology.version import version as kedge_version

PACKAGES: Final = ("pyspark", "pyarrow", "msgspec", "pyzmq", "apsw")
CPUINFO: Final = Path("/proc/cpuinfo")


def machine() -> dict[str, Any]:
    """Its system, processor, cores that this process may use, and megabytes of memory. No name of its own."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": cores,
        "memory_mb": round(psutil.virtual_memory().total / 1e6),
    }


def versions() -> dict[str, str]:
    """Of Kedge, Python, and of packages that are there."""
    found = {"kedge": kedge_version(), "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())

"""The conditions of a comparison: the machine and the versions of its software. Runs `java -version`, else only
reads."""

import os
import platform
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import psutil  # type: ignore[import-untyped]  # it has no stubs

from bridge.spark.java import pips
from topology.core import CORE
from topology.version import version as kedge_version

ASKED_S: Final = 10.0  # seconds that Java may take to print its version
PACKAGES: Final = ("pyspark", "pyarrow", "msgspec", "pyzmq", "apsw")
CPUINFO: Final = Path("/proc/cpuinfo")


def machine() -> dict[str, Any]:
    """Return the system, the processor, the cores that this process may use, megabytes of memory, and the load before.

    It contains no name of the machine.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": cores,
        "memory_mb": round(psutil.virtual_memory().total / 1e6),
        "load_before": round(os.getloadavg()[0], 2),
    }


def versions() -> dict[str, str]:
    """Return the versions of Kedge, of Python, of installed packages, and of Java if Spark is installed; and `core`:
    "compiled" or "python"."""
    found = {"kedge": kedge_version(), "core": CORE.lower(), "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    if "pyspark" in found and (java := _java()):
        found["java"] = java
    return found


def _java() -> str:
    """Return the version of the machine's own Java, or of the one that pip installed; empty if neither prints one."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java") or pips()
    if java is None:
        return ""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=ASKED_S, check=False).stderr
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return ""
    named = re.search(r'version "([^"]+)"', said)
    return named[1] if named else ""


def _processor() -> str:
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())

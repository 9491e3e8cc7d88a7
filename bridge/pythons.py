"""The Python that Spark starts its own processes with: the driver's, by way of a command that leaves something out.

Spark has them import pyspark from a zip, which comes before all else on their path. There is no bytecode in it, so each
of five processes that a first batch needs compiled all of it anew, one after the other: a second of CPU time each. The
command takes the zips off the path, and pyspark comes from where the driver has it. Knows no Spark.
"""

import os
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

WRAPPER: Final = """\
#!/bin/sh
set -f
path= IFS=:
for one in $PYTHONPATH; do
    case $one in {zips}) ;; *) path=$path${{path:+:}}$one ;; esac
done
unset IFS
PYTHONPATH=$path exec {python} "$@"
"""
ZIPS: Final = {"pyspark": "*/pyspark.zip", "py4j": "*/py4j-*-src.zip"}  # by what is in them, as Spark calls them
RUNS_S: Final = 30.0  # a Python that does nothing may take this long


def python(folder: Path) -> str:
    """What PYSPARK_PYTHON has to be: a command in `folder`, or this Python itself, where that would not do."""
    zips = [pattern for name, pattern in ZIPS.items() if _is_on_disk(name)]
    wrapper = folder / "python" / "python"
    quoted = shlex.quote(str(wrapper)) != str(wrapper)  # Spark asks a shell for it, as it is
    if not zips or not sys.executable or quoted:
        return sys.executable
    try:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        wrapper.write_text(WRAPPER.format(zips=" | ".join(zips), python=shlex.quote(sys.executable)))
        wrapper.chmod(0o700)
        ran = subprocess.run([str(wrapper), "-I", "-S", "-c", ""], capture_output=True, timeout=RUNS_S, check=False)
    except (OSError, subprocess.TimeoutExpired):  # a disk that nothing is run from, say
        return sys.executable
    return str(wrapper) if not ran.returncode else sys.executable


def _is_on_disk(name: str) -> bool:
    """Whether this Python has the package elsewhere than in a zip."""
    found = find_spec(name)
    return found is not None and found.origin is not None and os.path.isfile(found.origin)

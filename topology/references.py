"""Where secrets come from: `env:NAME` and `file:PATH`, in place of the text itself (S12).

Reads the environment and files; must not know options, topologies or sinks. Only the reference is in an argv, in a
message to a worker or in an error; each process looks it up for itself, when it needs it.
"""

import os
import re
import stat
from pathlib import Path
from typing import Final

from topology.codes.given import K350
from topology.errors import ConfigurationError
from topology.secret import Secret
from topology.text import printable

ENV: Final = "env:"
FILE: Final = "file:"
BYTES_MAX: Final = 64 * 1024  # of a file with a secret; a longer one is some other file

_PASSWORD: Final = re.compile(r"://[^/\s:@]*:[^/@]+@|(^|[?&\s])\w*password\s*=\s*\S", re.IGNORECASE)

_NAMES: Final = re.compile(  # as Spark has it, and Hadoop's keys of stores in clouds
    r"secret|passw|token|credential|access\.?key|(account|private|encryption)\.key\b", re.IGNORECASE
)


def names_secret(key: str) -> bool:
    """Whether a setting of another program's is a secret, by its name."""
    return _NAMES.search(key) is not None


def is_reference(text: str) -> bool:
    """Whether the text says where a secret is, and is none itself."""
    return text.startswith((ENV, FILE))


def is_absent(text: str) -> bool:
    """Whether the text is a reference to a variable or a file that is not there."""
    if text.startswith(ENV):
        return text.removeprefix(ENV) not in os.environ
    path = text.removeprefix(FILE)
    return text.startswith(FILE) and "\0" not in path and bool(path) and not os.path.lexists(path)


def holds_password(text: str) -> bool:
    """Whether the text is a connection string with a password in it."""
    return _PASSWORD.search(text) is not None


def resolved(text: "str | Secret", what: str) -> Secret:
    """The secret that a reference names; of another text, or a Secret, that itself.

    `file:` gives the file's content without one line end at its end: a regular file of UTF-8, up to 64 KiB; links are
    followed, as secrets of an orchestrator are links. Blocks while it reads. `what` names who asked in errors,
    "--set password=…". Raises ConfigurationError, which names variable or path and never shows a value.
    """
    if isinstance(text, Secret):
        return text
    if text.startswith(ENV):
        return _from_environment(text.removeprefix(ENV), what)
    if text.startswith(FILE):
        return _from_file(text.removeprefix(FILE), what)
    return Secret(text)


def _from_environment(name: str, what: str) -> Secret:
    if not name or "\0" in name or "=" in name:
        raise _refused(what, "env: is followed by the name of a variable")
    if name not in os.environ:
        raise _refused(what, f"there is no variable {printable(name)} in the environment")
    return _made(os.environ[name], f"the variable {printable(name)}", what)


def _from_file(path: str, what: str) -> Secret:
    if not path or "\0" in path:
        raise _refused(what, "file: is followed by a path")
    shown = f"the file {printable(str(Path(path).absolute()))}"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # opening a FIFO would wait
        try:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            content = _read(descriptor) if regular else b""
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _refused(what, f"{shown} can't be read: {error.strerror or error}") from error
    if not regular:
        raise _refused(what, f"{shown} is no regular file")
    if len(content) > BYTES_MAX:
        raise _refused(what, f"{shown} is longer than {BYTES_MAX:,} bytes")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise _refused(what, f"{shown} is not UTF-8") from None  # the error's own words have the bytes
    return _made(text.removesuffix("\n").removesuffix("\r"), shown, what)


def _read(descriptor: int) -> bytes:
    """What is there, or one byte more than there may be."""
    content = b""
    while len(content) <= BYTES_MAX and (more := os.read(descriptor, BYTES_MAX + 1 - len(content))):
        content += more
    return content


def _made(text: str, where: str, what: str) -> Secret:
    if not text:
        raise _refused(what, f"{where} is empty")
    return Secret(text)


def _refused(what: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"{what}: {why}", code=K350)

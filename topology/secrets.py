"""`Secret`: a text that is never shown by accident, such as a password, a token or a connection string (S12).

Pure. Must not know where a secret comes from. `Secret` is not a subclass of str: code that joins, formats or encodes
texts would accept a str.
"""

import hmac
import os
import re
import stat
from pathlib import Path
from typing import Any, Final, NoReturn

from topology.codes.settings import UNREADABLE_SECRET
from topology.errors import ConfigurationError
from topology.text import printable

SHOWN: Final = "Secret(…)"  # the only form that is ever shown


class Secret:
    """A text that hides itself: repr, str, format and f-strings give `Secret(…)`, and its length is not shown.

        def topology(password: Secret) -> Topology: ...

        connect(user, password.reveal())

    `reveal()` returns the text, at the one place that needs it. Two secrets are equal if their texts are. The
    comparison takes a time that does not reveal how much they have in common. A Secret and a str are never equal. A
    Secret is true if it is not empty. It can be copied, as a component's prototype is. It cannot be pickled, iterated
    or encoded (TypeError): a component takes it in its constructor, and no record has a field for it.

    A parameter of a function that makes a topology, annotated with Secret, takes `--set password=env:NAME` and `--set
    password=file:PATH`.
    """

    __slots__ = ("_text",)
    _text: str

    def __init__(self, text: "str | Secret") -> None:
        """Make a secret of a text. Raises TypeError for another type, without showing its value."""
        if isinstance(text, Secret):
            text = text._text
        if not isinstance(text, str):
            raise TypeError(f"a Secret is made from a str, not from a {type(text).__name__}")
        object.__setattr__(self, "_text", text)

    def reveal(self) -> str:
        """Return the text itself. Keep it out of logs, errors and records."""
        return self._text

    def __repr__(self) -> str:
        return SHOWN

    def __format__(self, spec: str) -> str:
        return SHOWN

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(_bytes(self._text), _bytes(other._text))

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __bool__(self) -> bool:
        return bool(self._text)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError("a Secret does not change")

    def __copy__(self) -> "Secret":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Secret":
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Secret can't be pickled: its text would be readable in the pickle")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # a variable of the environment may have bytes that are not UTF-8


ENV: Final = "env:"
FILE: Final = "file:"
BYTES_MAX: Final = 64 * 1024  # of a file with a secret; a longer file is not a secret

_PASSWORD: Final = re.compile(r"://[^/\s:@]*:[^/@]+@|(^|[?&\s])\w*password\s*=\s*\S", re.IGNORECASE)

_NAMES: Final = re.compile(  # Spark's own pattern, and Hadoop's keys of cloud stores
    r"secret|passw|token|credential|access\.?key|(account|private|encryption)\.key\b", re.IGNORECASE
)


def names_secret(key: str) -> bool:
    """Return True if a setting of another program is a secret, judged by its name."""
    return _NAMES.search(key) is not None


def is_reference(text: str) -> bool:
    """Return True if the text is a reference to a secret, and not a secret itself."""
    return text.startswith((ENV, FILE))


def is_absent(text: str) -> bool:
    """Return True if the text is a reference to a variable or a file that does not exist."""
    if text.startswith(ENV):
        return text.removeprefix(ENV) not in os.environ
    path = text.removeprefix(FILE)
    return text.startswith(FILE) and "\0" not in path and bool(path) and not os.path.lexists(path)


def holds_password(text: str) -> bool:
    """Return True if the text is a connection string with a password in it."""
    return _PASSWORD.search(text) is not None


def resolved(text: "str | Secret", what: str) -> Secret:
    """Return the secret that a reference names. Another text, or a Secret, is returned as a Secret.

    `file:` reads the file without one line end at its end. It must be a regular file of UTF-8, up to 64 KiB. Links are
    followed, because secrets of an orchestrator are links. Blocks while it reads. `what` names the setting in errors,
    for example "--set password=…". Raises ConfigurationError, which names the variable or path and never shows a value.
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
        raise _refused(what, f"{shown} is not UTF-8") from None  # the error's own text contains the bytes
    return _made(text.removesuffix("\n").removesuffix("\r"), shown, what)


def _read(descriptor: int) -> bytes:
    """Return the content, or one byte more than the limit."""
    content = b""
    while len(content) <= BYTES_MAX and (more := os.read(descriptor, BYTES_MAX + 1 - len(content))):
        content += more
    return content


def _made(text: str, where: str, what: str) -> Secret:
    if not text:
        raise _refused(what, f"{where} is empty")
    return Secret(text)


def _refused(what: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"{what}: {why}", code=UNREADABLE_SECRET)

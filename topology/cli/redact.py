"""Secrets typed in plain text on the command line: warned about once, and never repeated in Kedge's output (S12).

Knows words of a command line and the terminal; must not know topologies, nor how to recognise a secret.
"""

from collections.abc import Iterable, Sequence

from topology.cli.output import terminal
from topology.codes.settings import SECRET_ON_COMMAND_LINE
from topology.text import printable

_keys: set[str] = set()  # keys of --set and similar options whose values must not be printed


def warn_of(keys: Iterable[str], option: str = "--set") -> None:
    """Warn for each key that other users can read its value, and remember the key for `blind`."""
    for key in keys:
        _keys.add(key)
        text = f"warning: {option} {printable(key)}=… is a secret that all users of this machine can read"
        terminal.say(
            f"{text}, in the list of processes; {SECRET_ON_COMMAND_LINE.next} ({SECRET_ON_COMMAND_LINE})",
            level="warning",
        )


def blind(words: Sequence[str]) -> list[str]:
    """Return the words of a command line without the values of secrets, and otherwise unchanged."""
    return [_blind(word) for word in words]


def hide(keys: Iterable[str]) -> None:
    """Remember these keys for `blind`, without a warning: their values were not typed."""
    _keys.update(keys)


def _blind(word: str) -> str:
    option, equals, pair = word.partition("=") if word.startswith("--") else ("", "", word)
    key = pair.partition("=")[0]
    return f"{option}{equals}{key}=…" if key in _keys and "=" in pair else word

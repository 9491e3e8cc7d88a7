"""Secrets that were typed into the command line as they are: said once, and never repeated by what we print (S12).

Knows words of a command line and the voice; must not know topologies or how a secret is told from another value.
"""

from collections.abc import Iterable, Sequence

from topology.cli.output import terminal
from topology.codes.settings import SECRET_ON_COMMAND_LINE
from topology.text import printable

_keys: set[str] = set()  # of this command's --set and the like: those whose values nobody is to read again


def warn_of(keys: Iterable[str], option: str = "--set") -> None:
    """Tells of each key that its value can be read by others, and remembers it for `blind`."""
    for key in keys:
        _keys.add(key)
        text = f"warning: {option} {printable(key)}=… is a secret that all users of this machine can read"
        terminal.say(
            f"{text}, in the list of processes; {SECRET_ON_COMMAND_LINE.next} ({SECRET_ON_COMMAND_LINE})",
            level="warning",
        )


def blind(words: Sequence[str]) -> list[str]:
    """The words of a command line without the values of secrets; each as it was otherwise."""
    return [_blind(word) for word in words]


def hide(keys: Iterable[str]) -> None:
    """Remembers these for `blind`: they were not typed, and so are not told."""
    _keys.update(keys)


def _blind(word: str) -> str:
    option, equals, pair = word.partition("=") if word.startswith("--") else ("", "", word)
    key = pair.partition("=")[0]
    return f"{option}{equals}{key}=…" if key in _keys and "=" in pair else word

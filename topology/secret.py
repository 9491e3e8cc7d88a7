"""`Secret`: a text that is never shown by accident: a password, a token, a connection string (S12).

Pure. Must not know where a secret comes from: that is `references`. A class of its own, and no kind of str: whatever
joins, formats or encodes texts would take one that is a str.
"""

import hmac
from typing import Any, Final, NoReturn

SHOWN: Final = "Secret(…)"  # all that anybody sees of one


class Secret:
    """A text that shows nothing of itself: repr, str, format and f-strings give `Secret(…)`, its length is not told.

    `reveal()` gives the text, at the one place that needs it. Two are equal where their texts are, in a time that tells
    nothing of how much they have in common; a Secret and a str are never equal. It is true where it is not empty. It
    can be copied, as a component's prototype is, and not be pickled, iterated or encoded (TypeError): a component takes
    it in its constructor, and no record has a field for it.

    A parameter of a function that makes a topology, annotated with Secret, takes `--set password=env:NAME` and
    `--set password=file:PATH`.
    """

    __slots__ = ("_text",)
    _text: str

    def __init__(self, text: "str | Secret") -> None:
        """Raises TypeError for what is no text, without showing it."""
        if isinstance(text, Secret):
            text = text._text
        if not isinstance(text, str):
            raise TypeError(f"a Secret is made from a str, not from a {type(text).__name__}")
        object.__setattr__(self, "_text", text)

    def reveal(self) -> str:
        """The text itself. What it is put into shows it: keep that out of logs, errors and records."""
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
        raise TypeError("a Secret can't be pickled: its text would be readable in whatever that is written to")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # a variable of the environment may have bytes that are no UTF-8

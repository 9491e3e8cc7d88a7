"""Text that data may have a say in, made safe for people (S11): in one line, with nothing in it that a terminal obeys.

Pure: knows characters, and no stream that they are written to.
"""

from typing import Final

LINE_MAX: Final = 2_000  # characters of one line that are shown


def escaped(text: str) -> str:
    """Line ends, escapes, direction marks and lone surrogates as their `\\x..` forms; the rest as it is."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def printable(text: str) -> str:
    """The text in one line that a terminal takes as text: escaped, and cut after LINE_MAX characters, which it says."""
    cut = len(text) - LINE_MAX
    return f"{escaped(text[:LINE_MAX])}… ({cut} more characters)" if cut > 0 else escaped(text)

"""The width of text, computed from its characters alone, and the breaking of long lines.

Pure. Terminals give wide characters (CJK, emoji) two columns and combining marks none. Only properties that all
monospaced fonts share are assumed, so the measured width is hardly ever less than the one that a browser draws.
"""

import re
import unicodedata
from typing import Final

LATIN_EM: Final = 0.62  # of a monospaced font's size: DejaVu Sans Mono has 0.602, the others less
OTHER_EM: Final = 1.0  # CJK, and characters that may need a fallback font
EMOJI_EM: Final = 1.3
EMOJI_START: Final = "\U0001f000"
SIMPLE_END: Final = "\u0530"  # below it: Latin, Greek, Cyrillic, and their combining marks


def columns(text: str) -> int:
    """Return the columns of a terminal that the text takes."""
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def ems(text: str) -> float:
    """Return the width of the text in a monospaced font, relative to its size; rather over- than underestimated."""
    return sum(_em(character) for character in text)


def _em(character: str) -> float:
    if character < SIMPLE_END or character in "→×…·":
        return LATIN_EM * _columns(character)
    return EMOJI_EM if character >= EMOJI_START else OTHER_EM


def cut(text: str, most: int) -> str:
    """Return the text in at most `most` columns; a shortened text ends in "…"."""
    if columns(text) <= most:
        return text
    kept = ""
    for character in text:
        if columns(kept + character) > most - 1:
            break
        kept += character
    return f"{kept}…"


def wrapped(text: str, most: int) -> list[str]:
    """Return the text in lines of at most `most` columns, broken behind spaces, dashes and underscores, or before a
    capital. A line without any of these is broken anywhere."""
    lines = [""]
    for part in re.findall(r".*?(?:[ _-]+|(?<=[a-z0-9])(?=[A-Z])|$)", text):
        if lines[-1] and columns(lines[-1] + part.rstrip()) > most:
            lines.append("")
        for character in part:
            if columns(lines[-1] + character.strip()) > most:
                lines.append("")
            lines[-1] += character
    return [line.strip() for line in lines if line.strip()] or [""]

"""Times in the form that users type: 8s, 2m, 1h, 500ms, or plain seconds. Pure; knows no options."""

import re
from typing import ClassVar, Final, Self

_GIVEN: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)(ms|s|m|h)")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Duration(float):
    """Seconds, parsed from text with or without a unit. Raises ValueError for other text. Does not check limits."""

    in_words: ClassVar = "a time, 8s, 2m, 1h, 500ms or a number of seconds"

    def __new__(cls, given: str | float) -> Self:
        found = _GIVEN.fullmatch(given) if isinstance(given, str) else None
        return super().__new__(cls, float(found[1]) * _UNITS[found[2]] if found is not None else given)

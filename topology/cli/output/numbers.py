"""Numbers for people: short, of steady width, and one format per kind.

Pure. Knows neither runs nor terminals.
"""

from typing import Final

NONE: Final = "–"  # shown if there is no number


def short(number: float) -> str:
    """Return a count in at most five characters: 9,999, 12.3k, 123k, 1.23M."""
    if number < 9_999.5:
        return f"{number:,.0f}"
    for unit in "kMG":
        number /= 1000
        if number < 999.5:
            return f"{number:.1f}{unit}" if number < 99.95 else f"{number:.0f}{unit}"
    return f"{number / 1000:,.0f}T"


def rate(a_second: float | None) -> str:
    """Return a rate per second, with tenths below 10."""
    if a_second is None:
        return NONE
    return f"{a_second:.1f}" if 0.05 <= a_second < 9.95 else short(a_second)


def percent(share: float | None) -> str:
    """Return a share from 0 to 1 as a percentage, in at most five characters."""
    return NONE if share is None else f"{min(max(share, 0.0), 9.99) * 100:.0f} %"


def duration(seconds: float | None) -> str:
    """Return a time with its unit, with two digits, in at most six characters."""
    if seconds is None:
        return NONE
    for unit, size, most in (("µs", 1e-6, 99.5e-6), ("ms", 1e-3, 0.9995), ("s", 1.0, 999.5)):
        if seconds < most:
            number = seconds / size
            digits = 0 if number >= 9.95 or not number else 1 if number >= 0.95 else 2
            return f"{number:.{digits}f} {unit}"
    return f"{seconds / 60:.0f} m" if seconds < 59_970 else f"{seconds / 3600:.0f} h"


def size(count: float) -> str:
    """Return a number of bytes with its unit, in at most seven characters: 512 B, 12.3 kB, 1.2 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.1f} {unit}" if count < 99.95 and unit != "B" else f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:,.0f} TB"


def age(seconds: float) -> str:
    """Return how long ago something was, with tenths below a minute, so that it stays in one unit."""
    return f"{seconds:.1f} s" if seconds < 59.95 else duration(seconds)


def clock(seconds: float) -> str:
    """Return the age of a run: h:mm:ss, with days if there are any."""
    whole = round(seconds)  # a frame that is due after a second may come a little early
    days, rest = divmod(whole, 86_400)
    return f"{days} d " * bool(days) + f"{rest // 3600}:{rest // 60 % 60:02}:{rest % 60:02}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return "1 worker" or "2,000 workers". `many`: the plural, if it is not made with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"

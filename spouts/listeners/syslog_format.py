"""One syslog message: RFC 5424, RFC 3164, or anything like them.

Pure. No message is refused: `text` has all that is not understood. Must not know how a message came.
"""

import re
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, TypeAlias

from spouts.syslog import HALF_A_YEAR, syslog_time
from topology.errors import Reject
from topology.records import Record

Structured: TypeAlias = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]

PRIORITY: Final = re.compile(r"<([0-9]{1,3})>")
PRIORITY_MAX: Final = 191
DEFAULT: Final = 13  # user.notice: the priority of a message without one (RFC 3164, 4.3.3)
ENDS: Final = b"\r\n\0"  # what senders put behind a message

# VERSION TIMESTAMP HOST APP PID MESSAGE-ID, and the rest
MODERN: Final = re.compile(
    r"[1-9][0-9]{0,2} (-|[0-9]{4}-[0-9]{2}-[0-9]{2}T\S+) (\S{1,255}) (\S{1,255}) (\S{1,255}) (\S{1,255})(?: |\Z)"
)
ELEMENT: Final = re.compile(r'\[([^\s=\]"]{1,64})((?: [^\s=\]"]{1,64}="(?:[^"\\\]]|\\.)*")*) ?\]', re.DOTALL)
PAIR: Final = re.compile(r' ([^\s=\]"]{1,64})="((?:[^"\\\]]|\\.)*)"', re.DOTALL)
ESCAPED: Final = re.compile(r'\\(["\\\]])')

CLASSIC: Final = re.compile(
    r"([A-Z][a-z]{2}) {1,2}([0-9]{1,2}) (?:([0-9]{4}) )?([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]{1,9})?:? ", re.ASCII
)
ISO: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.,]{5,18}(?:Z|[+-][0-9]{2}:?[0-9]{2})?) ", re.ASCII)
TAG: Final = re.compile(r"([^\s:\[\]]{1,128})(?:\[([^\s\]]{0,128})\](?::|(?= ))|:)(?: |\Z)?")
HOST: Final = re.compile(r"([^\s\[\]]{1,255}) ")


class SyslogMessage(Record):
    """One message of syslog. A part that the message does not have is empty.

    facility, severity  Numbers of RFC 5424: facility 4 is auth, severity 0 is the worst. Without a priority in the
                message, they are 1 and 5: user.notice.
    at          The message's own time, in UTC; None if it has none.
    structured  Structured data: (id, ((name, value), …)) for each element.
    text        The message. If its header is not understood, all that came.
    raw         None if the message was valid UTF-8. Otherwise its bytes; `text` then has replacement characters
                (U+FFFD) for the invalid ones.
    peer        The host that the message came from, which may be a relay.
    """

    facility: int
    severity: int
    at: datetime | None
    host: str
    app: str
    pid: str
    message_id: str
    structured: Structured
    text: str
    raw: bytes | None = None
    peer: str = ""


def syslog_message(data: bytes, arrived: datetime, zone: tzinfo = UTC, peer: str = "") -> SyslogMessage:
    """Return the message with these bytes. Does not raise.

    arrived  When it came. A time without a year is in the year that puts it nearest to this.
    zone     The zone of a time that has none.
    """
    content = data.rstrip(ENDS)
    try:
        whole, raw = content.decode(), None
    except UnicodeDecodeError:
        whole, raw = content.decode(errors="replace"), data
    priority, body = DEFAULT, whole
    if (found := PRIORITY.match(whole)) and int(found[1]) <= PRIORITY_MAX:
        priority, body = int(found[1]), whole[found.end() :]
    facility, severity = divmod(priority, 8)
    parts: Any = _modern(body, zone) or _classic(body, arrived, zone)
    if parts is None:
        parts = None, "", "", "", "", (), body
    at, host, app, pid, message_id, structured, text = parts
    return SyslogMessage(facility, severity, at, host, app, pid, message_id, structured, text, raw, peer)


def _modern(body: str, zone: tzinfo) -> tuple[Any, ...] | None:
    """Return the parts of a message of RFC 5424, without its priority; None if it is none."""
    header = MODERN.match(body)
    if header is None:
        return None
    at = None
    if header[1] != "-" and (at := _iso(header[1], zone)) is None:
        return None
    host, app, pid, message_id = ("" if part == "-" else part for part in header.groups()[1:])
    structured, text = _structured(body[header.end() :])
    return at, host, app, pid, message_id, structured, text.removeprefix("\ufeff")


def _structured(rest: str) -> tuple[Structured, str]:
    """Return the structured data that a text begins with, and the text behind it. Without any, or with invalid data,
    all of the text."""
    if rest == "-" or rest.startswith("- "):
        return (), rest[2:]
    at, found = 0, []
    while element := ELEMENT.match(rest, at):
        pairs = tuple((name, ESCAPED.sub(r"\1", value)) for name, value in PAIR.findall(element[2]))
        found.append((element[1], pairs))
        at = element.end()
    if at < len(rest) and rest[at] != " ":
        return (), rest
    return tuple(found), rest[at + 1 :] if found else rest


def _classic(body: str, arrived: datetime, zone: tzinfo) -> tuple[Any, ...] | None:
    """Return the parts of a message of RFC 3164, without its priority; None if it does not begin with a time."""
    at = None
    if found := CLASSIC.match(body):
        at = _classic_time(found, arrived, zone)
    elif found := ISO.match(body):
        at = _iso(found[1].replace(",", "."), zone)
    if found is None or at is None:
        return None
    rest, host = body[found.end() :], ""
    if (first := HOST.match(rest)) and not first[1].endswith(":"):
        host, rest = first[1], rest[first.end() :]
    app = pid = ""
    if tag := TAG.match(rest):
        app, pid, rest = tag[1], tag[2] or "", rest[tag.end() :]
    return at, host, app, pid, "", (), rest


def _iso(text: str, zone: tzinfo) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo is not None else at.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _classic_time(found: re.Match[str], arrived: datetime, zone: tzinfo) -> datetime | None:
    month, day, year, clock, fraction = found.groups()
    try:
        if year is None:
            # the year is that of the sender's own clock, which shows its zone's time
            local = arrived.astimezone(zone).replace(tzinfo=UTC)
            at = syslog_time(f"{month} {int(day):2d} {clock}", local + HALF_A_YEAR)
        else:
            at = datetime.strptime(f"{year} {month} {int(day):02d} {clock}", "%Y %b %d %H:%M:%S").replace(tzinfo=UTC)
        if fraction:
            at = at.replace(microsecond=int(fraction[1:7].ljust(6, "0")))
        return at.replace(tzinfo=zone).astimezone(UTC)
    except (Reject, ValueError, OverflowError):
        return None

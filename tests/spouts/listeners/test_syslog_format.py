"""One syslog message: the examples of RFC 5424 and RFC 3164, what devices really send, and anything else."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spouts.listeners.syslog_format import SyslogMessage, syslog_message
from topology.records import decoder, encode

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LOGHUB = Path(__file__).parents[4] / "shared/data/loghub"


def parsed(data: bytes, **options: Any) -> SyslogMessage:
    return syslog_message(data, NOW, **options)


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


def test_the_first_example_of_rfc_5424_has_no_structured_data_and_a_byte_order_mark() -> None:
    data = (
        b"<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - "
        b"\xef\xbb\xbf'su root' failed for lonvick on /dev/pts/8"
    )
    text = "'su root' failed for lonvick on /dev/pts/8"
    assert parsed(data) == SyslogMessage(
        4, 2, at(2003, 10, 11, 22, 14, 15, 3000), "mymachine.example.com", "su", "", "ID47", (), text
    )


def test_the_second_example_of_rfc_5424_has_another_zone() -> None:
    found = parsed(
        b"<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% It's time to make the do-nuts."
    )
    assert (found.facility, found.severity, found.at) == (20, 5, at(2003, 8, 24, 12, 14, 15, 3))
    assert (found.host, found.app, found.pid, found.message_id) == ("192.0.2.1", "myproc", "8710", "")
    assert found.text == "%% It's time to make the do-nuts."


def test_structured_data_has_its_elements_in_order_and_escapes_are_undone() -> None:
    data = (
        b"<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog - ID47 "
        b'[exampleSDID@32473 iut="3" iut="4" eventSource="App\\"li\\]c\\\\a\\tion"]'
        b'[examplePriority@32473][x y="z"] text'
    )
    found = parsed(data)
    assert found.structured == (
        ("exampleSDID@32473", (("iut", "3"), ("iut", "4"), ("eventSource", 'App"li]c\\a\\tion'))),
        ("examplePriority@32473", ()),
        ("x", (("y", "z"),)),
    )
    assert found.text == "text"


@pytest.mark.parametrize(
    ("rest", "text"),
    [
        (b'[x y="z"]', ""),
        (b"-", ""),
        (b"- ", ""),
        (b"", ""),
        (b"- - x", "- x"),
        (b"no structured data at all", "no structured data at all"),
        (b"[not structured] data", "[not structured] data"),
        (b'[x y="never ended', '[x y="never ended'),
        (b'[x y="z"]without a space', '[x y="z"]without a space'),
    ],
)
def test_invalid_structured_data_stays_in_the_text(rest: bytes, text: str) -> None:
    found = parsed(b"<165>1 2003-10-11T22:14:15Z host app 1 ID " + rest)
    assert (found.host, found.app, found.text) == ("host", "app", text)


def test_nil_values_are_empty() -> None:
    assert parsed(b"<14>1 - - - - - -") == SyslogMessage(1, 6, None, "", "", "", "", (), "")


def test_the_examples_of_rfc_3164() -> None:
    found = parsed(b"<34>Oct 11 22:14:15 mymachine su: 'su root' failed for lonvick on /dev/pts/8")
    text = "'su root' failed for lonvick on /dev/pts/8"
    assert found == SyslogMessage(4, 2, at(2025, 10, 11, 22, 14, 15), "mymachine", "su", "", "", (), text)
    assert parsed(b"Use the BFG!") == SyslogMessage(1, 5, None, "", "", "", "", (), "Use the BFG!")
    found = parsed(b"<13>Feb  5 17:32:18 10.0.0.99 Use the BFG!")
    assert (found.host, found.app, found.text) == ("10.0.0.99", "", "Use the BFG!")


@pytest.mark.parametrize(
    ("body", "host", "app", "pid", "text"),
    [
        ("LabSZ sshd[24200]: Invalid user", "LabSZ", "sshd", "24200", "Invalid user"),
        ("combo sshd(pam_unix)[19939]: failure; x: y", "combo", "sshd(pam_unix)", "19939", "failure; x: y"),
        ("h postfix/smtpd[1]: connect", "h", "postfix/smtpd", "1", "connect"),
        ("h app[12] text", "h", "app", "12", "text"),
        ("h kernel: [ 1.2] x", "h", "kernel", "", "[ 1.2] x"),
        ("h last message repeated 2 times", "h", "", "", "last message repeated 2 times"),
        ("tag: no host", "", "tag", "", "no host"),
        ("tag[1]: no host", "", "tag", "1", "no host"),
        ("h tag:no space", "h", "tag", "", "no space"),
        ("h tag:", "h", "tag", "", ""),
        ("word", "", "", "", "word"),
        ("", "", "", "", ""),
    ],
)
def test_host_tag_and_pid_of_classic_messages(body: str, host: str, app: str, pid: str, text: str) -> None:
    found = parsed(f"<13>Dec 10 06:55:46 {body}".encode())
    assert (found.host, found.app, found.pid, found.text) == (host, app, pid, text)
    assert found.at == at(2025, 12, 10, 6, 55, 46)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("Dec 31 23:59:59", at(2025, 12, 31, 23, 59, 59)),
        ("Jan  2 03:04:05", at(2026, 1, 2, 3, 4, 5)),
        ("Jan 3 00:00:00", at(2026, 1, 3)),  # a clock that is ahead, and a day of one digit
        ("Jul 30 00:00:00", at(2025, 7, 30)),
        ("Feb 29 12:00:00", at(2024, 2, 29, 12)),
        ("Dec 10 06:55:46.123", at(2025, 12, 10, 6, 55, 46, 123_000)),
        ("Dec 10 2019 06:55:46", at(2019, 12, 10, 6, 55, 46)),
        ("Dec 10 06:55:46:", at(2025, 12, 10, 6, 55, 46)),
        ("2024-02-29T12:00:00.5+01:00", at(2024, 2, 29, 11, 0, 0, 500_000)),
        ("2024-02-29T12:00:00", at(2024, 2, 29, 12)),
    ],
)
def test_times_of_classic_messages_are_in_the_nearest_year(time: str, expected: datetime) -> None:
    found = parsed(f"<13>{time} host app: text".encode())
    assert (found.at, found.host, found.app, found.text) == (expected, "host", "app", "text")


def test_a_time_without_a_zone_is_in_the_zone_that_is_set() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert parsed(b"<13>Dec 10 06:55:46 h a: t", zone=berlin).at == at(2025, 12, 10, 5, 55, 46)
    assert parsed(b"<13>Jul 10 06:55:46 h a: t", zone=berlin).at == at(2025, 7, 10, 4, 55, 46)
    assert parsed(b"<13>1 2003-10-11T22:14:15+00:00 h a - - - t", zone=berlin).at == at(2003, 10, 11, 22, 14, 15)
    new_year = syslog_message(b"<13>Jan  1 00:30:00 h a: t", at(2025, 12, 31, 23, 30, 1), berlin)
    assert new_year.at == at(2025, 12, 31, 23, 30)


@pytest.mark.parametrize(
    "text",
    [
        "<999>out of range",
        "<13 no end",
        "<>empty",
        "",
        "no priority",
        "2024 was a good year",
        "<13>",
        "<13>Dec 32 00:00:00 h a: t",
        "<13>Xyz 10 06:55:46 h a: t",
        "<13>Dec 10 00:00:60 h a: a leap second",
        "<13>Dec 10 25:00:00 h a: t",
        "<13>1 yesterday h a - - - t",
        "<13>1 2003-13-11T22:14:15Z h a - - - t",
        "<13>*Mar  1 18:46:11.123: %SYS-5-CONFIG_I: Configured",
        '{"json": true}',
    ],
)
def test_what_no_parser_understands_is_all_in_the_text(text: str) -> None:
    found = parsed(text.encode())
    body = text.removeprefix("<13>")
    assert (found.text, found.at, found.host, found.app, found.structured) == (body, None, "", "", ())


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\0", b"\n\0"])
def test_ends_that_senders_add_are_no_part_of_the_text(end: bytes) -> None:
    assert parsed(b"<14>message" + end).text == "message"


def test_invalid_utf8_keeps_all_bytes_and_is_still_parsed() -> None:
    data = b"<13>Dec 10 06:55:46 h app: caf\xe9\0"
    found = parsed(data)
    assert (found.app, found.text, found.raw) == ("app", "caf�", data)


def test_the_peer_is_a_part_of_the_record() -> None:
    assert parsed(b"x", peer="10.0.0.1").peer == "10.0.0.1"


@given(
    st.binary(max_size=200)
    | st.from_regex(rb"<[0-9]{1,3}>1 (-|2003-10-11T22:14:15Z) [a-]+ [a-]+ [a-]+ [a-]+ (\[x( y=\"[^\"]*\")*\])*.*")
    | st.from_regex(rb"<[0-9]{1,3}>[A-Z][a-z]{2} [ 0-9]{2} [0-9:]{8} [a-z\[\]: ]*")
)
def test_anything_becomes_a_record_that_can_be_stored(data: bytes) -> None:
    found = parsed(data)
    assert decoder(SyslogMessage)(encode(found)) == found
    assert found.raw in (None, data)
    assert 0 <= found.facility < 24
    assert 0 <= found.severity < 8


@pytest.mark.timeout(20)
def test_a_long_message_of_brackets_and_quotes_takes_no_long_time() -> None:
    for part in (b'[x y="', b'[x y="\\', b"[x", b'[x y="z"]', b"\\", b' a="'):
        parsed(b"<13>1 - - - - - " + part * (60_000 // len(part)))


def test_real_log_lines_have_a_time_a_host_and_a_program() -> None:
    path = LOGHUB / "OpenSSH_2k.log"
    if not path.exists():
        pytest.skip(f"no {path}")
    lines = path.read_text().splitlines()
    found = [parsed(b"<38>" + line.encode()) for line in lines]
    assert len(found) == 2_000
    assert {(each.host, each.app) for each in found} == {("LabSZ", "sshd")}
    assert [f"{each.at:%b %d %H:%M:%S} {each.host} {each.app}[{each.pid}]: {each.text}" for each in found] == lines, (
        "nothing is lost of them"
    )

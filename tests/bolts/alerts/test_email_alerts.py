"""`Email` to a real SMTP server: mails, TLS, passwords, refused addresses, and a server that is away."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alert_kit import SOON_S, Incident, many, tuples
from smtp_kit import SmtpServer, certificate_in, smtp_server

from bolts.alerts.email import Email
from bolts.sinks.http.retries import Retries
from topology.clients.tls import Tls
from topology.errors import ConfigurationError, NotYet, Reject
from topology.secrets import Secret
from topology.testing.sinks.driver import RecordedAnswers, feed, give, opened, within


@pytest.fixture
def server() -> Iterator[SmtpServer]:
    with smtp_server() as one:
        yield one


def an_email(server: SmtpServer | None = None, **options: Any) -> Email:
    given = {
        "port": server.port if server is not None else 9,
        "sender": "Kedge <kedge@example.org>",
        "to": "ops@example.org",
        "subject": "{service} is {state}",
        "text": "{service} is {state} on {host}.",
        "tls": None,
        **options,
    }
    return Email(given.pop("host", "127.0.0.1"), **given)


async def sent(email: Email, *incidents: Incident) -> RecordedAnswers:
    async with opened(email) as sink:
        return await feed(sink, tuples(incidents))


# -- mails


async def test_an_alert_is_one_mail(server: SmtpServer) -> None:
    out = await sent(an_email(server, to=["ops@example.org", "Ann <ann@example.org>"]), Incident("api", "down"))
    (mail,) = server.mails
    assert mail.sender == "kedge@example.org"
    assert mail.recipients == ("ops@example.org", "ann@example.org")
    message = mail.message
    assert message["From"] == "Kedge <kedge@example.org>"
    assert message["To"] == "ops@example.org, Ann <ann@example.org>"
    assert message["Subject"] == "api is down"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["Date"] is not None
    assert mail.text == "api is down on db-1."
    assert len(out.acked) == 1


async def test_a_mail_that_is_sent_again_has_the_same_message_id(server: SmtpServer) -> None:
    server.loses = 1
    async with opened(an_email(server)) as sink:
        out = RecordedAnswers()
        await give(sink, tuples(many(1)), out)
        assert await within(SOON_S, lambda: len(out.acked) == 1)
    await sent(an_email(server), *many(2))
    ids = [mail.message["Message-ID"] for mail in server.mails]
    assert ids[0] == ids[1], "after a lost answer"
    assert ids.count(ids[0]) == 3, "and in another process"
    assert len({*ids}) == 2
    assert ids[0].endswith("@example.org>")


@pytest.mark.parametrize("state", ["down\r\nBcc: eve@evil.example", "down\nX: y", "down\x00\x1b[31m", "a\u2028b"])
async def test_no_record_adds_a_header(server: SmtpServer, state: str) -> None:
    out = await sent(an_email(server), Incident("api", state))
    assert len(out.acked) == 1
    (mail,) = server.mails
    assert mail.recipients == ("ops@example.org",)
    assert {*map(str.lower, mail.message.keys())} == {
        *("from", "to", "subject", "date", "message-id", "auto-submitted"),
        *("mime-version", "content-type", "content-transfer-encoding"),
    }
    subject = str(mail.message["Subject"])
    assert subject.isprintable()
    assert subject.startswith("api is ")


async def test_line_breaks_of_a_subject_are_spaces(server: SmtpServer) -> None:
    await sent(an_email(server), Incident("api", "down\r\n\nsince noon"))
    assert server.mails[0].message["Subject"] == "api is down since noon"


async def test_texts_of_all_languages_and_lines_of_dots_arrive_as_they_are(server: SmtpServer) -> None:
    text = "Größe über 90 %\n.\n..\nFrom here\n" + "x" * 2_000 + "\n日本語"
    await sent(an_email(server, subject="Größe {state}", text="{state}"), Incident("api", text))
    (mail,) = server.mails
    assert mail.text == text
    assert mail.raw.isascii(), "so it passes any server"
    assert max(map(len, mail.raw.split(b"\r\n"))) <= 78
    assert str(mail.message["Subject"]).startswith("Größe Größe über 90 %")
    assert len(str(mail.message["Subject"])) == 200


async def test_alerts_of_a_group_are_one_mail(server: SmtpServer) -> None:
    email = an_email(server, group_by="service", group_wait_s=30.0, subject="{service}", text="{number}")
    await sent(email, *many(30))
    (mail,) = server.mails
    assert mail.message["Subject"] == "api (and 29 more)"
    assert mail.text.split("\n\n") == [str(number) for number in range(30)]


async def test_what_exceeds_the_limit_is_in_the_next_mail(server: SmtpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from bolts.alerts import channel

    monkeypatch.setattr(channel, "MINUTE_S", 1.5)
    out = await sent(an_email(server, text="{number}", per_minute=2), *many(20))
    assert len(out.acked) == 20
    assert len(server.mails) == 3
    assert sorted(int(line) for mail in server.mails for line in mail.text.split("\n\n")) == [*range(20)]


async def test_a_text_that_no_mail_can_have_fails_its_record(server: SmtpServer) -> None:
    out = await sent(an_email(server, text=lambda incident: "\udc80"), Incident("api", "down"))
    assert "lone surrogate" in out.failed[0][1]


# -- TLS and passwords


@pytest.mark.parametrize("tls", ["starttls", "tls"])
async def test_a_mail_goes_encrypted_with_a_password(tmp_path: Path, tls: Any) -> None:
    certificate, context = await asyncio.to_thread(certificate_in, tmp_path)
    with smtp_server(context, at_once=tls == "tls", users={"kedge": "open sesame"}) as server:
        email = an_email(
            server, tls=tls, certificates=Tls(ca=certificate), user="kedge", password=Secret("open sesame")
        )
        await sent(email, Incident("api", "down"))
        (mail,) = server.mails
        assert mail.encrypted
        assert mail.user == "kedge"


async def test_a_wrong_password_is_found_at_the_start(tmp_path: Path) -> None:
    certificate, context = await asyncio.to_thread(certificate_in, tmp_path)
    with smtp_server(context, users={"kedge": "open sesame"}) as server:
        email = an_email(
            server, tls="starttls", certificates=Tls(ca=certificate), user="kedge", password=Secret("hidden")
        )
        with pytest.raises(ConfigurationError) as caught:
            await sent(email)
    text = str(caught.value)
    assert text == f"Email: smtp://127.0.0.1:{server.port} refuses this user or password: 535 no"


async def test_a_certificate_of_an_unknown_authority_is_found_at_the_start(tmp_path: Path) -> None:
    _, context = await asyncio.to_thread(certificate_in, tmp_path)
    for tls in ("starttls", "tls"):
        with smtp_server(context, at_once=tls == "tls") as server:
            with pytest.raises(ConfigurationError, match=r"Email: TLS with smtp://\S+ fails: .*certificate"):
                await sent(an_email(server, tls=tls))
            assert not server.mails


async def test_a_server_without_starttls_gets_nothing_unencrypted(server: SmtpServer) -> None:
    with pytest.raises(ConfigurationError, match=r"Email: smtp://\S+ can't be used as tls= and user= say"):
        await sent(an_email(server, tls="starttls"))
    assert not any(name in ("MAIL", "AUTH") for name, _ in server.commands)


async def test_a_server_that_is_away_at_the_start_is_waited_for() -> None:
    with smtp_server() as server:
        server.stop()
        with pytest.raises(NotYet, match=r"Email: smtp://127\.0\.0\.1:\d+ can't be used"):
            await sent(an_email(server))
        server.start()
        await sent(an_email(server), Incident("api", "down"))
        assert len(server.mails) == 1


# -- failing


async def test_mails_wait_while_the_server_is_away(server: SmtpServer) -> None:
    async with opened(an_email(server, group_by="service")) as sink:
        out = RecordedAnswers()
        with server.away():
            await give(sink, tuples(many(10)), out)
            assert await within(SOON_S, lambda: bool(sink.away))
            assert sink.away.startswith(f"its receiver is away (smtp://127.0.0.1:{server.port} can't be used")
        assert await within(SOON_S, lambda: len(out.acked) == 10)
        assert sink.away == ""
    assert not out.failed


@pytest.mark.parametrize("at", ["CONNECT", "EHLO", "MAIL", "RCPT", "DATA", "BODY"])
async def test_a_server_that_says_not_now_is_asked_again(server: SmtpServer, at: str) -> None:
    async with opened(an_email(server)) as sink:
        left = [3]

        def busy(name: str, rest: str) -> str | None:
            if name == at and left[0]:
                left[0] -= 1
                return "451 not now"
            return None

        server.replies = busy
        out = RecordedAnswers()
        await give(sink, tuples(many(1)), out)
        assert await within(SOON_S, lambda: len(out.acked) == 1)
    assert not out.failed
    assert not left[0]
    assert len(server.mails) == 1


@pytest.mark.parametrize(("at", "reply"), [("MAIL", "550 not you"), ("DATA", "554 no"), ("BODY", "552 too large")])
async def test_a_mail_that_is_refused_fails_with_the_answer(server: SmtpServer, at: str, reply: str) -> None:
    server.replies = lambda name, rest: reply if name == at else None
    async with opened(an_email(server)) as sink:
        out = await feed(sink, tuples(many(1)))
        ((tup, why),) = out.failed
        assert why == f"smtp://127.0.0.1:{server.port} refuses it: {reply}"
        with pytest.raises(Reject, match=reply[:3]):
            sink.execute(tup, out)


@pytest.mark.parametrize("at", ["CONNECT", "EHLO"])
async def test_a_server_that_refuses_us_and_not_the_mail_is_away(server: SmtpServer, at: str) -> None:
    async with opened(an_email(server)) as sink:
        server.replies = lambda name, rest: "554 go away" if name in (at, "HELO") else None
        out = RecordedAnswers()
        await give(sink, tuples(many(1)), out)
        assert await within(SOON_S, lambda: "554 go away" in sink.away)
        server.replies = None
        assert await within(SOON_S, lambda: len(out.acked) == 1)


async def test_all_addresses_refused_fails_the_record(server: SmtpServer) -> None:
    server.replies = lambda name, rest: "550 unknown" if name == "RCPT" else None
    out = await sent(an_email(server, to=["a@example.org", "b@example.org"]), Incident("api", "down"))
    why = out.failed[0][1]
    assert "refuses all addresses: a@example.org: 550 unknown; b@example.org: 550 unknown" in why


async def test_an_address_that_is_given_twice_and_refused_fails_the_record(server: SmtpServer) -> None:
    server.replies = lambda name, rest: "550 unknown" if name == "RCPT" else None
    out = await sent(an_email(server, to=["a@example.org", "Ann <a@example.org>"]), Incident("api", "down"))
    assert not out.acked
    assert "refuses all addresses: a@example.org: 550 unknown" in out.failed[0][1]


async def test_an_address_that_is_given_twice_gets_one_mail(server: SmtpServer) -> None:
    out = await sent(an_email(server, to=["a@example.org", "a@example.org"]), Incident("api", "down"))
    assert len(out.acked) == 1
    assert [mail.recipients for mail in server.mails] == [("a@example.org",)]


async def test_a_refused_address_keeps_no_other_from_the_mail(
    server: SmtpServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.replies = lambda name, rest: "550 unknown" if name == "RCPT" and "gone" in rest else None
    out = await sent(an_email(server, to=["gone@example.org", "ops@example.org"]), Incident("api", "down"))
    assert len(out.acked) == 1
    assert server.mails[0].recipients == ("ops@example.org",)
    assert "does not take a mail for 1 of 2 addresses: gone@example.org: 550 unknown" in caplog.text


async def test_an_address_that_is_greylisted_gets_the_mail_later_and_the_others_once(server: SmtpServer) -> None:
    left = [2]

    def grey(name: str, rest: str) -> str | None:
        if name == "RCPT" and "grey" in rest and left[0]:
            left[0] -= 1
            return "450 come back"
        return None

    server.replies = grey
    async with opened(an_email(server, to=["grey@example.org", "ops@example.org"])) as sink:
        out = RecordedAnswers()
        await give(sink, tuples(many(1)), out)
        assert await within(SOON_S, lambda: len(out.acked) == 1)
    assert [mail.recipients for mail in server.mails] == [("ops@example.org",), ("grey@example.org",)]
    assert len({mail.message["Message-ID"] for mail in server.mails}) == 1


def puts_off(server: SmtpServer, address: str, at: str, then: str) -> None:
    """Answer the address by 450 once, and at the next attempt the command `at` by `then`."""
    asked = [0]

    def replies(name: str, rest: str) -> str | None:
        if name == "RCPT" and address in rest:
            asked[0] += 1
            if asked[0] == 1:
                return "450 greylisted"
        return then if name == at and asked[0] > 1 else None

    server.replies = replies


@pytest.mark.parametrize("at", ["RCPT", "BODY"])
async def test_an_alert_is_refused_if_its_only_address_is_put_off_first_and_then_refused(
    server: SmtpServer, at: str
) -> None:
    puts_off(server, "ops@", at, "550 no such user")
    async with opened(an_email(server)) as sink:
        out = RecordedAnswers()
        await give(sink, tuples(many(1)), out)
        assert await within(SOON_S, lambda: bool(out.acked or out.failed))
    assert not server.mails
    assert not out.acked
    assert "550 no such user" in out.failed[0][1]


async def test_an_alert_is_refused_if_all_its_addresses_are_though_at_different_attempts(server: SmtpServer) -> None:
    asked: list[str] = []

    def replies(name: str, rest: str) -> str | None:
        if name != "RCPT":
            return None
        asked.append(rest)
        return "450 greylisted" if "grey" in rest and asked.count(rest) == 1 else "550 no such user"

    server.replies = replies
    async with opened(an_email(server, to=["grey@example.org", "gone@example.org"])) as sink:
        out = RecordedAnswers()
        await give(sink, tuples(many(1)), out)
        assert await within(SOON_S, lambda: bool(out.acked or out.failed))
    assert not out.acked
    assert "refuses all addresses: grey@example.org: 550 no such user" in out.failed[0][1]
    assert sum("gone" in rest for rest in asked) == 1, "a refused address is not asked for again"


@pytest.mark.parametrize("at", ["RCPT", "BODY"])
async def test_an_alert_that_one_address_has_got_is_acked_though_the_other_is_refused_later(
    server: SmtpServer, at: str, caplog: pytest.LogCaptureFixture
) -> None:
    puts_off(server, "grey@", at, "550 no such user")
    async with opened(an_email(server, to=["grey@example.org", "ops@example.org"])) as sink:
        out = RecordedAnswers()
        await give(sink, tuples(many(1)), out)
        assert await within(SOON_S, lambda: bool(out.acked or out.failed))
    assert len(out.acked) == 1
    assert [mail.recipients for mail in server.mails] == [("ops@example.org",)]
    assert "does not take a mail for 1 of 2 addresses: grey@example.org: 550 no such user" in caplog.text


@pytest.mark.parametrize("at", ["EHLO", "MAIL", "DATA", "QUIT"])
async def test_a_server_that_hangs_is_given_up_after_timeout_s(server: SmtpServer, at: str) -> None:
    async with opened(an_email(server, timeout_s=0.5)) as sink:
        server.hangs_at = at
        out = RecordedAnswers()
        await give(sink, tuples(many(1)), out)
        if at != "QUIT":
            assert await within(SOON_S, lambda: "can't be used" in sink.away)
            server.hangs_at = ""
        assert await within(SOON_S, lambda: len(out.acked) == 1)
    assert len(server.mails) == 1


async def test_close_does_not_wait_for_a_server_that_hangs(server: SmtpServer) -> None:
    out, loop = RecordedAnswers(), asyncio.get_running_loop()
    async with opened(an_email(server)) as sink:
        server.hangs_at = "MAIL"
        given = await give(sink, tuples(many(5)), out)
        assert await within(SOON_S, lambda: any(name == "MAIL" for name, _ in server.commands))
        started_at = loop.time()
    assert loop.time() - started_at < 8
    assert all(map(out.is_done, given))


async def test_a_record_that_only_fails_itself_dies(server: SmtpServer) -> None:
    server.replies = lambda name, rest: "451 not this" if name == "BODY" and "bad" in rest else None
    async with opened(an_email(server, subject="{state}", retries=Retries(for_s=0.3))) as sink:
        out = RecordedAnswers()
        await give(sink, tuples([Incident("api", "bad")]), out)
        async with asyncio.timeout(SOON_S):
            number = 10
            while not out.failed:
                await give(sink, tuples(many(1), begin=number), out)
                number += 1
                await asyncio.sleep(0.05)
    assert out.failed[0][0].record.state == "bad"
    assert "451 not this" in out.failed[0][1]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sender": "nobody"}, "sender is an address such as ops@example.org, not 'nobody'"),
        ({"sender": "a@b\r\nBcc: c@d"}, "sender is an address"),
        ({"to": []}, "to is an address, or several, not []"),
        ({"to": ["ops@example.org", "x y@example.org"]}, "to is an address such as ops@example.org"),
        ({"to": "größe@example.org"}, "to is an address"),
        ({"to": "ops@example.org, ann@example.org"}, "to is an address"),
        ({"to": None}, "to is an address, or several"),
        ({"tls": "ssl"}, """tls is "starttls", "tls" or None, not 'ssl'"""),
        ({"port": 0}, "port is a number from 1 to 65535, not 0"),
        ({"host": "a b"}, "host is the name of a server, not 'a b'"),
        ({"host": ""}, "host is the name of a server"),
        ({"subject": "{a.b}"}, "subject='{a.b}' is no template"),
        ({"text": 5}, "text is a template or a function"),
        ({"host": "mail.example", "user": "kedge", "password": "hidden"}, "user and password need an encrypted"),
        ({"group_wait_s": 5}, "group_wait_s needs group_by"),
    ],
)
def test_a_wrong_argument_is_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        an_email(**options)
    text = str(caught.value)
    assert text.startswith("Email: ")
    assert sentence in text
    assert "hidden" not in text
    assert "\n" not in text

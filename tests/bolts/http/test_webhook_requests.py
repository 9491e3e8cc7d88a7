"""What `WebHook` sends: bodies, headers, keys, signatures, addresses; and what it refuses before a run begins."""

import base64
import json
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hook_kit import SECRET, HookServer, hook_server, is_signed

from bolts.sinks.http.client import HttpUrl, merged_headers
from bolts.sinks.http.retries import Retries
from bolts.sinks.http.signing import signed_headers
from bolts.sinks.http.webhook import WebHook
from topology.clients.tls import Tls
from topology.errors import ConfigurationError
from topology.secrets import Secret
from topology.testing.sinks.driver import RecordedAnswers, delivery, feed, give, item, opened, within

OTHER = "whsec_" + "QUJD" * 10


@pytest.fixture
def server() -> Iterator[HookServer]:
    with hook_server() as one:
        yield one


async def sent(hook: WebHook, *numbers: int) -> RecordedAnswers:
    async with opened(hook) as sink:
        return await feed(sink, [delivery(item(number)) for number in numbers])


async def test_a_record_is_a_json_object_under_its_key(server: HookServer) -> None:
    out = await sent(WebHook(server.url), 1)
    (posted,) = server.posted
    assert posted.json == {"number": 1, "revision": 1, "text": "item 1", "value": 0.125}
    assert posted.headers["Content-Type"] == "application/json"
    assert posted.headers["User-Agent"] == "kedge"
    assert len(posted.key) == 48
    assert len(out.acked) == 1


async def test_the_key_is_the_same_in_another_process_and_another_for_each_record(server: HookServer) -> None:
    for _ in range(2):
        await sent(WebHook(server.url), 1, 2)
    keys = [posted.key for posted in server.posted]
    assert sorted(keys[:2]) == sorted(keys[2:])
    assert len({*keys}) == 2


async def test_body_is_what_the_function_makes(server: HookServer) -> None:
    hook = WebHook(server.url, body=lambda record: f"n={record.number}", headers={"content-type": "text/plain"})
    await sent(hook, 7)
    assert server.posted[0].body == b"n=7"
    assert server.posted[0].headers["Content-Type"] == "text/plain"


async def test_a_batch_is_an_array_of_up_to_so_many_records(server: HookServer) -> None:
    out = await sent(WebHook(server.url, batch=10, concurrency=1), *range(25))
    sizes = [len(posted.json) for posted in server.posted]
    assert sorted(row["number"] for posted in server.posted for row in posted.json) == [*range(25)]
    assert max(sizes) <= 10
    assert len(sizes) <= 5, "those that wait are sent together"
    assert len({posted.key for posted in server.posted}) == len(sizes)
    assert len(out.acked) == 25


async def test_a_batch_of_one_record_is_an_array_too(server: HookServer) -> None:
    await sent(WebHook(server.url, batch=10), 1)
    assert [row["number"] for row in server.posted[0].json] == [1]


async def test_headers_are_sent_and_their_secrets_are_not_shown(server: HookServer) -> None:
    hook = WebHook(server.url, headers={"Authorization": Secret("Bearer open-sesame"), "X-Team": "ops"})
    await sent(hook, 1)
    assert server.posted[0].headers["Authorization"] == "Bearer open-sesame"
    assert server.posted[0].headers["X-Team"] == "ops"
    assert "sesame" not in repr(vars(hook))


def test_a_header_that_is_given_takes_the_place_of_the_usual_one_in_letters_of_either_case() -> None:
    usual = {"Content-Type": "application/json", "Idempotency-Key": "key"}
    assert merged_headers(usual, {"content-type": "text/plain", "X-Team": "ops"}) == {
        "Idempotency-Key": "key",
        "content-type": "text/plain",
        "X-Team": "ops",
    }


async def test_a_request_is_signed_as_standard_webhooks_has_it(server: HookServer) -> None:
    await sent(WebHook(server.url, secret=Secret(SECRET)), 1)
    (posted,) = server.posted
    assert posted.headers["webhook-id"] == posted.key
    assert is_signed(posted)
    assert not is_signed(posted, OTHER)


async def test_while_a_secret_changes_there_is_a_signature_by_each(server: HookServer) -> None:
    await sent(WebHook(server.url, secret=[SECRET, OTHER], batch=3), 1)
    assert is_signed(server.posted[0], SECRET)
    assert is_signed(server.posted[0], OTHER)


def test_the_signature_is_that_of_the_specifications_libraries() -> None:
    """The values are those with which the reference libraries of Standard Webhooks test themselves."""
    secret = Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = signed_headers([secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


async def test_a_retry_has_the_same_key_and_a_time_of_its_own(server: HookServer) -> None:
    import asyncio

    async def first_is_late(posted: Any) -> int | None:
        if len(server.posted) == 1:
            await asyncio.sleep(1.1)
            return 500
        return None

    server.answers = first_is_late
    await sent(WebHook(server.url, secret=SECRET), 1)
    first, second = server.posted
    assert first.key == second.key
    assert int(second.headers["webhook-timestamp"]) > int(first.headers["webhook-timestamp"])
    assert is_signed(second), "replay-safe: the time of the attempt is signed"


async def test_a_function_of_the_record_names_the_address(server: HookServer) -> None:
    def url(record: Any) -> str | Secret:
        if record.number == 3:
            return "no address"
        if record.number == 4:
            raise KeyError("tenant")
        return Secret(f"{server.url}/{record.number}?token=hidden")

    out = await sent(WebHook(url, batch=5), 1, 2, 3, 4)
    assert sorted(posted.path for posted in server.posted) == ["/hook/1?token=hidden", "/hook/2?token=hidden"]
    reasons = {tup.record.number: why for tup, why in out.failed}
    assert "its url: url is http://HOST/PATH" in reasons[3]
    assert "its url could not be made: KeyError: 'tenant'" in reasons[4]


async def test_the_user_of_a_url_is_sent_and_never_shown(server: HookServer) -> None:
    server.answers = lambda posted: 400
    url = f"http://ann:swordfish@127.0.0.1:{server.port}/hook?token=hidden-token"
    async with opened(WebHook(url)) as sink:
        out = await feed(sink, [delivery(item(1))])
        (line,) = sink.summary()
    assert server.posted[0].headers["Authorization"].startswith("Basic ")
    assert server.posted[0].path == "/hook?token=hidden-token"
    for text in (out.failed[0][1], line):
        assert f"http://127.0.0.1:{server.port}/hook" in text
        assert "swordfish" not in text
        assert "hidden" not in text


async def test_of_a_secret_url_no_path_is_shown_though_the_answer_repeats_it(server: HookServer) -> None:
    from aiohttp import web

    echo = web.Response(status=404, text="nothing at /services/T0000/B0000/XYZabc123456, token Bearer-of-something")
    server.answers = lambda posted: echo
    url = Secret(f"http://127.0.0.1:{server.port}/services/T0000/B0000/XYZabc123456")
    out = await sent(WebHook(url, headers={"X-Token": Secret("Bearer-of-something")}), 1)
    why = out.failed[0][1]
    assert why.startswith(f"http://127.0.0.1:{server.port} answers 404 Not Found: nothing at")
    assert "XYZabc" not in why
    assert "Bearer-of" not in why


@pytest.mark.parametrize("password", ["hunter2-long-password", "a1b", "p:q+r", 'with "quotes"', "Grüße%", "Ends/word"])
async def test_an_answer_that_repeats_the_user_and_the_password_of_a_url_does_not_show_them(
    server: HookServer, password: str
) -> None:
    from urllib.parse import quote

    from aiohttp import web

    def echo(posted: Any) -> web.Response:
        header = posted.headers["Authorization"]
        login = base64.b64decode(header.split()[1]).decode("latin-1")
        assert login == f"robot:{password}"
        repeated = [*login.split(":", 1), login, quote(password, safe=""), header]
        return web.Response(status=400, text=f"who is {json.dumps(repeated, ensure_ascii=False)}?")

    server.answers = echo
    url = f"http://robot:{quote(password, safe='')}@127.0.0.1:{server.port}/hook"
    for address in (url, Secret(url)):
        ((_, why),) = (await sent(WebHook(address), 1)).failed
        assert why.split("answers ")[1] == '400 Bad Request: who is ["…", "…", "…", "…", "Basic …"]?'


async def test_an_answer_shows_no_short_secret_of_a_header_nor_an_escaped_one_of_a_query(server: HookServer) -> None:
    from aiohttp import web

    echo = web.Response(
        status=400, text="key short7x, Bearer t0k, user ann, pass swordfish, tok+en12345678, TOK%2BEN12345678"
    )
    server.answers = lambda posted: echo
    headers = {
        "X-Key": Secret("short7x"),
        "X-Token": Secret("Bearer t0k"),
        "X-Auth": Secret("Basic YW5uOnN3b3JkZmlzaA=="),
    }
    out = await sent(WebHook(f"{server.url}?t=tok%2Ben12345678", headers=headers), 1)
    assert out.failed[0][1].endswith(": key …, …, user …, pass …, …, …")


async def test_a_secret_that_the_end_of_what_is_read_cuts_is_not_shown(server: HookServer) -> None:
    from aiohttp import web

    echo = web.Response(status=400, text="no" + " " * 1_002 + "hunter2-long-password")
    server.answers = lambda posted: echo
    out = await sent(WebHook(server.url, headers={"X-Key": Secret("hunter2-long-password")}), 1)
    assert out.failed[0][1].endswith("400 Bad Request: no")


def test_a_secret_address_whose_password_ends_the_host_too_early_shows_no_part_of_it() -> None:
    """`http://bob:12/RET@…` is an address of a host `bob` with the port 12."""
    hook = a_hook(Secret("http://bob:12/RET@hooks.example/services/T0?token=hidden"))
    assert isinstance(hook.url, HttpUrl)
    assert hook.url.where == "http://hooks.example"


def a_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for localhost that it signs itself, and its key."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


async def test_tls_uses_the_certificates_that_it_is_given(tmp_path: Path) -> None:
    certificate, key = a_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with hook_server(context=context) as server:
        await sent(WebHook(server.url, tls=Tls(ca=str(certificate))), 1)
        assert len(server.stored) == 1
        async with opened(WebHook(server.url)) as sink:
            out = RecordedAnswers()
            await give(sink, [delivery(item(2))], out)
            assert await within(20.0, lambda: "certificate verify failed" in sink.away)
            assert not out.acked
        assert len(server.stored) == 1, "a certificate of an unknown authority is not taken"


def a_hook(url: Any = "http://127.0.0.1:9/hook", **arguments: Any) -> WebHook:
    return WebHook(url, **arguments)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"url": "ftp://somewhere/hook"}, "url is http://HOST/PATH or https://HOST/PATH, not 'ftp://somewhere/hook'"),
        ({"url": "http:///hook"}, "url is http://HOST/PATH"),
        ({"url": "http://host:99999/hook"}, "url is http://HOST/PATH"),
        ({"url": Secret("hooks.slack.com/services/hidden")}, "url is http://HOST/PATH or https://HOST/PATH"),
        ({"url": None}, "url is http://HOST/PATH"),
        ({"batch": 0}, "batch is a number from 1 to 500, not 0"),
        ({"batch": True}, "batch is a number from 1 to 500"),
        ({"concurrency": 101}, "concurrency is a number from 1 to 100, not 101"),
        ({"rate": 0}, "rate is a number of requests a second up to 10,000, not 0"),
        ({"rate": "fast"}, "rate is a number of requests"),
        ({"timeout_s": 0}, "timeout_s is a number of seconds above 0, not 0"),
        ({"remembers_s": float("inf")}, "remembers_s is a number of seconds above 0"),
        ({"headers": {"a b": "c"}}, "'a b' is no name of a header"),
        ({"headers": {"a": "b\r\nc: d"}}, "the header a is a text of one line"),
        ({"headers": {"a": Secret("hidden\n")}}, "the header a is a text of one line"),
        ({"headers": {"Content-Length": "5"}}, "the header Content-Length is set by the HTTP client itself"),
        ({"headers": {"transfer-encoding": "chunked"}}, "the header transfer-encoding is set by the HTTP client"),
        ({"headers": {"HOST": "a.example"}}, "the header HOST is set by the HTTP client"),
        ({"headers": {"Connection": "close"}}, "the header Connection is set by the HTTP client"),
        ({"url": "http://bob:hid/den@127.0.0.1/hook"}, "url is http://HOST/PATH"),
        ({"url": "http://bob:hid#den@127.0.0.1/hook"}, "url is http://HOST/PATH"),
        ({"url": "bob:hidden@127.0.0.1/hook?token=hidden"}, "url is http://HOST/PATH"),
        ({"secret": "hidden"}, "secret is whsec_ and base64 of 24 to 64 bytes"),
        ({"secret": "whsec_hidden"}, "secret is whsec_ and base64"),
        ({"secret": [SECRET, 7]}, "secret is whsec_ and base64"),
        ({"idempotent": True, "batch": 2}, "idempotent=True needs batch=1"),
    ],
)
def test_a_wrong_argument_is_one_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        a_hook(**arguments)
    text = str(caught.value)
    assert text.startswith("WebHook: ")
    assert sentence in text
    assert not any(part in text for part in ("hidden", "hid/den", "hid#den", "bob"))
    assert text.count("\n") == 0


@pytest.mark.parametrize(
    "arguments", [{"for_s": -1}, {"outage_s": "long"}, {"ok": [99]}, {"again": [True]}, {"ok": [100]}]
)
def test_a_wrong_argument_of_retries_is_one_sentence(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Retries(**arguments)
    assert str(caught.value).startswith(f"Retries: {next(iter(arguments))} ")


def test_only_an_idempotent_receiver_makes_it_a_sink_that_drops_replays() -> None:
    plain, known = a_hook(), a_hook(idempotent=True, remembers_s=3_600)
    assert (plain.drops_replays, plain.remembers_s) == (False, None)
    assert (known.drops_replays, known.remembers_s) == (True, 3_600)


async def test_a_body_that_cannot_be_made_fails_its_record_alone(server: HookServer) -> None:
    def body(record: Any) -> str:
        if record.number == 2:
            raise ValueError("no two")
        return json.dumps(record.number)

    out = await sent(WebHook(server.url, body=body), 1, 2, 3)
    assert [(tup.record.number, why) for tup, why in out.failed] == [
        (2, "Reject: its body could not be made: ValueError: no two")
    ]
    assert sorted(server.posted[at].json for at in range(2)) == [1, 3]

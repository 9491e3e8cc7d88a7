"""`Alertmanager` to a real HTTP server that takes what its API v2 takes."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from alert_kit import NOON, SOON_S, Incident, many, tuples
from hook_kit import HookServer, Posted, hook_server

from bolts.alerts.alertmanager import Alertmanager
from bolts.sinks.http.retries import Retries
from topology.errors import ConfigurationError
from topology.secrets import Secret
from topology.testing.sinks.driver import RecordedAnswers, feed, give, opened, within

LABELS = {"alertname": "ServiceDown", "service": "{service}", "host": "{host}"}


@pytest.fixture
def server() -> Iterator[HookServer]:
    with hook_server() as one:
        yield one


def an_alertmanager(server: HookServer, **options: Any) -> Alertmanager:
    return Alertmanager(f"http://127.0.0.1:{server.port}", **{"labels": LABELS, **options})


async def sent(alertmanager: Alertmanager, *incidents: Incident) -> RecordedAnswers:
    async with opened(alertmanager) as sink:
        return await feed(sink, tuples(incidents))


def alerts(server: HookServer) -> list[Any]:
    return [alert for posted in server.stored.values() for alert in posted.json]


async def test_an_alert_is_posted_as_the_api_wants_it(server: HookServer) -> None:
    options = {
        "annotations": {"summary": "{service} is {state}"},
        "starts_at": "at",
        "ends_at": lambda incident: incident.at + timedelta(hours=4),
        "generator_url": "https://kedge.example/{service}",
        "headers": {"Authorization": Secret("Bearer open-sesame")},
    }
    await sent(an_alertmanager(server, **options), Incident("api", "down"))
    (posted,) = server.posted
    assert posted.path == "/api/v2/alerts"
    assert posted.headers["Authorization"] == "Bearer open-sesame"
    assert posted.json == [
        {
            "labels": {"alertname": "ServiceDown", "service": "api", "host": "db-1"},
            "annotations": {"summary": "api is down"},
            "startsAt": "2026-03-01T12:00:00+00:00",
            "endsAt": "2026-03-01T16:00:00+00:00",
            "generatorURL": "https://kedge.example/api",
        }
    ]


async def test_a_header_that_is_given_takes_the_place_of_the_usual_one_in_letters_of_either_case(
    server: HookServer,
) -> None:
    headers = {"content-type": "application/json; charset=utf-8", "IDEMPOTENCY-KEY": "mine"}
    await sent(an_alertmanager(server, headers=headers), Incident("api", "down"))
    (posted,) = server.posted
    given = {name.lower(): value for name, value in posted.headers.items()}
    assert (given["content-type"], given["idempotency-key"]) == ("application/json; charset=utf-8", "mine")
    assert (posted.names.count("content-type"), posted.names.count("idempotency-key")) == (1, 1)


async def test_an_alert_that_fails_once_after_a_message_was_divided_is_sent_again(server: HookServer) -> None:
    """The message failed before it was refused; the refusals of its parts are no deliveries of others."""
    failed_once: set[str] = set()

    def answers(posted: Posted) -> int | None:
        services = [alert["labels"]["service"] for alert in posted.json]
        if len(server.posted) == 1:
            return 503
        if "bad" in services:
            return 400
        if len(services) == 1 and services[0] not in failed_once:
            failed_once.add(services[0])
            return 503
        return None

    server.answers = answers
    incidents = [Incident(name, "down") for name in ("first", "bad", "third", "fourth")]
    async with opened(an_alertmanager(server, retries=Retries(for_s=0.0))) as sink:
        out = RecordedAnswers()
        await give(sink, tuples(incidents), out)
        assert await within(SOON_S, lambda: len(out.acked) + len(out.failed) == 4)
    assert [tup.record.service for tup, _ in out.failed] == ["bad"]
    assert failed_once >= {"first"}


async def test_an_alert_is_over_at_the_end_that_its_record_knows(server: HookServer) -> None:
    alertmanager = an_alertmanager(server, ends_at="over_at")
    await sent(alertmanager, Incident("api", "down"), Incident("api", "up", over_at=NOON))
    firing, resolved = alerts(server)
    assert "endsAt" not in firing
    assert resolved["endsAt"] == "2026-03-01T12:00:00+00:00"
    assert firing["labels"] == resolved["labels"], "it is the same alert"


async def test_alerts_that_wait_together_are_one_request_and_keep_their_order(server: HookServer) -> None:
    first = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def waits(posted: Posted) -> None:
        if len(server.posted) == 1:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(first.wait(), loop))

    server.answers = waits
    async with opened(an_alertmanager(server, labels={"alertname": "n{number}"})) as sink:
        out = RecordedAnswers()
        await give(sink, tuples(many(1)), out)
        assert await within(SOON_S, lambda: len(server.posted) == 1)
        await give(sink, tuples(many(250)[1:], begin=10), out)
        first.set()
        assert await within(SOON_S, lambda: len(out.acked) == 250)
    assert [len(posted.json) for posted in server.posted] == [1, 100, 100, 49]
    assert [alert["labels"]["alertname"] for alert in alerts(server)] == [f"n{number}" for number in range(250)]


async def test_a_bad_alert_fails_alone_and_the_others_of_its_request_are_sent(server: HookServer) -> None:
    def picky(posted: Posted) -> int | None:
        return 400 if any(alert["labels"]["service"] == "bad" for alert in posted.json) else None

    server.answers = picky
    out = await sent(an_alertmanager(server), *many(5), Incident("bad", "down"), *many(5))
    assert [tup.record.service for tup, _ in out.failed] == ["bad"]
    assert len(out.acked) == 10


async def test_empty_labels_are_left_out_and_a_name_has_to_be_there(server: HookServer) -> None:
    alertmanager = an_alertmanager(server, labels={"alertname": "{service}", "host": "{host}"})
    out = await sent(alertmanager, Incident("api", "down", host=""), Incident("", "down"))
    assert alerts(server)[0]["labels"] == {"alertname": "api"}
    assert "its label alertname is empty" in out.failed[0][1]


@pytest.mark.parametrize("ends_at", [lambda incident: "noon", lambda incident: datetime(2026, 3, 1), "service"])  # noqa: DTZ001
async def test_a_time_that_is_none_fails_its_record(server: HookServer, ends_at: Any) -> None:
    out = await sent(an_alertmanager(server, ends_at=ends_at), Incident("api", "down"))
    assert "its ends_at is a time with a zone" in out.failed[0][1]


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("http://am:9093", "http://am:9093/api/v2/alerts"),
        ("http://am:9093/", "http://am:9093/api/v2/alerts"),
        ("https://host/am", "https://host/am/api/v2/alerts"),
        ("http://am:9093/api/v2/alerts", "http://am:9093/api/v2/alerts"),
        (Secret("http://ann:hidden@am:9093"), "http://am:9093"),
    ],
)
def test_the_path_of_the_api_is_added(url: Any, where: str) -> None:
    made = Alertmanager(url, labels=LABELS).url
    assert made.where == where
    assert made.secret.reveal().endswith("/api/v2/alerts")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"labels": {"service": "{service}"}}, "labels has alertname"),
        ({"labels": {"alertname": "a", "a-b": "c"}}, "labels have names of letters, digits and _, not 'a-b'"),
        ({"labels": {"alertname": "{a.b}"}}, "is no template"),
        ({"annotations": {"1": "c"}}, "annotations have names of letters"),
        ({"annotations": {"a": 7}}, "annotations['a'] is a template or a function"),
        ({"headers": {"a b": "c"}}, "'a b' is no name of a header"),
        ({"url": "am:9093"}, "url is http://HOST/PATH"),
    ],
)
def test_a_wrong_argument_is_one_sentence(options: dict[str, Any], sentence: str) -> None:
    url = options.pop("url", "http://127.0.0.1:9093")
    with pytest.raises(ConfigurationError) as caught:
        Alertmanager(url, **{"labels": LABELS, **options})
    text = str(caught.value)
    assert text.startswith("Alertmanager: ")
    assert sentence in text

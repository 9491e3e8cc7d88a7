"""`PagerDuty` to a real HTTP server that answers as its Events API v2 does."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web
from alert_kit import SOON_S, Incident, many, tuples
from hook_kit import HookServer, Posted, hook_server

from bolts.alerts.pagerduty import PagerDuty
from topology.errors import ConfigurationError
from topology.secrets import Secret
from topology.testing.sinks.driver import RecordedAnswers, feed, give, opened, within

KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def server() -> Iterator[HookServer]:
    with hook_server() as one:
        yield one


def a_pager(server: HookServer, **options: Any) -> PagerDuty:
    url = f"http://127.0.0.1:{server.port}/v2/enqueue"
    given = {"summary": "{service} is {state}", "source": "{host}", "url": url, **options}
    return PagerDuty(Secret(KEY), **given)


def resolving(server: HookServer, **options: Any) -> PagerDuty:
    return a_pager(server, dedup_key="service", resolves=lambda incident: incident.state == "up", **options)


async def sent(pager: PagerDuty, *incidents: Incident) -> RecordedAnswers:
    async with opened(pager) as sink:
        return await feed(sink, tuples(incidents))


async def test_an_alert_is_an_event_with_all_that_the_api_wants(server: HookServer) -> None:
    await sent(a_pager(server, severity="critical", dedup_key="{service}/{host}"), Incident("api", "down", number=3))
    (posted,) = server.posted
    assert posted.path == "/v2/enqueue"
    assert posted.json == {
        "routing_key": KEY,
        "event_action": "trigger",
        "dedup_key": "api/db-1",
        "payload": {
            "summary": "api is down",
            "source": "db-1",
            "severity": "critical",
            "custom_details": {
                "service": "api",
                "state": "down",
                "host": "db-1",
                "number": 3,
                "at": "2026-03-01T12:00:00.000000Z",
                "over_at": None,
            },
        },
    }


async def test_without_a_dedup_key_each_alert_is_an_incident_and_a_repeated_one_is_the_same(server: HookServer) -> None:
    for _ in range(2):
        await sent(a_pager(server), *many(2))
    keys = [posted.json["dedup_key"] for posted in server.posted]
    assert len({*keys}) == 2
    assert len(keys) == 4


async def test_an_alert_may_resolve_its_incident(server: HookServer) -> None:
    await sent(resolving(server), Incident("api", "down"), Incident("web", "down"), Incident("api", "up"))
    events = [(posted.json["dedup_key"], posted.json["event_action"]) for posted in server.posted]
    assert sorted(events) == [("api", "resolve"), ("api", "trigger"), ("web", "trigger")]
    assert events.index(("api", "trigger")) < events.index(("api", "resolve"))


async def test_events_of_one_incident_keep_their_order_though_some_fail(server: HookServer) -> None:
    """A resolve that overtook its trigger would leave the incident open for ever."""

    async def moody(posted: Posted) -> int | None:
        await asyncio.sleep(0.01 * (len(server.posted) % 3))
        return 500 if len(server.posted) % 3 == 1 else None

    server.answers = moody
    incidents = [
        Incident(f"s{service}", state, number=number)
        for number in range(5)
        for service in range(6)
        for state in ("down", "up")
    ]
    async with opened(resolving(server)) as sink:
        out = RecordedAnswers()
        await give(sink, tuples(incidents), out)
        assert await within(SOON_S, lambda: len(out.acked) == 60)
    seen: dict[str, list[str]] = {}
    for posted in server.stored.values():
        seen.setdefault(posted.json["dedup_key"], []).append(posted.json["event_action"])
    assert len(seen) == 6
    for actions in seen.values():
        assert actions == ["trigger", "resolve"] * 5


async def test_triggers_that_wait_together_are_one_event_of_the_newest(server: HookServer) -> None:
    first = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def waits(posted: Posted) -> None:
        if len(server.posted) == 1:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(first.wait(), loop))

    server.answers = waits
    async with opened(a_pager(server, summary="{number}", dedup_key="service")) as sink:
        out = RecordedAnswers()
        await give(sink, tuples(many(1)), out)
        assert await within(SOON_S, lambda: len(server.posted) == 1)
        await give(sink, tuples(many(5)[1:], begin=10), out)
        first.set()
        assert await within(SOON_S, lambda: len(out.acked) == 5)
    assert [posted.json["payload"]["summary"] for posted in server.posted] == ["0", "4 (and 3 more)"]


async def test_long_texts_fit_what_the_api_takes(server: HookServer) -> None:
    await sent(a_pager(server, summary="{service}", dedup_key="service"), Incident("x" * 2_000, "down"))
    event = server.posted[0].json
    assert len(event["payload"]["summary"]) == 1_024
    assert len(event["dedup_key"]) == 48


@pytest.mark.parametrize(
    ("dedup_key", "why"),
    [
        (lambda incident: None, "its dedup_key is a text, and the function returned a NoneType"),
        ("state", "its dedup_key is empty"),
    ],
)
async def test_an_alert_without_a_name_fails_and_joins_no_incident(
    server: HookServer, dedup_key: Any, why: str
) -> None:
    out = await sent(a_pager(server, dedup_key=dedup_key), Incident("api", ""), Incident("web", ""))
    assert [text for _, text in out.failed] == [f"Reject: {why}"] * 2
    assert not server.posted


async def test_severity_and_details_may_depend_on_the_record(server: HookServer) -> None:
    pager = a_pager(server, severity="{state}", details=lambda incident: {"n": incident.number})
    out = await sent(pager, Incident("api", "warning", number=5), Incident("api", "terrible"))
    assert server.posted[0].json["payload"]["severity"] == "warning"
    assert server.posted[0].json["payload"]["custom_details"] == {"n": 5}
    assert "its severity is one of critical, error, warning, info, not 'terrible'" in out.failed[0][1]


async def test_an_event_that_the_api_refuses_fails_with_its_answer_and_without_the_key(server: HookServer) -> None:
    told = '{"status":"invalid event","errors":["\'' + KEY + "' is no routing key\"]}"
    server.answers = lambda posted: web.Response(status=400, text=told)
    async with opened(a_pager(server)) as sink:
        out = await feed(sink, tuples(many(1)))
        assert KEY not in repr(vars(sink))
    why = out.failed[0][1]
    assert why.startswith(f"http://127.0.0.1:{server.port}/v2/enqueue answers 400 Bad Request: ")
    assert "invalid event" in why
    assert KEY not in why


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"routing_key": "hidden key"}, "routing_key is the integration key of a service"),
        ({"severity": "bad"}, "severity is one of critical, error, warning, info, not 'bad'"),
        ({"resolves": "over_at"}, "resolves needs dedup_key"),
        ({"dedup_key": "always the same"}, "dedup_key='always the same' has to depend on the record"),
        ({"summary": "{"}, "summary='{' is no template"),
        ({"source": None}, "source is a template or a function"),
        ({"url": "events.pagerduty.com"}, "url is http://HOST/PATH"),
        ({"per_minute": -5}, "per_minute is a number of messages"),
    ],
)
def test_a_wrong_argument_is_one_sentence(options: dict[str, Any], sentence: str) -> None:
    routing_key = options.pop("routing_key", KEY)
    with pytest.raises(ConfigurationError) as caught:
        PagerDuty(routing_key, **{"summary": "{service}", "source": "{host}", **options})
    text = str(caught.value)
    assert text.startswith("PagerDuty: ")
    assert sentence in text
    assert "hidden" not in text


def test_the_default_address_is_pagerdutys() -> None:
    assert PagerDuty(KEY, summary="a", source="b").url.where == "https://events.pagerduty.com/v2/enqueue"

"""`Slack` to a real HTTP server: messages, groups, limits, and what goes wrong."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web
from alert_kit import SOON_S, Incident, many, tuples
from hook_kit import HookServer, Posted, hook_server

from bolts.alerts.channel import LINES_MAX
from bolts.alerts.slack import Slack
from bolts.sinks.http.retries import Retries
from topology.errors import ConfigurationError, Reject
from topology.secrets import Secret
from topology.testing.sinks.driver import RecordedAnswers, feed, give, opened, within

PATH = "/services/T0/B0/hidden-token"


@pytest.fixture
def server() -> Iterator[HookServer]:
    with hook_server() as one:
        yield one


def a_slack(server: HookServer, text: Any = "*{service}* is {state}", **options: Any) -> Slack:
    return Slack(Secret(f"http://127.0.0.1:{server.port}{PATH}"), text=text, **options)


async def sent(slack: Slack, *incidents: Incident) -> RecordedAnswers:
    async with opened(slack) as sink:
        return await feed(sink, tuples(incidents))


def texts(server: HookServer) -> list[str]:
    return [posted.json["text"] for posted in server.stored.values()]


async def test_an_alert_is_one_message(server: HookServer) -> None:
    out = await sent(a_slack(server), Incident("api", "down"))
    (posted,) = server.posted
    assert posted.path == PATH
    assert posted.headers["Content-Type"] == "application/json"
    assert posted.json == {"text": "*api* is down"}
    assert len(out.acked) == 1


async def test_each_alert_is_a_message_of_its_own_if_nothing_else_is_said(server: HookServer) -> None:
    await sent(a_slack(server, "{number}"), *many(5))
    assert sorted(texts(server)) == ["0", "1", "2", "3", "4"]


async def test_alerts_with_an_empty_group_are_one_message_and_one_whose_group_is_no_text_fails(
    server: HookServer,
) -> None:
    slack = a_slack(
        server,
        "{number}",
        group_by=lambda incident: None if incident.number == 2 else "",  # type: ignore[arg-type,return-value]
        group_wait_s=60.0,
    )
    out = await sent(slack, *many(4))
    assert texts(server) == ["*3 alerts*\n• 0\n• 1\n• 3"]
    assert [why for _, why in out.failed] == ["Reject: its group_by is a text, and the function returned a NoneType"]


async def test_values_cannot_mention_a_channel_or_forge_a_link(server: HookServer) -> None:
    await sent(a_slack(server, "<https://wiki|{service}> {state}"), Incident("<!channel>", "a & b > c"))
    assert texts(server) == ["<https://wiki|&lt;!channel&gt;> a &amp; b &gt; c"]


async def test_a_function_may_write_marks_of_its_own(server: HookServer) -> None:
    await sent(a_slack(server, lambda incident: f"<!here> {incident.service}"), Incident("api", "down"))
    assert texts(server) == ["<!here> api"]


async def test_blocks_are_sent_beside_the_text(server: HookServer) -> None:
    def blocks(incident: Incident) -> list[dict[str, Any]]:
        return [{"type": "section", "text": {"type": "mrkdwn", "text": incident.service}}]

    await sent(a_slack(server, "{service}", blocks=blocks, group_by="state", group_wait_s=60.0), *many(60))
    (posted,) = server.posted
    assert posted.json["text"].startswith("*60 alerts*")
    assert posted.json["blocks"][0] == {"type": "section", "text": {"type": "mrkdwn", "text": "api"}}
    assert len(posted.json["blocks"]) == 50, "as many as Slack takes"
    assert "60 alerts in all" in posted.json["blocks"][-1]["elements"][0]["text"]


@pytest.mark.parametrize("blocks", [lambda incident: 7, lambda incident: [object()], lambda incident: incident.missing])
async def test_blocks_that_are_none_fail_their_record(server: HookServer, blocks: Any) -> None:
    out = await sent(a_slack(server, blocks=blocks), Incident("api", "down"))
    assert "its blocks" in out.failed[0][1]


async def test_alerts_of_a_group_that_come_together_are_one_message(server: HookServer) -> None:
    slack = a_slack(server, "{service} {number}", group_by="service", group_wait_s=1.0)
    async with opened(slack) as sink:
        out = RecordedAnswers()
        await give(sink, tuples([*many(3, "api"), *many(1, "web")]), out)
        await asyncio.sleep(0.3)
        assert not server.posted
        assert not out.acked, "an alert is acked when its message is delivered"
        await give(sink, tuples(many(5, "api")[3:], begin=100), out)
        assert await within(SOON_S, lambda: len(out.acked) == 6)
    assert sorted(texts(server)) == [
        "*5 alerts*\n• api 0\n• api 1\n• api 2\n• api 3\n• api 4",
        "web 0",
    ]


async def test_a_message_says_how_many_it_does_not_show(server: HookServer) -> None:
    await sent(a_slack(server, "{number}", group_by="service", group_wait_s=60.0), *many(LINES_MAX + 3))
    (text,) = texts(server)
    assert text.startswith(f"*{LINES_MAX + 3} alerts*\n• 0\n")
    assert text.endswith("\n• … and 3 more")
    assert len(text.splitlines()) == LINES_MAX + 2


async def test_at_the_end_of_the_inputs_no_group_waits(server: HookServer) -> None:
    started_at = time.monotonic()
    await sent(a_slack(server, group_by="service", group_wait_s=600.0), *many(3))
    assert time.monotonic() - started_at < SOON_S
    assert len(server.posted) == 1


async def test_what_exceeds_the_limit_is_summed_up_in_the_next_message(
    server: HookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bolts.alerts import channel

    monkeypatch.setattr(channel, "MINUTE_S", 2.0)
    async with opened(a_slack(server, "{service}", per_minute=3)) as sink:
        out = RecordedAnswers()
        incidents = [Incident(f"s{number}", "down") for number in range(50)]
        await give(sink, tuples(incidents), out)
        assert await within(SOON_S, lambda: len(out.acked) == 50)
    assert len(server.posted) == 4, "three, and one that has all others"
    assert server.posted[3].at - server.posted[0].at >= 1.9
    counts = [text.splitlines()[0] for text in texts(server)]
    assert sorted(counts[:3]) == ["s0", "s1", "s2"]
    assert counts[3] == "*47 alerts*"


async def test_alerts_while_slack_is_away_are_told_when_it_is_back(server: HookServer) -> None:
    async with opened(a_slack(server, "{number}", group_by="service")) as sink:
        out = RecordedAnswers()
        with server.away():
            await give(sink, tuples(many(30)), out)
            assert await within(SOON_S, lambda: bool(sink.away))
            assert sink.away.startswith(f"its receiver is away (http://127.0.0.1:{server.port} can't be used")
            assert "hidden" not in sink.away
        assert await within(SOON_S, lambda: len(out.acked) == 30)
        assert sink.away == ""
    assert not out.failed


async def test_a_hook_that_is_gone_is_told_without_its_address(server: HookServer) -> None:
    server.answers = lambda posted: web.Response(status=404, text="no_service for hidden-token")
    async with opened(a_slack(server)) as sink:
        out = await feed(sink, tuples([Incident("api", "down")]))
        (line,) = sink.summary()
        ((tup, why),) = out.failed
        assert why == f"http://127.0.0.1:{server.port} answers 404 Not Found: no_service for …"
        assert "hidden" not in line
        assert "hidden" not in repr(vars(sink))
        with pytest.raises(Reject, match="404"):
            sink.execute(tup, out)


async def test_a_group_that_is_refused_is_divided_until_the_bad_alert_is_alone(server: HookServer) -> None:
    server.answers = lambda posted: 400 if "bad" in posted.json["text"] else None
    incidents = [*many(6), Incident("api", "bad"), *many(6)]
    out = await sent(a_slack(server, "{state}", group_by="service", group_wait_s=60.0), *incidents)
    assert [tup.record.state for tup, _ in out.failed] == ["bad"]
    assert len(out.acked) == 12


async def test_a_healthy_alert_of_a_merged_message_survives_one_failure_of_its_own(server: HookServer) -> None:
    """The message of several groups has failed for longer than `for_s`; each alert that is alone then begins again."""
    failed_once: list[str] = []

    def answers(posted: Posted) -> int | None:
        text = posted.json["text"]
        if "bad" in text:
            return 500
        if text.startswith("good") and text not in failed_once:
            failed_once.append(text)
            return 503
        return None

    server.answers = answers
    slack = a_slack(server, "{service}", group_by="service", per_minute=None, retries=Retries(for_s=0.5))
    async with opened(slack) as sink:
        sink._requests.crowded = True  # as if the limit had held them back: they are one message
        out = RecordedAnswers()
        await give(sink, tuples(Incident(name, "down") for name in ("bad", "good-1", "good-2", "good-3")), out)
        assert await within(SOON_S, lambda: bool(server.posted))
        assert server.posted[0].json["text"].startswith("*4 alerts*")
        async with asyncio.timeout(SOON_S):
            number = 10
            while not out.failed:
                number += 1
                await give(sink, tuples([Incident(f"other-{number}", "down")], begin=number), out)
                await asyncio.sleep(0.02)
        assert await within(SOON_S, lambda: sum(tup.record.service.startswith("good") for tup in out.acked) == 3)
    assert [tup.record.service for tup, _ in out.failed] == ["bad"]
    assert failed_once


async def test_a_replay_in_the_same_task_is_not_told_twice(server: HookServer) -> None:
    async with opened(a_slack(server)) as sink:
        for _ in range(2):
            out = await feed(sink, tuples(many(2)))
            assert len(out.acked) == 2
        assert (sink.stored, sink.duplicates) == (2, 2)
    assert len(server.posted) == 2


async def test_close_does_not_wait_for_a_server_that_hangs(server: HookServer) -> None:
    async def hangs(posted: Posted) -> None:
        await asyncio.sleep(60)

    server.answers = hangs
    out, loop = RecordedAnswers(), asyncio.get_running_loop()
    async with opened(a_slack(server, group_by="service", group_wait_s=5.0)) as sink:
        given = await give(sink, tuples([*many(3, "api"), *many(3, "web")]), out)
        sink.flush(out)
        assert await within(SOON_S, lambda: len(server.posted) == 2)
        await give(sink, tuples(many(2, "new"), begin=50), out)
        started_at = loop.time()
    assert loop.time() - started_at < 8
    assert all(map(out.is_done, given))
    assert len(out.failed) == 8


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"text": "{a.b}"}, "text='{a.b}' is no template"),
        ({"text": 7}, "text is a template or a function"),
        ({"group_by": "all of them"}, "group_by='all of them' has to depend on the record"),
        ({"group_wait_s": 5.0}, "group_wait_s needs group_by"),
        ({"group_wait_s": -1, "group_by": "service"}, "group_wait_s is a number of seconds from 0 on, not -1"),
        ({"group_wait_s": 4_000, "group_by": "service"}, "group_wait_s is at most 3,600 seconds"),
        ({"per_minute": 0}, "per_minute is a number of messages up to 10,000, or None, not 0"),
        ({"per_minute": True}, "per_minute is a number of messages"),
        ({"timeout_s": 0}, "timeout_s is a number of seconds above 0"),
        ({"url": "hooks.slack.com/services/hidden"}, "url is http://HOST/PATH or https://HOST/PATH"),
    ],
)
def test_a_wrong_argument_is_one_sentence(options: dict[str, Any], sentence: str) -> None:
    url = options.pop("url", "https://hooks.slack.com/services/hidden")
    with pytest.raises(ConfigurationError) as caught:
        Slack(url, **{"text": "{service}", **options})
    text = str(caught.value)
    assert text.startswith("Slack: ")
    assert sentence in text
    assert "hidden" not in text
    assert "\n" not in text


async def test_a_record_without_the_field_fails_and_says_which_there_are(server: HookServer) -> None:
    out = await sent(a_slack(server, "{hosst}"), Incident("api", "down"))
    assert "Incident has no field 'hosst'; it has service, state, host" in out.failed[0][1]
    assert not server.posted


async def test_retries_are_those_that_are_given(server: HookServer) -> None:
    server.answers = lambda posted: 404 if len(server.posted) == 1 else None
    out = await sent(a_slack(server, retries=Retries(again={404})), Incident("api", "down"))
    assert len(out.acked) == 1
    assert len(server.posted) == 2

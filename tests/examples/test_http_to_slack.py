"""The example on HTTP: reports that services post become one message in a channel, however often they are posted."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from example_kit import EXAMPLES
from server_kit import asked_now, free_port, hook_server, live, until

from examples.http_to_slack import DetectBurst, Error, Failing
from topology.testing import run_bolt

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
TOKEN = "a-token"
WITH_TOKEN = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
FILE = EXAMPLES / "http_to_slack.py"


def report(number: int, service: str = "shop", level: str = "error") -> bytes:
    at = NOON + timedelta(seconds=number)
    text = {"id": f"{service}-{number}", "service": service, "at": at.isoformat(), "level": level, "text": "no stock"}
    return json.dumps(text).encode()


def test_the_fifth_error_within_a_minute_begins_a_burst_and_the_sixth_does_not() -> None:
    errors = [Error("shop", NOON + timedelta(seconds=10 * number)) for number in range(6)]
    done = run_bolt(DetectBurst(5, 60.0), errors, by=("service",)).well()
    assert done.outputs == [Failing("shop", 5, NOON)]


def test_five_errors_in_two_minutes_are_no_burst() -> None:
    errors = [Error("shop", NOON + timedelta(seconds=30 * number)) for number in range(5)]
    assert run_bolt(DetectBurst(5, 60.0), errors, by=("service",)).well().outputs == []


@pytest.mark.timeout(150)
def test_bursts_of_two_services_are_one_message_though_each_report_is_posted_twice(tmp_path: Path) -> None:
    port = free_port()
    with hook_server() as slack:
        settings = {"slack": slack.url, "token": TOKEN, "address": f"127.0.0.1:{port}", "group_wait_s": 1.0}
        with live(FILE, tmp_path, **settings) as run:

            def is_up() -> bool:
                try:
                    return asked_now(port, b"", "/reports", WITH_TOKEN).status != 503
                except OSError:
                    return False

            until(is_up, "the port")
            assert asked_now(port, report(0), "/reports").status == 401, "without the token"
            refused = asked_now(port, b'{"id": "x"}', "/reports", WITH_TOKEN)
            assert refused.status == 400, "no report"
            posts = [report(number, service) for service in ("shop", "cart") for number in range(5)]
            posts += [report(number, "mail", "info") for number in range(9)]
            for post in [*posts, *posts]:
                assert asked_now(port, post, "/reports?wait=ack", WITH_TOKEN).status == 200
            until(lambda: len(slack.stored) >= 1, "a message")
            run.stop()
        (message,) = slack.stored.values()
        text = message.json["text"]
        assert "*shop* has failed 5 times" in text
        assert "*cart* has failed 5 times" in text
        assert "mail" not in text

"""`MqttSource` and `MqttSink` on a real server, by the suites that all sources and sinks go through."""

import secrets
from collections.abc import Iterator

import pytest
from answers_proxy import AnswersProxy
from mqtt_kit import PORT, Listener, MqttSinkSubject, MqttSourceSubject, reached

from topology.testing.sinks import SINK_CHECKS, check_sink
from topology.testing.sources import SOURCE_CHECKS, check_source

pytestmark = pytest.mark.service("mqtt")

# a server gives a message twice that was sent twice, so these hold for a reader that looks at the keys
BY_KEY = (
    "a_replay_after_a_restart_is_dropped_and_acked",
    "f43_a_store_that_is_away_fails_nothing_and_is_used_again_when_it_is_back",
    "close_fails_what_waits_and_does_not_wait_for_a_store_that_is_away",
    "c10_after_a_lost_answer_the_same_rows_are_there_once",
    "two_tasks_that_race_store_each_output_once",
    "f1_what_a_killed_process_has_acked_is_stored_and_the_rest_comes_once",
)


@pytest.fixture(scope="module")
def server() -> None:
    try:
        reached()
    except Exception as error:
        pytest.skip(f"no MQTT server to test with on port {PORT} ({error}); CONTRIBUTING.md says how to start one")


@pytest.fixture
def topic(server: None) -> str:
    return f"kedge-{secrets.token_hex(6)}"


@pytest.fixture
def proxy() -> Iterator[AnswersProxy]:
    one = AnswersProxy(PORT)
    yield one
    one.close()


@pytest.mark.parametrize("names", ["field", "nothing"])
@pytest.mark.parametrize("check", SOURCE_CHECKS)
def test_the_source_keeps_the_contract(check: str, names: str, topic: str, proxy: AnswersProxy) -> None:
    with MqttSourceSubject(topic, names).there() as subject:
        subject.proxy = proxy
        assert not check_source(check, subject)


@pytest.mark.parametrize("check", SINK_CHECKS)
def test_the_sink_keeps_the_contract(check: str, topic: str, proxy: AnswersProxy) -> None:
    subject = MqttSinkSubject(topic, check in BY_KEY)
    subject.proxy = proxy
    if check == "c6_it_says_for_how_long_it_remembers_and_what_an_ack_stands_for":
        sink = subject.make()
        assert not sink.drops_replays
        assert "MQTT" in sink.durability
        return
    with Listener(topic).there() as subject.listener:
        if left_out := check_sink(check, subject):
            assert "upsert" in left_out
            pytest.skip(left_out)

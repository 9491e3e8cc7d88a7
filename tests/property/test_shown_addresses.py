"""Addresses in errors and logs have no secrets, also if a password has characters that should have been escaped."""

import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from bolts.sinks.parquet.sink import ParquetSink
from bolts.sinks.redis.sink import RedisSink
from bolts.sinks.servers.amqp import AmqpPublisher, AmqpSink
from bolts.sinks.servers.mqtt import MqttSink
from topology.clients import amqp
from topology.clients.addresses import has_loose_at, without_secrets
from topology.clients.redis import RedisServer, checked_url
from topology.errors import ConfigurationError
from topology.secrets import Secret

TAIL = "broker.example/1"

# Beside the marks of URLs: letters and digits, so that parts of a password look like hosts, ports, paths and schemes.
passwords = st.one_of(
    st.text("/#?@:,%", min_size=4, max_size=8),
    st.text("/#?@:,%=ab12Z.-[]", min_size=4, max_size=20),
    st.from_regex(r"[0-9]{1,5}[/#?@:,%][A-Za-z0-9/#?@:,%=]{3,20}", fullmatch=True),
)


@example("SEC/RET", "nats", "bob")
@example("12/RET", "amqp", "bob")
@example("5673?RET", "amqp", "bob")
@example("SEC,RET", "nats", "bob")
@example("SEC#RET", "nats", "")
@example("a,b://c@d", "nats", "bob")
@example("1@h?token=2@3", "http", "bob")
@given(passwords, st.sampled_from(["nats", "amqp", "http", "s3", "redis"]), st.sampled_from(["bob", "", "a%40b"]))
def test_no_password_in_the_place_of_the_user_is_shown(password: str, scheme: str, user: str) -> None:
    assume(password not in f"{scheme}://{TAIL}")
    url = f"{scheme}://{user}:{password}@{TAIL}"
    for text in (url, f"{scheme}://first.example:1,{url}", f"{url},{scheme}://last.example:2", url.partition("://")[2]):
        assert password not in without_secrets(text)
        assert password not in without_secrets(Secret(text))


@example("12/RET")
@example("SEC?RET")
@given(passwords)
def test_no_part_of_a_password_is_shown_unless_it_has_an_address_of_its_own(password: str) -> None:
    assume(not re.search(r",[A-Za-z][\w+.-]*://", password))
    assert without_secrets(f"amqp://bob:{password}@{TAIL}") in (f"amqp://{TAIL}", "amqp://…")


@example("12/RET")
@example("5673?RET")
@example("SECRET/K7M")
@given(passwords)
def test_no_sink_shows_a_password_whether_it_takes_the_url_or_not(password: str) -> None:
    assume(password not in TAIL)
    shown = []
    for scheme in ("amqp", "mqtt", "redis", "s3"):
        url = Secret(f"{scheme}://bob:{password}@{TAIL}")
        try:
            if scheme == "amqp":
                sink = AmqpSink(url, routing_key="q")
                shown += [AmqpPublisher(sink).where, str(amqp.away(sink.url, TimeoutError("gone")))]
            elif scheme == "mqtt":
                shown.append(MqttSink(url, "t").access.where)
            elif scheme == "redis":
                address = checked_url("RedisSink", url, None)
                shown.append(RedisServer(address, needed_by="RedisSink", tls=None, key="k").where)
            else:
                ParquetSink(url)
        except ConfigurationError as error:
            shown.append(str(error).partition("\n  next:")[0])
    assert not [text for text in shown if password in text and password not in "%2F for /, %3F for ? and %23 for #"]


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("nats://broker:4222/path", "nats://broker:4222/path"),
        ("nats://bob:word@broker:4222/path?token=x#y", "nats://broker:4222/path"),
        ("nats://a:1,nats://bob:word@b:2, tls://[::1]:3", "nats://a:1, nats://b:2, tls://[::1]:3"),
        ("nats://a:1,b:2", "nats://a:1,b:2"),
        ("HTTP://host", "http://host"),
        ("bob:word/x@127.0.0.1:4222", "127.0.0.1:4222"),
        ("amqp://bob:word", "amqp://bob:…"),
        ("s3://key:word@", "s3://"),
        ("/login?next=word", "/login"),
        ("http://host/path?mail=a@word", "http://…"),
        ("tcp://[::1:5140", "tcp://[:…"),
    ],
)
def test_an_address_is_shown_without_its_secrets(address: str, shown: str) -> None:
    assert without_secrets(address) == shown


@pytest.mark.parametrize(
    ("url", "loose"),
    [
        ("amqp://bob:w@rd@host/vhost", False),
        ("amqp://bob:word@host/v@host", True),
        ("amqp://bob:12/word@host", True),
        ("amqp://bob:12?word@host", True),
        ("amqp://bob:12#word@host", True),
        ("amqp://host", False),
    ],
)
def test_an_at_after_the_host_is_seen(url: str, loose: bool) -> None:
    assert has_loose_at(url) is loose


@pytest.mark.parametrize("password", ["12/word", "12?word", "12#word"])
def test_a_url_whose_host_is_a_part_of_the_password_is_refused_with_the_escapes(password: str) -> None:
    for make in (
        lambda: AmqpSink(Secret(f"amqp://bob:{password}@host"), routing_key="q"),
        lambda: RedisSink(Secret(f"redis://bob:{password}@host"), "items"),
        lambda: MqttSink(Secret(f"mqtt://bob:{password}@host"), "items"),
    ):
        with pytest.raises(ConfigurationError, match="url has an @ after the host: in a password write %2F for /"):
            make()

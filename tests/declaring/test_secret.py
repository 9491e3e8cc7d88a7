"""`Secret` shows nothing of itself (S12), and references to secrets are looked up, or refused without a value."""

import copy
import json
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import Annotated, Any

import msgspec
import pytest

from topology import ConfigurationError, Secret
from topology.loading.settings import arguments, pairs, plain_secrets
from topology.secrets import BYTES_MAX, holds_password, names_secret, resolved

CANARY = "kanarienvogel-7f3a"


# -- the value


@pytest.mark.parametrize(
    "shown",
    [
        repr,
        str,
        "{}".format,
        "{0!r:>40}".format,
        lambda s: f"{s}",
        lambda s: f"{s:>40}",
        lambda s: Template("$s").substitute(s=s),
        ascii,
    ],
)
def test_s12_no_way_of_showing_a_secret_shows_it(shown: Callable[[Secret], str]) -> None:
    assert CANARY not in shown(Secret(CANARY))
    assert "Secret(…)" in shown(Secret(CANARY)) or "Secret(\\u2026)" in shown(Secret(CANARY))


@pytest.mark.parametrize(
    "encode",
    [
        json.dumps,
        msgspec.json.encode,
        msgspec.msgpack.encode,
        lambda s: s.__reduce_ex__(2),
        lambda s: s.__reduce_ex__(5),
        lambda s: copy.copy(s).__reduce_ex__(4),
        iter,
        len,
        "".join,
        lambda s: "" + s,
        lambda s: os.fspath(s),
    ],
)
def test_s12_a_secret_can_not_be_encoded_pickled_or_joined(encode: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError) as error:
        encode(Secret(CANARY))
    assert CANARY not in str(error.value)


def test_a_secret_is_revealed_where_it_is_asked_to_be() -> None:
    assert Secret(CANARY).reveal() == CANARY
    assert Secret(Secret(CANARY)).reveal() == CANARY


def test_secrets_are_equal_by_their_texts_and_never_to_a_str() -> None:
    assert Secret(CANARY) == Secret(CANARY)
    assert Secret(CANARY) != Secret(CANARY + "x")
    assert Secret("ü") == Secret("ü")
    assert Secret(CANARY) != CANARY
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
    assert Secret("a")
    assert not Secret("")


def test_a_prototype_with_a_secret_can_be_copied_for_each_task() -> None:
    secret = Secret(CANARY)
    assert copy.deepcopy({"password": secret}) == {"password": secret}
    assert copy.copy(secret) is secret


def test_a_secret_does_not_change_and_is_made_of_text() -> None:
    with pytest.raises(AttributeError):
        Secret("a")._text = "b"  # type: ignore[misc]
    with pytest.raises(TypeError) as error:
        Secret(CANARY.encode())  # type: ignore[arg-type]
    assert CANARY not in str(error.value)


# -- references


def test_env_and_file_are_looked_up_and_another_text_is_the_secret_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_NAME", CANARY)
    (tmp_path / "secret").write_text(CANARY + "\n")
    (tmp_path / "link").symlink_to("secret")
    for text in ("env:CANARY_NAME", f"file:{tmp_path}/secret", f"file:{tmp_path}/link", CANARY):
        assert resolved(text, "--set password=…").reveal() == CANARY


@pytest.mark.parametrize(
    ("content", "secret"),
    [(b"a\n\n", "a\n"), (b"a\r\n", "a"), (b" a ", " a "), (b"\n a", "\n a"), ("ü".encode(), "ü")],
)
def test_of_a_file_one_line_end_is_left_out_and_nothing_else(content: bytes, secret: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(content)
    assert resolved(f"file:{tmp_path}/secret", "x").reveal() == secret


def test_s12_what_can_not_be_looked_up_is_one_sentence_with_the_option_and_no_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CANARY_NAME", raising=False)
    monkeypatch.setenv("CANARY_EMPTY", "")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "empty").write_bytes(b"\n")
    (tmp_path / "long").write_bytes(CANARY.encode() * BYTES_MAX)
    (tmp_path / "bytes").write_bytes(CANARY.encode() + b"\xff")
    for text, said in (
        ("env:CANARY_NAME", "there is no variable CANARY_NAME in the environment"),
        ("env:CANARY_EMPTY", "the variable CANARY_EMPTY is empty"),
        ("env:", "env: is followed by the name of a variable"),
        ("file:", "file: is followed by a path"),
        (f"file:{tmp_path}/none", f"the file {tmp_path}/none can't be read: No such file or directory"),
        (f"file:{tmp_path}/folder", f"the file {tmp_path}/folder is no regular file"),
        (f"file:{tmp_path}/fifo", f"the file {tmp_path}/fifo is no regular file"),
        ("file:/dev/zero", "the file /dev/zero is no regular file"),
        (f"file:{tmp_path}/empty", f"the file {tmp_path}/empty is empty"),
        (f"file:{tmp_path}/long", f"the file {tmp_path}/long is longer than 65,536 bytes"),
        (f"file:{tmp_path}/bytes", f"the file {tmp_path}/bytes is not UTF-8"),
    ):
        with pytest.raises(ConfigurationError) as error:
            resolved(text, "--set password=…")
        assert str(error.value) == f"--set password=…: {said}"
        assert CANARY not in "".join(traceback.format_exception(error.value))


# -- the option


def with_secret(password: Secret, maybe: Secret | None = None, noted: Annotated[Secret | None, "x"] = None) -> None: ...


def with_dsn(dsn: str = "postgresql://") -> None: ...


def test_parameters_annotated_with_secret_take_references(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_NAME", CANARY)
    given = pairs(["password=env:CANARY_NAME", "maybe=env:CANARY_NAME", "noted=plain"], "--set")
    assert arguments(with_secret, given, "x") == {
        "password": Secret(CANARY),
        "maybe": Secret(CANARY),
        "noted": Secret("plain"),
    }
    assert plain_secrets(with_secret, given) == ["noted"]
    assert arguments(with_secret, {"password": "a", "maybe": "null"}, "x")["maybe"] is None


def test_other_parameters_have_env_and_file_as_their_text() -> None:
    assert arguments(with_dsn, {"dsn": "env:CANARY_NAME"}, "x") == {"dsn": "env:CANARY_NAME"}
    assert plain_secrets(with_dsn, {"dsn": "env:CANARY_NAME"}) == []


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://me:{CANARY}@host/db",
        f"postgresql://:{CANARY}@/db",
        f"host=h password={CANARY}",
        f"password = '{CANARY}'",
        f"postgresql://host/db?user=me&password={CANARY}",
        f"host=h sslpassword={CANARY}",
    ],
)
def test_a_password_in_a_connection_string_is_seen(dsn: str) -> None:
    assert holds_password(dsn)
    assert plain_secrets(with_dsn, {"dsn": dsn}) == ["dsn"]


@pytest.mark.parametrize(
    "text", ["postgresql://me@host/db", "host=h user=me", "http://host:80/a@b", "path/password.txt", "a:b@c", "12"]
)
def test_where_there_is_no_password_none_is_seen(text: str) -> None:
    assert not holds_password(text)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([f"pasword={CANARY}"], "--set pasword=…: x takes no 'pasword'; did you mean 'password'?"),
        ([f"password={CANARY}", f"password={CANARY}2"], "--set password=… is given twice"),
    ],
)
def test_s12_a_mistyped_option_does_not_repeat_what_may_be_secret(given: list[str], said: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        arguments(with_secret, pairs(given, "--set"), "x")
    assert str(error.value).startswith(said)
    assert CANARY not in "".join(traceback.format_exception(error.value))


# -- settings of another program's


@pytest.mark.parametrize(
    ("key", "is_secret"),
    [
        ("spark.hadoop.fs.s3a.secret.key", True),
        ("spark.hadoop.fs.s3a.access.key", True),
        ("spark.hadoop.fs.s3a.encryption.key", True),
        ("spark.hadoop.fs.azure.account.key.shop.dfs.core.windows.net", True),
        ("spark.hadoop.fs.gs.auth.service.account.private.key", True),
        ("spark.ssl.keyPassword", True),
        ("spark.ssl.rpc.privateKey", False),  # the path of a file
        ("spark.io.encryption.keySizeBits", False),
        ("spark.sql.session.timeZone", False),
    ],
)
def test_a_setting_is_a_secret_by_its_name(key: str, is_secret: bool) -> None:
    """S12."""
    assert names_secret(key) == is_secret

"""Keeps secrets out of answers that repeat what was sent. Pure."""

import base64
import binascii
import html
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import quote, unquote, unquote_plus

from topology.secrets import Secret

SECRET_MIN: Final = 3  # characters of a secret that an answer must not show
WORD_MIN: Final = 8  # characters of a part of a path, which may be a common word if it is shorter
SCHEMES: Final = ("basic", "bearer", "digest", "token")  # of passwords in headers; these words are no secrets

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)\??(.*)", re.DOTALL)


def hidden_parts(url: Secret, secrets: Iterable[Secret]) -> list[str]:
    """Return the texts that an answer must not show, the longest first: parts of the address, and these secrets.

    Each is there as it is, without percent-escapes, and as escaped for URLs, HTML and JSON.
    """
    found = {part for part in _parts_of_url(url.reveal()) if len(part) >= SECRET_MIN}
    for secret in secrets:
        found.update(part for part in _parts_of_secret(secret.reveal()) if len(part) >= SECRET_MIN)
    plain = found | {unquote(part) for part in found} | {unquote_plus(part) for part in found}
    escaped = {form for part in plain for form in (quote(part, safe=""), html.escape(part), json.dumps(part)[1:-1])}
    return sorted((part for part in plain | escaped if len(part) >= SECRET_MIN), key=lambda part: (-len(part), part))


def without_parts(text: str, parts: Sequence[str]) -> str:
    """Return the text without these parts, in letters of either case."""
    for part in parts:
        text = re.sub(re.escape(part), "…", text, flags=re.IGNORECASE)
    return text


def _parts_of_url(url: str) -> Iterator[str]:
    found = _URL.match(url)
    if found is None:
        return
    _, netloc, path, query = found.groups()
    yield from _parts_of_user(netloc.rpartition("@")[0])
    if "@" in url[found.end(2) :]:  # a password with / in it, which ends the host too early
        yield from re.split("[:/?#@]", url.partition("://")[2].rpartition("@")[0])
    for pair in re.split("[&;#]", query):
        yield pair.partition("=")[2] or pair
    yield from (part for part in (*path.split("/"), *re.split("[/:@,;=]", path)) if len(part) >= WORD_MIN)


def _parts_of_user(user_info: str) -> Iterator[str]:
    """Yield a user and a password, alone, together, and as the header Authorization has them."""
    user, _, password = user_info.partition(":")
    yield from (user_info, user, password)
    for charset in ("utf-8", "latin-1"):
        with suppress(UnicodeError):
            yield base64.b64encode(unquote(f"{user}:{password}").encode(charset)).decode() if user_info else ""


def _parts_of_secret(secret: str) -> Iterator[str]:
    yield secret
    words = [word for word in re.split(r"[\s=&,;]+", secret) if word.lower() not in SCHEMES]
    yield from words
    if secret.lower().startswith("basic "):
        with suppress(binascii.Error, UnicodeError):
            yield from _parts_of_user(base64.b64decode(secret.split()[-1]).decode())

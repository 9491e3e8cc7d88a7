"""Bodies of requests, split into payloads: the values that a parser of JSON gives, and nothing for any other text."""

import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spouts.http.bodies import BodyReader, BodySplitter, HeldBytes
from spouts.http.refusals import HttpRefusal

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
SPLITTER = BodySplitter(100, is_checked=False)


@given(st.lists(VALUES, max_size=20), st.sampled_from(["", " ", "\n\t"]), st.booleans())
def test_an_array_is_split_into_its_elements(values: list[Any], blank: str, ascii: bool) -> None:
    texts = [json.dumps(value, ensure_ascii=ascii) for value in values]
    try:
        body = f"{blank}[{blank}{f'{blank},{blank}'.join(texts)}{blank}]{blank}".encode()
    except UnicodeEncodeError:  # a lone surrogate
        return
    payloads, is_batch = SPLITTER.payloads(body, "application/json")
    assert is_batch
    assert [json.loads(payload) for payload in payloads] == values
    lines, is_batch = SPLITTER.payloads("\r\n".join(texts).encode(), "application/x-ndjson")
    assert is_batch
    assert [json.loads(line) for line in lines] == values


@given(st.binary(max_size=40) | st.text('[]{}",:1e-. \\u0tfn', max_size=40).map(str.encode))
def test_any_other_bytes_are_refused_and_raise_nothing_else(body: bytes) -> None:
    try:
        wanted: Any = json.loads(body.decode(), parse_constant=lambda name: int(name))
    except (ValueError, RecursionError):
        wanted = None
        is_json = False
    else:
        is_json = True
    if not is_json:
        with pytest.raises(HttpRefusal):
            SPLITTER.payloads(body, "application/json")
        return
    payloads, is_batch = SPLITTER.payloads(body, "application/json")
    found = [json.loads(payload) for payload in payloads]
    assert (found if is_batch else found[0]) == wanted


@given(st.binary(max_size=3_000), st.integers(1, 500), st.integers(1, 3))
async def test_a_packed_body_is_unpacked_however_it_is_cut(data: bytes, size: int, members: int) -> None:
    step = len(data) // members + 1
    packed = b"".join(gzip.compress(data[at : at + step]) for at in range(0, max(len(data), 1), step))

    async def chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(packed), size):
            yield packed[at : at + size]

    held = HeldBytes()
    with BodyReader(held, 100_000, 10) as reader:
        assert await reader.read(chunks(), packed=True) == data
        assert held.count == len(data)
    assert held.count == 0
    if len(data) > 1 and len(packed) <= len(data):
        with pytest.raises(HttpRefusal), BodyReader(held, len(data) - 1, 10) as reader:
            await reader.read(chunks(), packed=True)
        assert held.count == 0

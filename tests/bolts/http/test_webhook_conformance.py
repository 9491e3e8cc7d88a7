"""`WebHook` to a real server that drops known keys, by the suite that all sinks go through."""

from collections.abc import Iterator

import pytest
from hook_kit import HookServer, HookSubject, hook_server

from topology.testing.sinks import SINK_CHECKS, check_sink


@pytest.fixture
def server() -> Iterator[HookServer]:
    with hook_server() as one:
        yield one


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("check", SINK_CHECKS)
def test_the_web_hook_keeps_the_contract(check: str, concurrency: int, server: HookServer) -> None:
    left_out = check_sink(check, HookSubject(server, concurrency=concurrency))
    if left_out:
        pytest.skip(left_out)

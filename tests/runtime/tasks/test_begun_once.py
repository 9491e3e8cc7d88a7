"""A7 on the hot path: the trees of new messages are new."""

from collections import deque
from typing import Any

import pytest

from acker.ledger import Ledger
from acker.roots import ROOT_STEP
from topology import Message, Record
from topology.core.source import Source
from topology.runtime.hot.hot_path import Plain, begin
from topology.runtime.hot.open_trees import OpenTrees


class Login(Record):
    user: str


@pytest.mark.parametrize("old", [False, True])
def test_messages_do_not_begin_with_a_root_that_is_open(old: bool) -> None:
    """Neither with a young one, nor with one of the old generation."""
    ledger: Ledger[Any] = Ledger(30.0, now=0.0, table=OpenTrees)
    plain = Plain(Login, 1, 2, Source("logins", "Login", 0), None, [deque()])
    messages = [Message(Login("root"), id=number) for number in range(3)]
    assert begin(plain, messages, 7, 2 * ROOT_STEP, None, 0.0, ledger) == 3
    if old:
        ledger.advance(0.9)
        ledger.timeout_s = ledger._due = 1.0
        assert ledger.advance(1.1) == []
        assert len(ledger.young) == 0
    with pytest.raises(AssertionError, match="a root is begun once"):
        begin(plain, messages, 7, ROOT_STEP, None, 0.0, ledger)

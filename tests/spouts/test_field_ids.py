"""The contents of messages that a field names are remembered as long as their names."""

import pytest

import spouts.broker.unconfirmed as module
from spouts.broker.unconfirmed import Unconfirmed


def test_other_content_under_a_name_is_told_while_it_is_under_way_and_when_it_is_settled() -> None:
    names = Unconfirmed()
    assert not names.has_other(("", "a"), b"1")
    assert names.is_new(("", "a"), "handle")
    assert names.has_other(("", "a"), b"2")
    assert not names.has_other(("other", "a"), b"2"), "another partition"
    names.settle(("", "a"))
    assert names.has_other(("", "a"), b"2")
    assert not names.has_other(("", "a"), b"1")


def test_a_content_is_forgotten_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLED_MAX", 2)
    names = Unconfirmed()
    for name in "abc":
        assert not names.has_other(("", name), b"1")
        assert names.is_new(("", name), "handle")
        names.settle(("", name))
    assert names.has_other(("", "b"), b"2")
    assert not names.has_other(("", "a"), b"2"), "it is another message now"

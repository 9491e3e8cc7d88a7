"""Templates: plain names of fields, and nothing that reaches further."""

from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest
from alert_kit import NOON, Incident

from bolts.alerts.templates import cut, name_maker, text_maker
from bolts.sinks.values import BadValue
from topology.errors import ConfigurationError
from topology.records import Record

DOWN = Incident("api", "down", number=7)


class Level(Enum):
    HIGH = "high"


class Everything(Record):
    level: Level
    real: float
    nothing: None = None


def made(template: Any, record: Record = DOWN) -> str:
    return text_maker("Slack", "text", template)(record)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{service} is {state}", "api is down"),
        ("no field", "no field"),
        ("", ""),
        ("{{literal}}", "{literal}"),
        ("{number:03d} at {at:%H:%M}", "007 at 12:00"),
        ("since {at}", "since 2026-03-01 12:00:00 UTC"),
        ("{over_at}", "None"),
    ],
)
def test_fields_stand_for_their_values(template: str, text: str) -> None:
    assert made(template) == text


def test_an_enum_is_its_value_and_a_format_is_pythons() -> None:
    assert made("{level} {real:.1f}", Everything(Level.HIGH, 2.345)) == "high 2.3"


@pytest.mark.parametrize(
    "template",
    [
        "{a.__class__}",
        "{a.b}",
        "{a[0]}",
        "{0}",
        "{}",
        "{a!r}",
        "{a:{b}}",
        "{a",
        "a}",
        "{a b}",
        "{a-b}",
        "{ a }",
        "{__init__.__globals__}",
    ],
)
def test_a_template_that_reaches_further_is_refused_by_one_sentence(template: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        text_maker("Slack", "text", template)
    text = str(caught.value)
    assert text.startswith("Slack: text=")
    assert "is no template" in text
    assert "\n" not in text


@pytest.mark.parametrize("name", ["__class__", "__init__", "__struct_fields__", "hosst"])
def test_only_fields_are_named_by_a_template(name: str) -> None:
    with pytest.raises(BadValue, match=f"Incident has no field '{name}'; it has service, state, host, number"):
        made(f"{{{name}}}")


def test_a_format_that_does_not_fit_a_value_fails_its_record() -> None:
    with pytest.raises(BadValue, match=r"Incident\.service has no format 'd'"):
        made("{service:d}")


def test_a_function_makes_a_text_and_its_error_is_told() -> None:
    assert made(lambda incident: incident.service.upper()) == "API"
    with pytest.raises(BadValue, match="its text could not be made: AttributeError"):
        made(lambda incident: incident.missing)
    with pytest.raises(BadValue, match="its text is a text, and the function returned a int"):
        made(lambda incident: 7)


@pytest.mark.parametrize("given", [None, 7, b"x", ["{service}"]])
def test_another_type_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="Slack: text is a template or a function of the record"):
        text_maker("Slack", "text", given)


@pytest.mark.parametrize("given", ["service", "{service}", lambda incident: incident.service])
def test_a_name_is_a_field_a_template_or_a_function(given: Any) -> None:
    assert name_maker("Slack", "group_by", given)(DOWN) == "api"


@pytest.mark.parametrize("given", ["", "the same for all", "{{service}}", 7])
def test_a_name_that_is_the_same_for_all_records_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^PagerDuty: dedup_key"):
        name_maker("PagerDuty", "dedup_key", given)


@pytest.mark.parametrize("made", [None, 7, b"api", ["api"]])
def test_a_name_that_is_no_text_fails_its_record(made: Any) -> None:
    name_of = name_maker("PagerDuty", "dedup_key", lambda incident: made)
    with pytest.raises(BadValue, match=rf"its dedup_key is a text, and the function returned a {type(made).__name__}"):
        name_of(DOWN)


@pytest.mark.parametrize("given", ["state", "{state}", lambda incident: ""])
def test_an_empty_name_fails_its_record(given: Any) -> None:
    with pytest.raises(BadValue, match="its dedup_key is empty"):
        name_maker("PagerDuty", "dedup_key", given)(Incident("api", ""))


def test_a_time_of_another_format_has_no_zone_added() -> None:
    assert made("{at:%d.%m.}") == "01.03."
    assert datetime(2026, 3, 1, 12, tzinfo=UTC) == NOON


def test_a_long_text_is_cut() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abcde…"


def test_a_group_may_have_an_empty_name() -> None:
    assert name_maker("Slack", "group_by", "service", empty=True)(Incident("", "down", number=7)) == ""

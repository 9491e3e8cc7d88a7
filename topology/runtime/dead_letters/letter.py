"""Dead letters as values: a `Letter` from a message and its last failure, and the `DeadLetter` that readers get.

Pure. Texts are cut, and can always be stored and sent. The bytes of the record are complete. Must not
know stores, nor when a message is dead.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from acker.identity import MessageId, death_identity
from topology.components import Message
from topology.dead_letters import DeadLetter
from topology.errors import RecordError
from topology.records import Record, decoder, encode
from topology.runtime.failures import Failure
from topology.storage.values import Letter
from topology.text import escaped
from topology.user_frames import shown

TEXT_MAX: Final = 2_000  # characters of a record, for people
PROBLEM_MAX: Final = 2_000  # characters of an error's text
TRACEBACK_MAX: Final = 20_000  # characters of the user's frames

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class LetterProblem(Exception):
    """The reason why a letter can't be replayed, as part of a sentence."""


def letter_of(
    message: Message[Any],
    failure: Failure,
    *,
    component: str,
    task: int,
    epoch: str,
    pair: tuple[int, int],
    attempts: int,
    deaths: int,
    died_at: datetime,
) -> Letter:
    """Return the letter of a dead message, without a name yet. Never raises: a record without a byte form is stored as
    text only."""
    try:
        record = encode(message.record)
    except RecordError:
        record = b""
    kept = type(message.id) in (int, str, bytes)
    return with_failure(
        Letter(
            name="",
            component=component,
            task=task,
            partition=message.partition,
            epoch=epoch,
            id=message.id if kept else _plain(shown(message.id, TEXT_MAX)),
            at=message.at,
            origin=pair[0],
            identity=pair[1],
            record_class=type(message.record).__name__,
            record=record,
            text=_plain(shown(message.record, TEXT_MAX)),
            failed_in="",
            reason="",
            code="",
            problem="",
            traceback="",
            attempts=0,
            deaths=0,
            died_at=died_at,
        ),
        failure,
        attempts=attempts,
        deaths=deaths,
        died_at=died_at,
    )


def with_failure(letter: Letter, failure: Failure, *, attempts: int, deaths: int, died_at: datetime) -> Letter:
    """Return the letter after this failure: the last failure of a message, or of its replay by hand."""
    return altered(
        letter,
        failed_in=failure.component,
        reason=failure.reason.value,
        code=str(failure.code),
        problem=escaped(failure.text[:PROBLEM_MAX])[:PROBLEM_MAX],
        traceback=_plain(failure.traceback()[:TRACEBACK_MAX]),
        attempts=letter.attempts + attempts,
        deaths=letter.deaths + deaths,
        died_at=died_at,
        replaying=False,
        served=True,
        unheard="",
        begun=0,
    )


def altered(letter: Letter, **fields: Any) -> Letter:
    """Return the letter with these fields changed."""
    return msgspec.structs.replace(letter, **fields)


def size_of(letter: Letter) -> int:
    """Return about how many bytes a letter takes."""
    return len(letter.record) + len(letter.text) + len(letter.problem) + len(letter.traceback)


def news_of(letter: Letter, *, kept: bool) -> tuple[DeadLetter, int, int]:
    """Return what subscribers get for a letter, with its origin and identity. `kept` is True if `kedge dead` lists the
    letter."""
    news = DeadLetter(
        letter.name if kept else "",
        letter.component,
        _plain(letter.partition),
        id_text(letter.id),
        letter.record_class,
        letter.record,
        letter.text,
        letter.failed_in,
        letter.reason,
        letter.problem,
        letter.traceback,
        letter.attempts,
        letter.deaths,
        letter.died_at,
    )
    at_us = (letter.died_at - _EPOCH) // timedelta(microseconds=1)
    return news, letter.origin or 1, death_identity(letter.identity, letter.attempts, at_us)


def same_death(one: Letter, other: Letter) -> bool:
    """Return True if both are about the same death of the message."""
    return (one.name, one.died_at, one.attempts) == (other.name, other.died_at, other.attempts)


def message_of_letter(letter: Letter, classes: Mapping[str, type[Record]]) -> Message[Any]:
    """Return the message as it was emitted. `classes` are those that its spout emits now, by name. Raises
    LetterProblem."""
    cls = classes.get(letter.record_class)
    if cls is None:
        named = ", ".join(classes) or "nothing"
        raise LetterProblem(f"{letter.component!r} emits no {letter.record_class} any more; it emits {named}")
    if not letter.identity:
        raise LetterProblem("its id is no int, str or bytes, so nothing could recognise the message")
    try:
        record = decoder(cls)(letter.record)
    except RecordError as error:
        raise LetterProblem(str(error)) from None
    return Message(record, letter.id, letter.partition, letter.at)


def id_text(message_id: MessageId) -> str:
    """Return a message's id for people, in one line."""
    return escaped(message_id) if isinstance(message_id, str) else str(message_id)


def _plain(text: str) -> str:
    """Return a text that has a byte form: lone surrogates are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()

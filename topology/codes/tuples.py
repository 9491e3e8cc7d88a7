"""K6xx: tuples and records that a bolt or grouping of the user's can't have as it wants. Words only."""

from typing import Final

from topology.codes.code import FRESH, Code

INVALID_GROUPING_KEY: Final = Code(
    "K601",
    "A value that can't be a key",
    "Equal keys go to one task, so a key has to be equal to itself and the same everywhere: NaN is not, and a "
    "datetime without a time zone is not.",
    "group by another field, or give the field a value that can be compared.",
)
GROUPING_WITHOUT_CHOOSE: Final = Code(
    "K602",
    "A custom grouping without choose",
    "A custom grouping says which tasks a record goes to by choose(self, record, tasks).",
    "define it: it returns indexes of tasks, 0 to tasks - 1.",
)
GROUPING_CHOSE_UNKNOWN_TASK: Final = Code(
    "K603",
    "A custom grouping chose a task that is not there",
    "choose returns the indexes of the target tasks, 0 to tasks - 1.",
    "return a list of such indexes.",
)
DIRECT_EMIT_WITHOUT_TASK: Final = Code(
    "K604",
    "A direct emission without its task",
    "A subscriber that reads by direct() is sent a record by naming one of its tasks.",
    "write out.emit(record, task=n), with n below the number of its tasks.",
)
UNDECLARED_RECORD_CLASS: Final = Code(
    "K605",
    "A record that the component does not declare",
    "The annotations of a component say which record classes it emits, and this is none of them.",
    "add the class to the annotation of process, or to Collector[…].",
)
PROCESS_RETURNED_NO_ITERABLE: Final = Code(
    "K606",
    "process returned no iterable",
    "process yields records, returns an iterable of them, or returns None.",
    "yield the record, or return [record].",
)
TOO_MANY_RECORDS_EMITTED: Final = Code(
    "K607",
    "Too many records for one input",
    "What process gives for one input is held until all of it is there, so it has a limit.",
    "use execute, and await out.drain() between emissions.",
)
KEY_WITHOUT_ANCHOR: Final = Code(
    "K608",
    "A key without an anchor",
    "emit(record, key=…) names an emission among those of its anchors, and this one has none.",
    "give it an anchor, or leave the key out.",
)
TOO_MANY_OPEN_JOINS: Final = Code(
    "K609",
    "Too many joins are not done",
    "What is anchored to the tuples of more than eight messages is followed by a tree of its own, until all of those "
    "messages are done; of such trees one worker has 65,536 at most.",
    "emit fewer and larger joins; look for the message that is not done, and holds them all up.",
)
CONCURRENT_UNKEYED_EMITS: Final = Code(
    "K610",
    "Several asyncio tasks emit for one input",
    "Emissions are named by their order, so that a replay's are the same ones, and tasks that run side by side have "
    "none.",
    "give each emission a key of its own: out.emit(record, key=…).",
)
DUPLICATE_EMIT_KEY: Final = Code(
    "K611",
    "A key emitted twice",
    "A key names one emission of an input; two tuples would have one identity, and a sink would drop the second.",
    "use another key.",
)
TUPLE_ALREADY_FINISHED: Final = Code(
    "K612",
    "A tuple that is finished already",
    "A bolt has emitted on, acked or failed a tuple that it had acked or failed before, or that the runtime has "
    "given up.",
    "finish each tuple once, and emit before that.",
)
PROCESS_FINISHES_INPUT: Final = Code(
    "K613",
    "process finishes its inputs by itself",
    "Where a bolt defines process, returning acks the input and raising fails it.",
    "define execute in place of process, where tuples are to be held.",
)
MUTABLE_STATE_VALUE: Final = Code(
    "K614",
    "A state's value that can change",
    "A value is kept as it is until the input is done, and put back where it fails, so nothing may change it in place.",
    "use tuples, frozensets and records.",
)
UNENCODABLE_RECORD: Final = Code(
    "K615",
    "A record that can't be encoded",
    "A field holds a value that has no byte form: a number over 64 bits, a text with half a character, another type.",
    "mend what is put into the field.",
)
INVALID_RECORD_BYTES: Final = Code(
    "K616",
    "Bytes that are no record of this class",
    "Bytes are decoded by the types of the class's fields, and these are not of them.",
    "decode with the class that they were encoded from.",
)
RECORD_ROUND_TRIP_FAILED: Final = Code(
    "K617",
    "A record that would not survive the wire",
    "The test kit sends each record through its byte form, and this one can't be encoded, or comes out as another.",
    "put into each field what its annotation says.",
)
UNCOUNTABLE_RECORD: Final = Code(
    "K618",
    "A record that can't be counted",
    "A CountWithin asks its subclass for each record's event time, a datetime with a zone, and for how many it stands "
    "for. Of one key, no more than `most` records may wait to be decided.",
    "mend at(record) or weight(record); where too many wait, lower lateness_s or raise most.",
)
STATE_VALUE_TYPE_MISMATCH: Final = Code(
    "K619",
    "A state of another type than its annotation says",
    "State is kept as bytes, and read as the type in `state: State[…]`. A value of another type was set, or what an "
    "earlier version of the bolt has kept can't be read as this one's.",
    f"set values of the declared type. After a change of the type, export the state and import it; or {FRESH}.",
)
INVALID_TIMER: Final = Code(
    "K620",
    "A timer that can't be set",
    "A timer is set by state.timer(at, name), for a time with a zone, in a bolt that defines on_timer(self, key, name, "
    "state), and a key has 100 at most.",
    "give a time in UTC, as datetime.now(UTC) + timedelta(seconds=…), and define on_timer.",
)
REPLAYED_OUTPUT_UNDECLARED: Final = Code(
    "K621",
    "What a bolt had put out, as a record that it does not emit any more",
    "A replay of a known input sends what that had put out, which is kept as bytes of its class. The bolt does not "
    "emit this class any more, or its fields have changed since.",
    "run with the class as it was until nothing is in flight, or drop the dead letter: kedge dead drop.",
)
RECORD_COLUMNS_MISMATCH: Final = Code(
    "K622",
    "Columns that are no records of this class",
    "What Spark gives back becomes records, and its columns are not the fields of the class: by name, by type, or by "
    "nulls where a field is never None.",
    "have the query select columns of these names and types, or declare another output class.",
)
TASK_WITHOUT_DIRECT_READER: Final = Code(
    "K627",
    "A task was named for readers that do not read by direct()",
    "emit(record, task=n) is for subscribers that read the stream by direct(). None of them does, so each would have "
    "chosen a task by its own grouping, and not the one that was named.",
    "subscribe by direct(), or leave out task=.",
)

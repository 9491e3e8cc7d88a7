"""K6xx: invalid tuples and records from a bolt or grouping of the user. Text only."""

from typing import Final

from topology.codes.code import FRESH, Code

INVALID_GROUPING_KEY: Final = Code(
    "K601",
    "Invalid grouping key",
    "Equal keys go to one task, so a key has to be equal to itself and the same on every machine. NaN is not, and a "
    "datetime without a time zone is not.",
    "group by another field, or give the field a value that can be compared.",
)
GROUPING_WITHOUT_CHOOSE: Final = Code(
    "K602",
    "Custom grouping without choose",
    "A custom grouping selects the tasks of a record in choose(self, record, tasks).",
    "define it: it returns indexes of tasks, 0 to tasks - 1.",
)
GROUPING_CHOSE_UNKNOWN_TASK: Final = Code(
    "K603",
    "Custom grouping chose an unknown task",
    "choose returns the indexes of the target tasks, 0 to tasks - 1.",
    "return a list of such indexes.",
)
DIRECT_EMIT_WITHOUT_TASK: Final = Code(
    "K604",
    "Direct emission without a task",
    "A subscriber that reads by direct() gets a record only if the emission names one of its tasks.",
    "write out.emit(record, task=n), with n below the number of its tasks.",
)
UNDECLARED_RECORD_CLASS: Final = Code(
    "K605",
    "Undeclared record class",
    "The annotations of a component name the record classes that it emits. The class of this record is not one of "
    "them.",
    "add the class to the annotation of process, or to Collector[…].",
)
PROCESS_RETURNED_NO_ITERABLE: Final = Code(
    "K606",
    "process did not return an iterable",
    "process yields records, returns an iterable of them, or returns None.",
    "yield the record, or return [record].",
)
TOO_MANY_RECORDS_EMITTED: Final = Code(
    "K607",
    "Too many records for one input",
    "Kedge holds the records of process for one input until all of them are there, so their number has a limit.",
    "use execute, and await out.drain() between emissions.",
)
KEY_WITHOUT_ANCHOR: Final = Code(
    "K608",
    "Emission with a key but without an anchor",
    "emit(record, key=…) names an emission among those of its anchors. This emission has no anchor.",
    "give it an anchor, or leave out the key.",
)
TOO_MANY_OPEN_JOINS: Final = Code(
    "K609",
    "Too many unfinished joins",
    "An emission anchored to the tuples of more than eight messages gets its own tree, which lives until all of those "
    "messages are done. One worker has 65,536 such trees at most.",
    "emit fewer and larger joins; find the unfinished message that holds all of them up.",
)
CONCURRENT_UNKEYED_EMITS: Final = Code(
    "K610",
    "Several asyncio tasks emit for one input",
    "Kedge names emissions by their order, so that a replay names them the same. Tasks that run concurrently have no "
    "fixed order.",
    "give each emission a key of its own: out.emit(record, key=…).",
)
DUPLICATE_EMIT_KEY: Final = Code(
    "K611",
    "Duplicate key of an emission",
    "A key names one emission of an input. Two tuples with one key would have the same identity, and a sink would "
    "drop the second.",
    "use another key.",
)
TUPLE_ALREADY_FINISHED: Final = Code(
    "K612",
    "Tuple is already finished",
    "A bolt emitted on, acked or failed a tuple that it had already acked or failed, or that the runtime had given up.",
    "finish each tuple once, and emit before that.",
)
PROCESS_FINISHES_INPUT: Final = Code(
    "K613",
    "Ack or fail called on an input of process",
    "If a bolt defines process, returning acks the input and raising fails it.",
    "define execute instead of process, if the bolt has to hold tuples.",
)
MUTABLE_STATE_VALUE: Final = Code(
    "K614",
    "Mutable value of a state",
    "Kedge keeps a value until the input is done, and puts it back if the input fails. So no code may change the "
    "value in place.",
    "use tuples, frozensets and records.",
)
UNENCODABLE_RECORD: Final = Code(
    "K615",
    "Record cannot be encoded",
    "A field holds a value that has no byte form: a number over 64 bits, a text with half a character, another type.",
    "fix the value that your code puts into the field.",
)
INVALID_RECORD_BYTES: Final = Code(
    "K616",
    "Invalid bytes for the record class",
    "Kedge decodes bytes by the types of the class's fields, and these bytes do not have those types.",
    "decode with the class that they were encoded from.",
)
RECORD_ROUND_TRIP_FAILED: Final = Code(
    "K617",
    "Record changes on its way through bytes",
    "The test kit encodes and decodes each record. This record cannot be encoded, or differs after decoding.",
    "put into each field a value of its annotated type.",
)
UNCOUNTABLE_RECORD: Final = Code(
    "K618",
    "Record cannot be counted",
    "A CountWithin asks its subclass for each record's event time, a datetime with a zone, and for its weight, the "
    "number that it counts for. Of one key, no more than `most` records may wait to be decided.",
    "fix at(record) or weight(record); if too many records wait, lower lateness_s or raise most.",
)
STATE_VALUE_TYPE_MISMATCH: Final = Code(
    "K619",
    "State has another type than its annotation",
    "Kedge keeps state as bytes, and reads it as the type in `state: State[…]`. Either the bolt set a value of "
    "another type, or the value kept by an earlier version of the bolt cannot be read as the new type.",
    f"set values of the declared type. After a change of the type, export the state and import it; or {FRESH}.",
)
INVALID_TIMER: Final = Code(
    "K620",
    "Invalid timer",
    "state.timer(at, name) sets a timer for a time with a zone, in a bolt that defines on_timer(self, key, name, "
    "state). A key has 100 timers at most.",
    "pass a time in UTC, such as datetime.now(UTC) + timedelta(seconds=…), and define on_timer.",
)
REPLAYED_OUTPUT_UNDECLARED: Final = Code(
    "K621",
    "Saved output has an old record class",
    "A replay of a known input sends its saved output again, which Kedge keeps as bytes of its class. The bolt no "
    "longer emits this class, or the fields of the class have changed.",
    "run the old code until nothing is in flight, or drop the dead letter: kedge dead drop.",
)
RECORD_COLUMNS_MISMATCH: Final = Code(
    "K622",
    "Columns do not match the record class",
    "Rows from Spark become records, and their columns do not fit the fields of the class: a name or a type differs, "
    "or a column has nulls and the field is never None.",
    "have the query select columns of these names and types, or declare another output class.",
)
TASK_WITHOUT_DIRECT_READER: Final = Code(
    "K627",
    "Task named for a stream that no bolt reads by direct()",
    "emit(record, task=n) is for subscribers that read the stream by direct(). None of the subscribers does. Each "
    "would have chosen a task by its own grouping, and not the named one.",
    "subscribe by direct(), or leave out task=.",
)
STATE_RECORD_TOO_LONG: Final = Code(
    "K628",
    "Value and outputs are too large for the log",
    "With durability 'disk' and 'process', each input's new value and outputs are one record of a log, of up to 8 MiB. "
    "This input's record is larger, and the input fails.",
    "keep less under one key; or use durability='checkpoint', which has no log.",
)
PROCESS_MANY_MISMATCH: Final = Code(
    "K629",
    "process_many did not return one result for each record",
    "The n-th result of process_many is for the n-th record. With more or fewer results, none can be told from the "
    "others, so all of these inputs fail.",
    "return a list as long as the given one, with None for a record without outputs.",
)
PROCESS_MANY_RAISED: Final = Code(
    "K630",
    "process_many raised an exception",
    "Kedge then calls process for each of the records. Only the records that are the cause fail. That takes longer, "
    "and what process_many had done before it raised is done again. The first exception of each task is logged.",
    "correct what the traceback shows; if single records may be invalid, handle them in process_many.",
)

"""K2xx: mistakes of a declaration, which are all told at once. Words only."""

from typing import Final

from topology.codes.code import Code

INVALID_TOPOLOGY: Final = Code(
    "K200",
    "The topology can't be run as it is declared",
    "Each line names the file and line of a call, what is wrong there, and a code of its own. Nothing has been run.",
    "mend each of these lines; kedge check tells them without running anything.",
)
INVALID_NAME: Final = Code(
    "K201",
    "A name that is not possible",
    "Names of topologies, components and record classes become names of folders, tables and metrics, so they are 1 "
    "to 64 letters, digits, _ and -.",
    "choose a name of those characters.",
)
INVALID_CONFIG: Final = Code(
    "K202",
    "The configuration is no Config",
    "The settings of a topology are one value of the class Config, so that each is checked.",
    "write Topology(name, config=Config(max_pending=…)).",
)
NO_SPOUT: Final = Code(
    "K203",
    "There is no spout",
    "Spouts are the sources; without one nothing would ever happen.",
    "declare one: lines = topology.spout('lines', FileTail(path)).",
)
DUPLICATE_COMPONENT_NAME: Final = Code(
    "K204",
    "A name is used twice",
    "A component is known by its name in logs, metrics and stored positions, so each has its own.",
    "rename one of the two.",
)
UNREAD_SPOUT: Final = Code(
    "K205",
    "Nobody reads the spout",
    "What a spout emits goes nowhere until a bolt takes one of its streams as an input.",
    "give a stream of it to a bolt: topology.bolt('name', bolt, lines.shuffle()).",
)
INVALID_PARALLELISM: Final = Code(
    "K206",
    "A number of tasks or a concurrency that can't be",
    "tasks is how many copies share the input, concurrency how many inputs may be under way in each.",
    "give a whole number within the limits.",
)
INCOMPATIBLE_BOLT_OPTIONS: Final = Code(
    "K207",
    "Options that the bolt does not fit",
    "concurrency is for bolts that wait (async), every=… for those that define tick, and deterministic is True or "
    "False.",
    "change the option or the bolt, so that they agree.",
)
UNCOPYABLE_COMPONENT: Final = Code(
    "K208",
    "A component that can't be copied",
    "Each task gets a copy of its own of what was given to the topology, and something in it can't be copied: a "
    "lock, a socket, an open file, a generator.",
    "take resources in open(self, task), and only configuration in the constructor.",
)
DUPLICATE_STREAM_NAME: Final = Code(
    "K209",
    "Two record classes of one name",
    "The streams of a component are told apart by the names of their record classes.",
    "rename one of the two classes.",
)
UNSERIALIZABLE_FIELD_TYPE: Final = Code(
    "K210",
    "A record that can't travel",
    "Fields of records are immutable and have a byte form: numbers, str, bytes, datetime, Decimal, enums, records, "
    "tuples and frozensets of these, and X | None.",
    "change the type of the field: a list to tuple[X, ...], a dict to a tuple of pairs.",
)
TOPOLOGY_CYCLE: Final = Code(
    "K211",
    "A cycle",
    "Tuples would go round for ever, and their tree would never be done.",
    "remove one of the inputs, or give what comes back a spout of its own.",
)
BOLT_WITHOUT_INPUT: Final = Code(
    "K212",
    "A bolt without an input",
    "A bolt handles what others emit; without an input it is never called.",
    "give it a stream with a grouping: topology.bolt('name', bolt, lines.shuffle()).",
)
INVALID_BOLT_INPUT: Final = Code(
    "K213",
    "Not an input",
    "An input is a stream with a grouping, as lines.shuffle() makes one.",
    "write the handle of the component that is read, and a grouping of it.",
)
INVALID_COMPONENT: Final = Code(
    "K214",
    "Not a bolt, or not a spout",
    "topology.bolt takes an instance of a class that derives from Bolt, or a function that @bolt has made one of; "
    "topology.spout takes an instance of one that derives from Spout.",
    "give an instance, or decorate the function with @bolt.",
)
INVALID_BOLT_METHOD: Final = Code(
    "K215",
    "A bolt's method that can't be used",
    "A bolt defines process or execute, one of the two, with annotations: they say which records it takes and emits.",
    "write process(self, record: X) -> Iterator[Y], with your record classes.",
)
INVALID_INPUT_TYPE: Final = Code(
    "K216",
    "A bolt takes what is no record class",
    "The annotation of the first parameter says which records the bolt takes.",
    "annotate it with a class that derives from Record, or with several of them, X | Y.",
)
INVALID_STATE_TYPE: Final = Code(
    "K217",
    "A state that can't be kept",
    "The second parameter of process is its state: State[X], where X can be stored, as a record's fields can.",
    "annotate it State[X] with an immutable type: numbers, texts, tuples, frozensets, records.",
)
INVALID_PROCESS_RETURN_TYPE: Final = Code(
    "K218",
    "process gives what is no iterable of records",
    "process yields records, returns an iterable of them, or returns None.",
    "yield the record, or return [record], and annotate Iterator[X].",
)
INVALID_OUTPUT_TYPE: Final = Code(
    "K219",
    "A component emits what is no record class",
    "The classes in the annotation of the result are the streams that a component has.",
    "name classes that derive from Record; a type variable has to be one of the input's.",
)
INVALID_SPOUT_METHOD: Final = Code(
    "K220",
    "A spout's method that can't be used",
    "A spout defines records or poll, one of the two, and its annotation says which records it emits.",
    "write async def records(self) -> AsyncIterator[Message[X]], or poll(self, limit) -> list[Message[X]].",
)
COMPONENT_INSPECTION_RAISED: Final = Code(
    "K221",
    "A component that can't be read",
    "Reading the annotations of a component runs code of yours: properties, and annotations in quotes. That raised.",
    "mend what is named; an annotation in quotes needs its names at the top level of the module.",
)
DUPLICATE_INPUT_STREAM: Final = Code(
    "K222",
    "One stream read twice by one bolt",
    "Both deliveries of a record have one identity, so the bolt can't tell them apart, and the tree would be done "
    "too early.",
    "keep one of the two inputs, or declare a second bolt for the other.",
)
UNKNOWN_INPUT_STREAM: Final = Code(
    "K223",
    "A stream that is not there, or that the bolt does not take",
    "An input names a component of the same topology, one record class that it emits, and one that the bolt takes.",
    "choose a stream that there is: handle[Class], where a component emits several classes.",
)
INVALID_GROUPING_FIELDS: Final = Code(
    "K224",
    "A grouping by fields that can't be",
    "fields(…) and partial_key(…) name fields of the stream's record class, each once, whose values can be compared.",
    "name fields that the record has.",
)
INCOMPATIBLE_GROUPING: Final = Code(
    "K225",
    "A grouping that does not go with the bolt or the emitter",
    "State needs fields(…) or global_(), so that a replay meets the task that has it; a bolt that is not "
    "deterministic needs a grouping that replays alike; direct() needs an emitter with execute.",
    "choose one of the groupings that are named.",
)
INVALID_CUSTOM_GROUPING: Final = Code(
    "K226",
    "A custom grouping that can't be used",
    "custom(…) takes an instance of a class of yours that derives from Grouping and defines choose(self, record, "
    "tasks).",
    "give such an instance.",
)
MISMATCHED_STATE_KEYS: Final = Code(
    "K227",
    "Inputs that disagree about the key of the state",
    "A bolt with state that reads several streams by fields(…) has one state for each key, so the keys have to be of "
    "the same number and the same types.",
    "group the streams by fields of the same types.",
)
STATE_IN_BOLT_ATTRIBUTE: Final = Code(
    "K228",
    "State in an attribute of a bolt (a warning)",
    "What a bolt keeps in self from record to record is counted twice by a replay, and forgotten by a restart.",
    "keep it as process(self, record, state: State[…]).",
)
DEAD_LETTERS_OF_BOLT: Final = Code(
    "K229",
    "Dead letters of a bolt",
    "A message is a spout's: whichever bolt fails it, it is replayed by its spout, and dead there in the end.",
    "read the dead letters of the spout: lines.dead.",
)
RESERVED_DEAD_LETTER_NAME: Final = Code(
    "K230",
    "A spout whose own records are called DeadLetter",
    "Streams are told apart by the names of their record classes, and those of dead letters have this one.",
    "rename the record class that the spout emits.",
)
DEAD_LETTERS_NEVER_SENT: Final = Code(
    "K231",
    "Dead letters that never come (a warning)",
    "With guarantee='at-most-once' nothing follows a message after it was emitted, so nothing is known of its end.",
    "leave the guarantee at 'at-least-once', or do not read dead letters.",
)
INVALID_RECOVERY: Final = Code(
    "K232",
    "A recovery that can't be",
    "What becomes of a bolt's state when its worker dies is 'checkpoint', 'replay' or 'none'. Only a bolt with state "
    "has one, and 'replay' needs messages that are followed and replayed.",
    "leave recovery at 'checkpoint', or give the bolt a state and the topology guarantee='at-least-once'.",
)
HOLDS_MAX_TOO_LARGE: Final = Code(
    "K233",
    "A bolt that would hold too many inputs",
    "A bolt with recovery = 'replay' holds inputs unacked, holds_max at most. Where its spouts may have no more than "
    "that under way, they would wait for the bolt, and the bolt for them, for ever.",
    "make holds_max smaller than max_pending, or max_pending larger.",
)
INVALID_ON_TIMER: Final = Code(
    "K234",
    "An on_timer that can't be used",
    "Timers are a part of the state, so only a bolt with state has them. on_timer is called with the key, the timer's "
    "name and the state, and returns or yields records at once.",
    "write def on_timer(self, key: tuple[Any, ...], name: str, state: State[Z]) -> Iterator[X].",
)
INVALID_RENAMED_FROM: Final = Code(
    "K235",
    "A former name that can't be",
    "renamed_from is the name under which a component was first run. What is kept is filed under it, so it belongs to "
    "one component alone.",
    "give the name that this component had, and no other component's.",
)
INVALID_GIVEN_AGAIN: Final = Code(
    "K236",
    "A spout that does not say what it gives again",
    "given_again says what becomes of a spout's messages that are in flight when its worker dies: 'same', they come "
    "again under their ids; 'other ids', under others; 'never', they are lost.",
    "give one of the three, or leave it out where the source gives the same again.",
)
INVALID_COMPANION: Final = Code(
    "K237",
    "A companion that can't be",
    "A companion is a process that a run starts beside itself. Its name is a file name, and its own in the topology; "
    "starting_s is for how many seconds it may start.",
    "give topology.companion an object of a class that is a Companion, with a name that no other one has.",
)
INVALID_ENDS_LAST: Final = Code(
    "K238",
    "A spout that does not say whether it ends last",
    "ends_last is True for a spout that reads what bolts of the same run have put elsewhere, so that it ends after "
    "their flush; other spouts leave it out.",
    "write ends_last = True, or leave it out.",
)
COMPONENT_WITHOUT_STATE: Final = Code(
    "K240",
    "A component of which no state is kept",
    "State is kept of bolts whose process has a parameter `state`, and whose recovery is 'checkpoint', once they have "
    "run with this state directory.",
    "name one that has: without a name, kedge state export writes all of them.",
)
INVALID_STATE_LINE: Final = Code(
    "K241",
    "A line that is no state",
    "kedge state import reads what kedge state export has written, or what is written alike: for each component a "
    "header, and a line for each key. One line that can't be read refuses all of the file, and nothing is changed.",
    "mend the line that is named, or export again.",
)
IMPORTED_STATE_TYPE_MISMATCH: Final = Code(
    "K242",
    "State of another type",
    "The header of a component says which type its values are of. They are taken where that is the type that the "
    "topology has noted or, where its file is named, declares now, or one that is read as it.",
    "name the topology's file, --topology app.py, where the type has changed; convert the values, and write the new "
    "type into the header's schema.",
)
DUPLICATE_STATE_KEY: Final = Code(
    "K243",
    "A key of state that is there twice",
    "Each key of a component has one line: of two nobody knows which one counts.",
    "leave one of them out, and one less in the header's keys.",
)
TRUNCATED_STATE_EXPORT: Final = Code(
    "K244",
    "A file of state that was cut short",
    "A header says how many keys follow, so that a file which was not written to its end is not taken for all that "
    "there was.",
    "export again; where keys were left out on purpose, say how many there are in the header's keys.",
)
STATE_EXPORT_IO_ERROR: Final = Code(
    "K245",
    "A file of state that can't be read or written",
    "What is exported is written beside the file first, and takes its name when it is whole.",
    "give a file in a folder that you may write to, or - for stdin.",
)
NEWER_STATE_EXPORT_FORMAT: Final = Code(
    "K246",
    "A file of state of a newer format",
    "It was written by a newer Kedge.",
    "import it by a Kedge that is as new, or export again by this one.",
)
UNSUPPORTED_ON_SPARK: Final = Code(
    "K247",
    "A part of a topology that Spark can't run",
    "On Spark bolts are copied to whatever process Spark chooses, see whole batches and are begun anew at any time. "
    "What goes by one task, by a tuple that is held, or by what a bolt keeps in its attributes has no place there.",
    "do what the line says, or run the topology without --engine.",
)
INVALID_SPOUT_READ_OPTION: Final = Code(
    "K248",
    "How the tasks of a spout read, said in a way that can't be",
    "reads_ahead is how many messages of a records() generator may wait to be emitted; shared_ids is True for a spout "
    "whose tasks share one set of message ids, as tasks that take every n-th message do.",
    "write reads_ahead = 128, a whole number from 1 on, and shared_ids = True or False; or leave them out.",
)
INVALID_BEGINS_EMPTY: Final = Code(
    "K251",
    "A bolt that can't begin empty",
    "begins_empty=True says of a new bolt with state that it does not go on with that of a bolt that is gone. It is "
    "for bolts whose state is kept, and one with renamed_from goes on with what is kept under that name.",
    "leave out begins_empty, or renamed_from.",
)
INVALID_TICK_METHOD: Final = Code(
    "K252",
    "A tick that can't be used",
    "tick is called with the time, and with nothing else: it belongs to no key and no input. What it gives are streams "
    "of its bolt, which are read from its annotation.",
    "write def tick(self, now: datetime) -> Iterator[X], or -> None where it gives nothing; it may be async.",
)

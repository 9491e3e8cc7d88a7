"""K2xx: mistakes of a declaration, all of which are reported at once. Text only."""

from typing import Final

from topology.codes.code import Code

INVALID_TOPOLOGY: Final = Code(
    "K200",
    "Invalid topology",
    "Each line names the file and line of a call, the mistake there, and its own code. Nothing has been run.",
    "fix each of these lines; kedge check lists them without running anything.",
)
INVALID_NAME: Final = Code(
    "K201",
    "Invalid name",
    "Names of topologies, components and record classes become names of folders, tables and metrics. So each has 1 to "
    "64 letters, digits, _ and -.",
    "choose a name of those characters.",
)
INVALID_CONFIG: Final = Code(
    "K202",
    "Configuration is not a Config",
    "The settings of a topology are one value of the class Config, which checks each of them.",
    "write Topology(name, config=Config(max_pending=…)).",
)
NO_SPOUT: Final = Code(
    "K203",
    "Topology without a spout",
    "Spouts are the sources. A topology without a spout has nothing to process.",
    "declare one: lines = topology.spout('lines', FileTail(path)).",
)
DUPLICATE_COMPONENT_NAME: Final = Code(
    "K204",
    "Duplicate component name",
    "Logs, metrics and stored positions identify a component by its name, so each component needs its own.",
    "rename one of the two.",
)
UNREAD_SPOUT: Final = Code(
    "K205",
    "No bolt reads the spout",
    "Records of a spout go nowhere until a bolt takes one of its streams as an input.",
    "give a stream of it to a bolt: topology.bolt('name', bolt, lines.shuffle()).",
)
INVALID_PARALLELISM: Final = Code(
    "K206",
    "Invalid tasks or concurrency",
    "tasks is the number of copies that share the input. concurrency is the number of inputs in flight per copy.",
    "pass a whole number within the limits.",
)
INCOMPATIBLE_BOLT_OPTIONS: Final = Code(
    "K207",
    "Options do not fit the bolt",
    "concurrency is for bolts that wait (async), every=… is for bolts that define tick, and deterministic is True or "
    "False.",
    "change the option or the bolt, so that they agree.",
)
UNCOPYABLE_COMPONENT: Final = Code(
    "K208",
    "Component cannot be copied",
    "Each task gets its own copy of the object that you gave to the topology. Something in the object cannot be "
    "copied: a lock, a socket, an open file, a generator.",
    "take resources in open(self, task), and only configuration in the constructor.",
)
DUPLICATE_STREAM_NAME: Final = Code(
    "K209",
    "Two record classes with the same name",
    "The name of a stream is the name of its record class, so a component cannot emit two classes of one name.",
    "rename one of the two classes.",
)
UNSERIALIZABLE_FIELD_TYPE: Final = Code(
    "K210",
    "Record class cannot be serialized",
    "Fields of records are immutable and have a byte form: numbers, str, bytes, datetime, Decimal, enums, records, "
    "tuples and frozensets of these, and X | None.",
    "change the type of the field: a list to tuple[X, ...], a dict to a tuple of pairs.",
)
TOPOLOGY_CYCLE: Final = Code(
    "K211",
    "Cycle in the topology",
    "Tuples would go round for ever, and their tree would never be done.",
    "remove one of the inputs, or read the returning records with a separate spout.",
)
BOLT_WITHOUT_INPUT: Final = Code(
    "K212",
    "Bolt without an input",
    "A bolt handles the records of other components. Kedge never calls a bolt without an input.",
    "give it a stream with a grouping: topology.bolt('name', bolt, lines.shuffle()).",
)
INVALID_BOLT_INPUT: Final = Code(
    "K213",
    "Invalid input of a bolt",
    "An input is a stream with a grouping, such as lines.shuffle().",
    "write the handle of the component that the bolt reads, and a grouping of it.",
)
INVALID_COMPONENT: Final = Code(
    "K214",
    "Not a bolt, or not a spout",
    "topology.bolt takes an instance of a class that derives from Bolt, or a function decorated with @bolt. "
    "topology.spout takes an instance of a class that derives from Spout.",
    "pass an instance, or decorate the function with @bolt.",
)
INVALID_BOLT_METHOD: Final = Code(
    "K215",
    "Invalid method of a bolt",
    "A bolt defines either process or execute. The annotations of the method are the record classes that the bolt "
    "takes and emits.",
    "write process(self, record: X) -> Iterator[Y], with your record classes.",
)
INVALID_INPUT_TYPE: Final = Code(
    "K216",
    "Input type of a bolt is not a record class",
    "The annotation of the first parameter names the record classes that the bolt takes.",
    "annotate it with a class that derives from Record, or with several of them, X | Y.",
)
INVALID_STATE_TYPE: Final = Code(
    "K217",
    "Invalid type of state",
    "The second parameter of process is its state: State[X]. X has to be a type that Kedge can store, as for fields "
    "of records.",
    "annotate it State[X] with an immutable type: numbers, texts, tuples, frozensets, records.",
)
INVALID_PROCESS_RETURN_TYPE: Final = Code(
    "K218",
    "Invalid return type of process",
    "process yields records, returns an iterable of them, or returns None.",
    "yield the record, or return [record], and annotate Iterator[X].",
)
INVALID_OUTPUT_TYPE: Final = Code(
    "K219",
    "Output type of a component is not a record class",
    "The classes in the annotation of the result are the streams of the component.",
    "name classes that derive from Record; a type variable has to be one of the input's.",
)
INVALID_SPOUT_METHOD: Final = Code(
    "K220",
    "Invalid method of a spout",
    "A spout defines either records or poll. The annotation of the method names the record classes that the spout "
    "emits.",
    "write async def records(self) -> AsyncIterator[Message[X]], or poll(self, limit) -> list[Message[X]].",
)
COMPONENT_INSPECTION_RAISED: Final = Code(
    "K221",
    "Reading a component's annotations raised an exception",
    "Kedge reads the annotations of a component, which runs your code: properties, and annotations in quotes. That "
    "code raised.",
    "fix the code that is named; an annotation in quotes needs its names at the top level of the module.",
)
DUPLICATE_INPUT_STREAM: Final = Code(
    "K222",
    "Bolt reads the same stream twice",
    "Both deliveries of a record have the same identity. The bolt cannot distinguish them, and the tree would be done "
    "too early.",
    "keep one of the two inputs, or declare a second bolt for the other.",
)
UNKNOWN_INPUT_STREAM: Final = Code(
    "K223",
    "Unknown stream, or a stream that the bolt does not take",
    "An input names a component of the same topology. It also names one record class, which the component emits and "
    "the bolt takes.",
    "choose an existing stream: handle[Class], if a component emits several classes.",
)
INVALID_GROUPING_FIELDS: Final = Code(
    "K224",
    "Invalid fields of a grouping",
    "fields(…) and partial_key(…) name fields of the stream's record class, each once. Their values have to be "
    "comparable.",
    "name fields that the record has.",
)
INCOMPATIBLE_GROUPING: Final = Code(
    "K225",
    "Grouping does not fit the bolt or the emitter",
    "State needs fields(…) or global_(), so that a replay reaches the task that has the state. A bolt that is not "
    "deterministic needs a grouping that sends a replay to the same task. direct() needs an emitter with execute.",
    "choose one of the groupings that are named.",
)
INVALID_CUSTOM_GROUPING: Final = Code(
    "K226",
    "Invalid custom grouping",
    "custom(…) takes an instance of a class of yours that derives from Grouping and defines choose(self, record, "
    "tasks).",
    "pass such an instance.",
)
MISMATCHED_STATE_KEYS: Final = Code(
    "K227",
    "Inputs use different key types",
    "A bolt with state that reads several streams by fields(…) has one state per key. So the keys of all streams need "
    "the same number of fields and the same types.",
    "group all streams by fields of the same types, in the same order.",
)
STATE_IN_BOLT_ATTRIBUTE: Final = Code(
    "K228",
    "State in an attribute of a bolt (a warning)",
    "The bolt keeps data in self from record to record. A replay counts such data twice, and a restart loses it.",
    "keep it as process(self, record, state: State[…]).",
)
DEAD_LETTERS_OF_BOLT: Final = Code(
    "K229",
    "Only spouts have dead letters",
    "A message belongs to its spout. If any bolt fails the message, its spout replays it, and in the end it becomes a "
    "dead letter of the spout.",
    "read the dead letters of the spout: lines.dead.",
)
RESERVED_DEAD_LETTER_NAME: Final = Code(
    "K230",
    "Record class DeadLetter is reserved",
    "The name of a stream is the name of its record class, and the stream of dead letters is called DeadLetter.",
    "rename the record class that the spout emits.",
)
DEAD_LETTERS_NEVER_SENT: Final = Code(
    "K231",
    "Dead letters are never sent (a warning)",
    "With guarantee='at-most-once' Kedge does not track a message after its spout emitted it. So Kedge never learns "
    "that the message failed.",
    "leave the guarantee at 'at-least-once', or do not read dead letters.",
)
INVALID_RECOVERY: Final = Code(
    "K232",
    "Invalid recovery",
    "recovery sets how a bolt's state is recovered after its worker dies: 'checkpoint', 'replay' or 'none'. Only a "
    "bolt with state has a recovery. 'replay' needs messages that Kedge tracks and replays.",
    "leave recovery at 'checkpoint', or give the bolt a state and the topology guarantee='at-least-once'.",
)
HOLDS_MAX_TOO_LARGE: Final = Code(
    "K233",
    "A bolt's holds_max is too large",
    "A bolt with recovery = 'replay' holds up to holds_max inputs unacked. If its spouts may have no more than that "
    "many messages in flight, the spouts and the bolt would wait for each other for ever.",
    "make holds_max smaller than max_pending, or max_pending larger.",
)
INVALID_ON_TIMER: Final = Code(
    "K234",
    "Invalid on_timer method",
    "Timers are a part of the state, so only a bolt with state has them. Kedge calls on_timer with the key, the "
    "timer's name and the state. on_timer returns or yields records at once.",
    "write def on_timer(self, key: tuple[Any, ...], name: str, state: State[Z]) -> Iterator[X].",
)
INVALID_RENAMED_FROM: Final = Code(
    "K235",
    "Invalid renamed_from",
    "renamed_from is the name under which a component was first run. Its stored data is filed under that name, so the "
    "name belongs to one component only.",
    "pass the name that this component had, and that no other component has.",
)
INVALID_GIVEN_AGAIN: Final = Code(
    "K236",
    "Invalid given_again of a spout",
    "given_again sets what happens to a spout's messages in flight when its worker dies. With 'same' they come again "
    "under their ids, with 'other ids' under other ids, and with 'never' they are lost.",
    "write one of the three, or leave it out if the source gives the same messages again.",
)
INVALID_COMPANION: Final = Code(
    "K237",
    "Invalid companion",
    "A companion is a process that a run starts beside itself. Its name is a file name, and unique in the topology. "
    "starting_s is the number of seconds that it may take to start.",
    "give topology.companion an object of a class that is a Companion, with a name that no other one has.",
)
INVALID_ENDS_LAST: Final = Code(
    "K238",
    "Invalid ends_last of a spout",
    "ends_last is True for a spout that reads data written by bolts of the same run, so that the spout ends after "
    "their flush. Other spouts leave it out.",
    "write ends_last = True, or leave it out.",
)
COMPONENT_WITHOUT_STATE: Final = Code(
    "K240",
    "Component without stored state",
    "Kedge stores the state of bolts whose process has a parameter `state` and whose recovery is 'checkpoint', after "
    "they have run with this state directory.",
    "name a component that has state; without a name, kedge state export writes all of them.",
)
INVALID_STATE_LINE: Final = Code(
    "K241",
    "Invalid line in a state file",
    "kedge state import reads the output of kedge state export, or lines in the same format: a header per component, "
    "and a line per key. If one line cannot be read, the command rejects the whole file and changes nothing.",
    "fix the line that is named, or export again.",
)
IMPORTED_STATE_TYPE_MISMATCH: Final = Code(
    "K242",
    "Imported state has another type",
    "The header of a component names the type of its values. Kedge accepts the type that the topology has stored or a "
    "type that is read as it. If you name the topology's file, the type that the file declares now counts instead.",
    "name the topology's file, --topology app.py, if the type has changed; convert the values, and write the new type "
    "into the header's schema.",
)
DUPLICATE_STATE_KEY: Final = Code(
    "K243",
    "Duplicate key in a state file",
    "Each key of a component has one line. If a key has two lines, Kedge cannot know which one counts.",
    "remove one of them, and subtract one from the header's keys.",
)
TRUNCATED_STATE_EXPORT: Final = Code(
    "K244",
    "State file is truncated",
    "A header states how many keys follow. So a file that was not written to its end is not taken for the whole state.",
    "export again; if you removed keys on purpose, correct their number in the header's keys.",
)
STATE_EXPORT_IO_ERROR: Final = Code(
    "K245",
    "State file cannot be read or written",
    "An export is written to a new file beside the named one, and takes its name when it is complete.",
    "name a file in a folder that you may write to, or - for stdin.",
)
NEWER_STATE_EXPORT_FORMAT: Final = Code(
    "K246",
    "State file has a newer format",
    "A newer version of Kedge wrote the file.",
    "import it with a Kedge that is as new, or export again with this one.",
)
UNSUPPORTED_ON_SPARK: Final = Code(
    "K247",
    "Spark cannot run a part of the topology",
    "On Spark, bolts are copied to any process that Spark chooses, receive whole batches and may be restarted at any "
    "time. Spark has no support for work tied to one task, for a tuple that is held, or for data in a bolt's "
    "attributes.",
    "follow the advice in the line, or run the topology without --engine.",
)
INVALID_SPOUT_READ_OPTION: Final = Code(
    "K248",
    "Invalid reads_ahead or shared_ids of a spout",
    "reads_ahead is the number of messages of a records() generator that may wait to be emitted. shared_ids is True "
    "for a spout whose tasks share one set of message ids, for example tasks that take every n-th message.",
    "write reads_ahead = 128, a whole number from 1 on, and shared_ids = True or False; or leave them out.",
)
INVALID_BEGINS_EMPTY: Final = Code(
    "K251",
    "Invalid begins_empty of a bolt",
    "begins_empty=True means that a new bolt with state does not resume with the state of a bolt that is gone. It is "
    "for bolts whose state is kept. It contradicts renamed_from, with which a bolt resumes with the state kept under "
    "that name.",
    "leave out begins_empty, or renamed_from.",
)
INVALID_TICK_METHOD: Final = Code(
    "K252",
    "Invalid tick method",
    "Kedge calls tick with the time only, because a tick belongs to no key and no input. The records of a tick are "
    "streams of its bolt, which Kedge reads from the annotation.",
    "write def tick(self, now: datetime) -> Iterator[X], or -> None if it emits nothing; it may be async.",
)
INVALID_ORDER_MATTERS: Final = Code(
    "K253",
    "Invalid order_matters of a bolt",
    "order_matters sets the orders that a bolt's outputs for a key depend on: 'always', on that of inputs and timers; "
    "'inputs', on that of inputs; 'never', on none. `kedge check --guarantees` names the bolts that this concerns.",
    "write one of the three, or leave it out.",
)

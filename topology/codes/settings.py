"""K3xx: settings, sources and sinks that can't be used as they are given (ConfigurationError). Words only."""

from typing import Final

from topology.codes.code import FRESH, Code

INVALID_SETTING: Final = Code(
    "K301",
    "A setting with a value that it can't have",
    "A field of Config is out of its limits, or of another type. It comes from the topology, from --config, or from "
    "KEDGE_… in the environment.",
    "give a value within the limits that are named.",
)
NON_UTF8_WORKER_PATH: Final = Code(
    "K302",
    "A path that workers can't be told of",
    "The import path and the run's directory are sent to the worker processes as text, and this one has bytes that "
    "are not UTF-8.",
    "rename the folder, or take it off Python's import path.",
)
WORKER_PORTS_EXHAUSTED: Final = Code(
    "K303",
    "No port left for a worker",
    "Each worker listens on a port of its own, counted from the one in --links, and ports end at 65,535.",
    "begin with a lower port, or leave it out: then free ones are taken.",
)
UNREADABLE_SOURCE_FILE: Final = Code(
    "K310",
    "A source file that can't be read",
    "The file that a source is to read is not there, or the system does not let this user read it. Relative paths "
    "are looked up from the folder that kedge was started in.",
    "mend the path, or give this user the right to read it.",
)
SOURCE_NOT_REGULAR_FILE: Final = Code(
    "K311",
    "A source that is no regular file",
    "Positions are byte offsets, so what is read has to be a regular file: no folder, pipe or device.",
    "name a file.",
)
SINGLE_TASK_SOURCE: Final = Code(
    "K312",
    "A source that has one task",
    "One file, or one clock, is read by one task: a second one would emit everything twice.",
    "declare it with tasks=1, and share the work by the grouping of the first bolt.",
)
POSITION_KIND_MISMATCH: Final = Code(
    "K313",
    "A position of another kind of source",
    "The spout of this name in an earlier run was another kind of source, and has noted another kind of position.",
    f"give the spout a name of its own; or {FRESH}.",
)
INVALID_FILE_TAIL: Final = Code(
    "K314",
    "A FileTail with a value that can't be",
    "Sizes and times of a FileTail are numbers above 0.",
    "give a number above 0, or leave it out.",
)
INVALID_TICKER: Final = Code(
    "K315",
    "A Ticker with a value that can't be",
    "A Ticker has a time between two ticks of at least a millisecond, and a count of at least 1 or none.",
    "give values within these limits.",
)
INVALID_SOURCE_ITEM: Final = Code(
    "K316",
    "An item that can't be emitted",
    "Items are records, and what is given has a field of another type, or one without a byte form.",
    "mend the item of that index.",
)
INVALID_PACED_RATE: Final = Code(
    "K317",
    "A rate that is none",
    "Paced lets through so many messages a second, all its tasks together: a number above 0, and no infinity. Without "
    "a limit a source needs no Paced.",
    "give a number of messages a second.",
)
INVALID_SYSLOG_REFERENCE: Final = Code(
    "K318",
    "A reference that is no time",
    "Syslog's times have no year. A reference decides it: an ISO time that no line is after, in UTC unless it says "
    "otherwise.",
    "write it as in 2026-12-10T07:00:00, or give none: then it is when the file was last changed.",
)
INVALID_SINK_BATCHING: Final = Code(
    "K320",
    "A sink with a batch or a time that can't be",
    "A sink writes up to `batch` tuples at once, and waits at most `within_ms` for them.",
    "give values within the limits that are named.",
)
SINGLE_TASK_SINK: Final = Code(
    "K321",
    "A sink that has one task",
    "A file has one writer, so that what is stored once is known to be stored.",
    "declare the sink with tasks=1; for more, give each one a file of its own.",
)
SINK_STORE_UNUSABLE: Final = Code(
    "K322",
    "A sink whose store can't be used at the start",
    "The first look at it has failed: it does not answer, has no room, another program holds it, or it is damaged. "
    "What may pass is waited for, up to start_timeout_s.",
    "mend what the sentence names, or give the sink another store.",
)
INVALID_SINK_PATH: Final = Code(
    "K323",
    "A sink's path that can't be a file",
    "A sink stores in a regular file, in a folder that is there: nothing else would be durable.",
    "make the folder, or give the path of a file.",
)
SINK_FILE_LOCKED: Final = Code(
    "K324",
    "Two writers of one file",
    "A sink holds a lock on its file, and another sink or another process has it.",
    "connect all streams to one sink, or end the other run.",
)
JSON_LINES_UNUSABLE: Final = Code(
    "K325",
    "A JSON Lines file that can't be used",
    "The system has refused to open, lock or sync the sink's file. What may pass, no room say, is waited for instead.",
    "mend what the system says: rights, room, or the file system.",
)
LINE_KEY_MISMATCH: Final = Code(
    "K326",
    "A line that does not match its key",
    "Each line carries a key that is made from its content. This one was damaged, edited, or written by something "
    "else, so the sink can't tell what is stored.",
    "restore the file from a copy; or remove the line, after which its record may be stored again; or give up the "
    "sink's memory of what it has stored: move the file away.",
)
SQLITE_TOO_OLD: Final = Code(
    "K327",
    "An SQLite that is too old",
    "Tables are STRICT, so that a column holds what its type says; SQLite has that from 3.37 on.",
    "use a Python whose sqlite3 is of 3.37 or newer.",
)
SQLITE_LOCK_FAILED: Final = Code(
    "K328",
    "A database that can't be locked",
    "The sink makes a lock file beside the database, and can't. What may pass, no room say, is waited for instead.",
    "give this user the right to write in that folder, or another path.",
)
SQLITE_TABLE_MISMATCH: Final = Code(
    "K329",
    "A table that does not fit the record",
    "The database has a table of this name with other columns, or the class can't have one.",
    "give the sink another table=…, or another database, or change the table.",
)
SQLITE_NOT_DURABLE: Final = Code(
    "K330",
    "A database that can't be made durable",
    "SQLite does not keep this database in a way that survives a power loss: what is acked has to be stored.",
    "put it on a local disk.",
)
SQLITE_UNUSABLE: Final = Code(
    "K331",
    "A database that can't be used",
    "SQLite has refused the file: it is none of its databases, or can't be read or written.",
    "mend what SQLite says, or give another path.",
)
SHARED_SQLITE_TABLE: Final = Code(
    "K332",
    "One table for two record classes",
    "A table holds the records of one class.",
    "give each class a sink with a table of its own, or leave table=… out: then each class has its own.",
)
SQLITE_IN_MEMORY: Final = Code(
    "K333",
    "A database in memory",
    "A sink stores what is acked durably, and memory does not last.",
    "give the path of a file.",
)
INVALID_SQLITE_TABLE_NAME: Final = Code(
    "K334",
    "A table's name that can't be",
    "A table is named by letters, digits and underscores, not by what SQLite keeps for itself.",
    "give table=… another name.",
)
CASE_CONFLICTING_COLUMNS: Final = Code(
    "K335",
    "A record class that no table can hold",
    "SQLite does not tell names of columns apart by case.",
    "rename one of the fields.",
)
SQLITE_TABLE_CLASS_CONFLICT: Final = Code(
    "K336",
    "A table that holds another record class",
    "Two classes of one name have come to one sink, and a table holds the records of one class.",
    "give each class a sink with a table of its own.",
)
UNSUPPORTED_SQLITE_FIELD: Final = Code(
    "K337",
    "A field that no column can hold",
    "Columns hold numbers, texts and bytes, and what has a text or a number for it.",
    "change the type of the field, or leave it out of what is stored.",
)
INVALID_SINK_MODE: Final = Code(
    "K341",
    "A sink's mode that can't be",
    "mode is 'append', where each output is a row, or 'upsert', where each key is one: that needs the fields that name "
    "a row, and the one whose highest value wins.",
    "write mode='upsert', key=('source_ip',), revision='version', with fields of the record; or leave all three out.",
)
INVALID_UPSERT_RECORD: Final = Code(
    "K342",
    "A record class that can't be stored by key",
    "The class lacks a field that the sink's key or revision names, or the field is of a type that does not do for it: "
    "what names a row has to be equal in every store, and what wins has to be ordered.",
    "name other fields, or give the record one: a counter, or the time of the event.",
)
UPSERT_INTO_JSON_LINES: Final = Code(
    "K343",
    "Upserts into a file of lines",
    "A file of JSON lines is only ever appended to, so no line of it can be replaced by a newer one.",
    "take SqliteSink or PostgresSink for upserts, or keep all lines: mode='append'.",
)
SINK_MEMORY_TOO_SHORT: Final = Code(
    "K344",
    "A sink that forgets too early",
    "A sink drops a replay only as long as it remembers what it has stored. This one forgets before the last replay of "
    "a message may come, so outputs could be stored twice.",
    "have it remember for longer, or lower retry_for_s, max_replays or tree_timeout_s.",
)
INVALID_COUNT_WITHIN: Final = Code(
    "K345",
    "A CountWithin with a value that can't be",
    "A CountWithin counts up to a limit, within a span of seconds, and waits for records that are up to lateness_s "
    "older than the newest.",
    "give values within the limits that are named.",
)
UNTYPED_COUNT_WITHIN: Final = Code(
    "K346",
    "A CountWithin that does not say what it counts",
    "With lateness_s, records wait in the state until they are decided, as bytes, and are read as the class that the "
    "base names.",
    "name the classes that it takes and gives: class ManyFailures(CountWithin[Failure, Alert]).",
)
UNREADABLE_SECRET: Final = Code(
    "K350",
    "A secret that can't be read",
    "env:NAME stands for a variable of the environment, and file:PATH for the content of a file, in UTF-8 and at most "
    "64 KiB. Each worker looks it up for itself.",
    "set the variable, or write the file so that this user can read it.",
)
SECRET_ON_COMMAND_LINE: Final = Code(
    "K351",
    "A secret on the command line",
    "Everybody on this machine can read the arguments of a process, and the shell keeps them in its history.",
    "give env:NAME or file:PATH in its place.",
)
POSTGRES_CLIENT_NOT_INSTALLED: Final = Code(
    "K352",
    "A sink whose client is not installed",
    "PostgresSink talks to the server through psycopg, which comes with an extra of Kedge.",
    "pip install 'kedge-streams[postgres]', into the environment that kedge runs in.",
)
INVALID_CONNECTION_STRING: Final = Code(
    "K353",
    "A connection string that can't be read",
    "It is a URI, or a list of name=value as libpq has it. It is not repeated, as it may hold a password.",
    "write postgresql://USER@HOST:PORT/DATABASE, with %40 for an @ in a password, or leave the password to PGPASSWORD.",
)
POSTGRES_ACCESS_DENIED: Final = Code(
    "K354",
    "A server that refuses the sink",
    "The server was reached, and does not know the user, the password or the database.",
    "mend the connection string, or make the role or the database that it names.",
)
POSTGRES_UNRELIABLE: Final = Code(
    "K355",
    "A server that a sink can't rely on",
    "What is acked has to be stored. A server with fsync off, as some are set up for tests, forgets what it has "
    "committed when the power goes; one that is too old lacks what the sink needs.",
    "turn fsync on, or give the sink allow_fsync_off=True where losing that is fine.",
)
POSTGRES_TABLE_MISMATCH: Final = Code(
    "K356",
    "A PostgreSQL table that does not fit the record",
    "The database has a table of this name with other columns or without the key, or it can't be made.",
    "give the sink another table=… or schema=…, or change the table.",
)
INVALID_POSTGRES_NAME: Final = Code(
    "K357",
    "A name that PostgreSQL can't have",
    "Tables and schemas are named by letters, digits and underscores, in at most 63 bytes, and not by pg_….",
    "give table=… or schema=… another name.",
)
INVALID_POSTGRES_COLUMN_NAME: Final = Code(
    "K358",
    "A field that PostgreSQL has no name for",
    "Each table has columns of the server's own, as xmin, and names of more than 63 bytes are cut.",
    "rename the field.",
)
UNSUPPORTED_POSTGRES_FIELD: Final = Code(
    "K359",
    "A field that no PostgreSQL column can hold",
    "Columns hold numbers, texts, bytes and times, and as JSON what is made of these.",
    "change the type of the field, or leave it out of what is stored.",
)
SHARED_POSTGRES_TABLE: Final = Code(
    "K360",
    "One PostgreSQL table for two record classes",
    "A table holds the records of one class.",
    "give each class a sink with a table of its own, or leave table=… out: then each class has its own.",
)
POSTGRES_TABLE_CLASS_CONFLICT: Final = Code(
    "K361",
    "A PostgreSQL table that holds another record class",
    "Two classes of one name have come to one sink, and a table holds the records of one class.",
    "give each class a sink with a table of its own.",
)
INVALID_POSTGRES_TIMEOUT: Final = Code(
    "K362",
    "A time for a server that can't be",
    "timeout_s bounds what one statement may take, so that a server that hangs is noticed.",
    "give a number of seconds within the limits, or leave it out.",
)
INVALID_SPARK_RECORD: Final = Code(
    "K370",
    "A record that Spark has no columns for",
    "A stream that goes to Spark, or comes from it, is a table there: a column a field, of one type, with a name of "
    "its own.",
    "change the field that is named, or hand over a record without it, made by a bolt before.",
)
SPARK_DIR_UNUSABLE: Final = Code(
    "K371",
    "A folder for Spark that can't be used",
    "What is handed over to Spark is kept in a folder of the run's until Spark has read it, and this one can't be made "
    "or written.",
    "mend the folder's owner or rights, or give the run another state directory.",
)
DAMAGED_SPARK_HANDOVER: Final = Code(
    "K372",
    "A hand-over to Spark that is damaged",
    "A file of what was handed over to Spark is cut, was changed, is missing, or was written by something else. It was "
    "whole and synced when its records were acked, so they will not come again by themselves.",
    f"put the file back from a backup; or {FRESH}.",
)
SPARK_HANDOVER_CLASS_CHANGED: Final = Code(
    "K373",
    "A hand-over to Spark of another version of the record",
    "The record class has changed, and there is still something of its earlier form that Spark has not read.",
    f"run with the class as it was until Spark has caught up; or give the query another name; or {FRESH}.",
)
INVALID_SPARK_QUERY: Final = Code(
    "K376",
    "A Spark query that can't be declared so",
    "spark_query takes a name, streams by name, a function that makes one DataFrame of theirs, and a mode. Folders are "
    "called after the names.",
    "mend the call as the sentence says.",
)
SPARK_NOT_INSTALLED: Final = Code(
    "K377",
    "Spark is not installed",
    "What hands streams over to Spark needs pyarrow, and a topology with a spark_query runs a Spark driver beside "
    "itself; pyspark and what it wants come with an extra of Kedge.",
    "pip install 'kedge-streams[spark]', into the environment that kedge runs in.",
)
UNPICKLABLE_SPARK_QUERY: Final = Code(
    "K378",
    "A query that can't be sent to Spark's driver",
    "The function of a spark_query runs in another process. It is imported there by its name, or, of a script, sent "
    "with all that it uses; an open file or a lock can't be sent.",
    "define the function at the top of a module, and let it make what it needs itself.",
)
UNREADABLE_SPARK_RESULTS: Final = Code(
    "K379",
    "Results of a Spark query that can't be read",
    "What a query gives is kept in files of the run's folder until it is done, and one of them is damaged or may not "
    "be read.",
    f"look at the disk, and restore the state directory from a copy; or {FRESH}.",
)
INVALID_WINDOW: Final = Code(
    "K380",
    "Windows that can't be declared so",
    "windowed takes the event time, a window's length or a session's gap, aggregates by the names of fields of the "
    "output, and what Spark can do on a stream.",
    "mend the call as the sentence says.",
)
INVALID_JOIN: Final = Code(
    "K381",
    "A join that can't be declared so",
    "joined takes a Table, of a path to Parquet, CSV or JSON Lines or of a function, and columns that it and the "
    "stream have.",
    "mend the call as the sentence says.",
)
INVALID_BATCH_JOIN: Final = Code(
    "K382",
    "A batch join that can't be declared so",
    "batch_joined takes a Table or another stream, columns that both sides have, and spans of time: for how long "
    "records are kept, and how often the job runs.",
    "mend the call as the sentence says.",
)
INVALID_SPARK_MASTER: Final = Code(
    "K384",
    "A master of Spark's that is none",
    "Where Spark runs is told by --spark, KEDGE_SPARK or Spark(…): local[CORES], spark://HOST:PORT, sc://HOST:PORT, "
    "yarn, k8s://… and others that Spark knows.",
    "write it as Spark's documentation has it; in a shell, quote the brackets: --spark 'local[4]'.",
)

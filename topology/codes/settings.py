"""K3xx: settings, sources and sinks with invalid values (ConfigurationError). Text only."""

from typing import Final

from topology.codes.code import FRESH, Code

INVALID_SETTING: Final = Code(
    "K301",
    "Invalid value of a setting",
    "A field of Config is outside its limits, or has another type. The value comes from the topology, from --config, "
    "or from KEDGE_… in the environment.",
    "give a value within the limits that are named.",
)
NON_UTF8_WORKER_PATH: Final = Code(
    "K302",
    "Path cannot be sent to workers",
    "Kedge sends the import path and the run's directory to the worker processes as text. This path has bytes that "
    "are not UTF-8.",
    "rename the folder, or remove it from Python's import path.",
)
WORKER_PORTS_EXHAUSTED: Final = Code(
    "K303",
    "No port left for a worker",
    "Each worker listens on its own port, counted from the port in --links. Ports end at 65,535.",
    "pass a lower port, or none: then Kedge takes free ports.",
)
UNREADABLE_SOURCE_FILE: Final = Code(
    "K310",
    "Source file cannot be read",
    "The file of a source does not exist, or the system does not let this user read it. Relative paths are looked up "
    "from the folder that kedge was started in.",
    "fix the path, or give this user the right to read it.",
)
SOURCE_NOT_REGULAR_FILE: Final = Code(
    "K311",
    "Source is not a regular file",
    "Positions are byte offsets, so a source reads regular files only: no folder, pipe or device.",
    "name a file.",
)
SINGLE_TASK_SOURCE: Final = Code(
    "K312",
    "Source allows one task only",
    "One task reads one file, or one clock. A second task would emit everything twice.",
    "declare it with tasks=1, and share the work by the grouping of the first bolt.",
)
POSITION_KIND_MISMATCH: Final = Code(
    "K313",
    "Stored position is of another kind of source",
    "In an earlier run the spout of this name was another kind of source, and stored another kind of position.",
    f"give the spout a name of its own; or {FRESH}.",
)
INVALID_FILE_TAIL: Final = Code(
    "K314",
    "Invalid argument of FileTail",
    "Sizes and times of a FileTail are numbers above 0.",
    "pass a number above 0, or leave it out.",
)
INVALID_TICKER: Final = Code(
    "K315",
    "Invalid argument of Ticker",
    "The time between two ticks of a Ticker is at least a millisecond. Its count is at least 1, or None.",
    "pass values within these limits.",
)
INVALID_SOURCE_ITEM: Final = Code(
    "K316",
    "Item cannot be emitted",
    "Items are records. This one has a field of another type, or a field without a byte form.",
    "fix the item of that index.",
)
INVALID_PACED_RATE: Final = Code(
    "K317",
    "Invalid rate for Paced",
    "The rate is messages per second for all tasks together, above 0 and finite. A source without a limit needs no "
    "Paced.",
    "pass a number of messages per second; for no limit, remove Paced.",
)
INVALID_SYSLOG_REFERENCE: Final = Code(
    "K318",
    "Invalid reference time for Syslog",
    "Syslog's times have no year. The reference decides the year: it is an ISO time, and no line is later than it. "
    "The reference is in UTC unless it names another zone.",
    "write it as in 2026-12-10T07:00:00, or leave it out: then it is the time of the file's last change.",
)
INVALID_SINK_BATCHING: Final = Code(
    "K320",
    "Invalid batch or within_ms",
    "A sink writes up to `batch` tuples at once, and waits at most `within_ms` milliseconds for them.",
    "pass values within the limits that are named.",
)
SINGLE_TASK_SINK: Final = Code(
    "K321",
    "Sink allows one task only",
    "A file has one writer, so that the sink knows what is stored and stores it once.",
    "declare the sink with tasks=1; for more tasks, use several sinks, each with a file of its own.",
)
SINK_STORE_UNUSABLE: Final = Code(
    "K322",
    "Store of a sink cannot be used at the start",
    "The sink's first check of its store failed: it does not answer, has no room, is locked by another program, or is "
    "damaged. If the cause may pass, the sink waits for it, up to start_timeout_s.",
    "fix what the message names, or give the sink another store.",
)
INVALID_SINK_PATH: Final = Code(
    "K323",
    "Invalid path for a sink",
    "A sink stores in a regular file, in an existing folder. Any other place would not be durable.",
    "make the folder, or pass the path of a file.",
)
SINK_FILE_LOCKED: Final = Code(
    "K324",
    "Sink file is locked by another writer",
    "A sink holds a lock on its file, and another sink or another process has the lock.",
    "connect all streams to one sink, or end the other run.",
)
JSON_LINES_UNUSABLE: Final = Code(
    "K325",
    "JSON Lines file cannot be used",
    "The system refused to open, lock or sync the sink's file. If the cause may pass, for example a full disk, the "
    "sink waits instead.",
    "fix what the system reports: rights, room, or the file system.",
)
LINE_KEY_MISMATCH: Final = Code(
    "K326",
    "Line does not match its key",
    "Each line carries a key that is made from its content. This line was damaged, edited, or written by another "
    "program, so the sink cannot know what is stored.",
    "restore the file from a copy; or remove the line, after which its record may be stored again; or give up the "
    "sink's memory of what it has stored: move the file away.",
)
SQLITE_TOO_OLD: Final = Code(
    "K327",
    "SQLite is too old",
    "The sink's tables are STRICT, so that a column holds only values of its type. SQLite supports STRICT from "
    "version 3.37 on.",
    "use a Python whose sqlite3 is of 3.37 or newer.",
)
SQLITE_LOCK_FAILED: Final = Code(
    "K328",
    "Cannot create the lock file of a database",
    "The sink creates a lock file beside the database, and the system refused it. If the cause may pass, for example "
    "a full disk, the sink waits instead.",
    "give this user write access to the folder, or choose another path.",
)
SQLITE_TABLE_MISMATCH: Final = Code(
    "K329",
    "Table does not fit the record class",
    "The database has a table of this name with other columns, or Kedge cannot make a table for the class.",
    "give the sink another table=…, or another database, or change the table.",
)
SQLITE_NOT_DURABLE: Final = Code(
    "K330",
    "Database cannot be made durable",
    "An acked record has to be stored durably. SQLite does not keep this database in a way that survives a power loss.",
    "put it on a local disk.",
)
SQLITE_UNUSABLE: Final = Code(
    "K331",
    "Database cannot be used",
    "SQLite refused the file: it is not an SQLite database, or cannot be read or written.",
    "fix what SQLite reports, or pass another path.",
)
SHARED_SQLITE_TABLE: Final = Code(
    "K332",
    "One table for two record classes",
    "A table holds the records of one class.",
    "give each class a sink with a table of its own, or leave out table=…: then each class has its own.",
)
SQLITE_IN_MEMORY: Final = Code(
    "K333",
    "Database in memory",
    "A sink stores acked records durably, and memory is not durable.",
    "pass the path of a file.",
)
INVALID_SQLITE_TABLE_NAME: Final = Code(
    "K334",
    "Invalid name of a table",
    "The name of a table has letters, digits and underscores, and is not reserved by SQLite.",
    "give table=… another name.",
)
CASE_CONFLICTING_COLUMNS: Final = Code(
    "K335",
    "Field names differ only in case",
    "SQLite ignores case in names of columns, so no table can hold this record class.",
    "rename one of the fields.",
)
SQLITE_TABLE_CLASS_CONFLICT: Final = Code(
    "K336",
    "Table holds another record class",
    "One sink received two classes of the same name, and a table holds the records of one class.",
    "give each class a sink with a table of its own.",
)
UNSUPPORTED_SQLITE_FIELD: Final = Code(
    "K337",
    "SQLite cannot store this field type",
    "Columns hold numbers, texts and bytes, and values of types that have a form as a number or a text.",
    "change the type of the field, or store another record without it.",
)
INVALID_SINK_MODE: Final = Code(
    "K341",
    "Invalid mode of a sink",
    "With mode 'append' each output is a row. With 'upsert' each key is a row, and the sink needs the key's fields "
    "and a revision, the field whose highest value wins.",
    "write mode='upsert', key=('source_ip',), revision='version', with fields of the record; or leave all three out.",
)
INVALID_UPSERT_RECORD: Final = Code(
    "K342",
    "Record class cannot be stored by key",
    "The class lacks a field that the sink's key or revision names, or the field's type is not allowed. Values of a "
    "key have to compare equal in every store. Values of a revision have to be ordered.",
    "name other fields, or give the record one: a counter, or the time of the event.",
)
UPSERT_INTO_JSON_LINES: Final = Code(
    "K343",
    "JSON Lines files do not support upsert",
    "A sink only appends to a file of JSON lines, so a newer line cannot replace an older one.",
    "use SqliteSink or PostgresSink for upserts, or keep all lines: mode='append'.",
)
SINK_MEMORY_TOO_SHORT: Final = Code(
    "K344",
    "Sink forgets too early",
    "A sink drops a replay only while it remembers the outputs that it has stored. This sink forgets before the last "
    "replay of a message may come, so it could store outputs twice.",
    "make it remember for longer, or lower retry_for_s, max_replays or tree_timeout_s.",
)
INVALID_COUNT_WITHIN: Final = Code(
    "K345",
    "Invalid argument of CountWithin",
    "A CountWithin counts up to a limit, within a span of seconds. It waits for records that are up to lateness_s "
    "older than the newest.",
    "pass values within the limits that are named.",
)
UNTYPED_COUNT_WITHIN: Final = Code(
    "K346",
    "CountWithin without its record classes",
    "With lateness_s, records wait in the state as bytes until they are decided. Kedge reads them as the class that "
    "the base names.",
    "name the classes that it takes and gives: class ManyFailures(CountWithin[Failure, Alert]).",
)
UNREADABLE_SECRET: Final = Code(
    "K350",
    "Secret cannot be read",
    "env:NAME stands for a variable of the environment. file:PATH stands for the content of a file, in UTF-8 and at "
    "most 64 KiB. Each worker reads the secret itself.",
    "set the variable, or write the file so that this user can read it.",
)
SECRET_ON_COMMAND_LINE: Final = Code(
    "K351",
    "Secret on the command line",
    "Every user of this machine can read the arguments of a process, and the shell keeps them in its history.",
    "pass env:NAME or file:PATH instead.",
)
POSTGRES_CLIENT_NOT_INSTALLED: Final = Code(
    "K352",
    "PostgreSQL client is not installed",
    "PostgresSink connects to the server through psycopg, which comes with an extra of Kedge.",
    "pip install 'kedge-streams[postgres]', into the environment that kedge runs in.",
)
INVALID_CONNECTION_STRING: Final = Code(
    "K353",
    "Invalid connection string",
    "A connection string is a URI, or a list of name=value in libpq's format. Kedge does not print the string, "
    "because it may hold a password.",
    "write postgresql://USER@HOST:PORT/DATABASE, with %40 for an @ in a password, or leave the password to PGPASSWORD.",
)
POSTGRES_ACCESS_DENIED: Final = Code(
    "K354",
    "PostgreSQL server denied access",
    "The sink reached the server, and the server rejects the user, the password or the database.",
    "fix the connection string, or make the role or the database that it names.",
)
POSTGRES_UNRELIABLE: Final = Code(
    "K355",
    "PostgreSQL server is not durable, or too old",
    "An acked record has to be stored durably. A server with fsync off, as some are set up for tests, loses committed "
    "data in a power failure. A server that is too old lacks features that the sink needs.",
    "turn fsync on, or give the sink allow_fsync_off=True if losing that data is fine.",
)
POSTGRES_TABLE_MISMATCH: Final = Code(
    "K356",
    "PostgreSQL table does not fit the record class",
    "The database has a table of this name with other columns or without the key, or Kedge cannot make the table.",
    "give the sink another table=… or schema=…, or change the table.",
)
INVALID_POSTGRES_NAME: Final = Code(
    "K357",
    "Invalid name of a PostgreSQL table or schema",
    "The name of a table or schema has letters, digits and underscores, at most 63 bytes, and does not begin with pg_.",
    "give table=… or schema=… another name.",
)
INVALID_POSTGRES_COLUMN_NAME: Final = Code(
    "K358",
    "Invalid field name for PostgreSQL",
    "The server reserves some names of columns in each table, such as xmin, and cuts names of more than 63 bytes.",
    "rename the field.",
)
UNSUPPORTED_POSTGRES_FIELD: Final = Code(
    "K359",
    "PostgreSQL cannot store this field type",
    "Columns hold numbers, texts, bytes and times. Values that consist of these are stored as JSON.",
    "change the type of the field, or store another record without it.",
)
SHARED_POSTGRES_TABLE: Final = Code(
    "K360",
    "One PostgreSQL table for two record classes",
    "A table holds the records of one class.",
    "give each class a sink with a table of its own, or leave out table=…: then each class has its own.",
)
POSTGRES_TABLE_CLASS_CONFLICT: Final = Code(
    "K361",
    "PostgreSQL table holds another record class",
    "One sink received two classes of the same name, and a table holds the records of one class.",
    "give each class a sink with a table of its own.",
)
INVALID_POSTGRES_TIMEOUT: Final = Code(
    "K362",
    "Invalid timeout_s for PostgreSQL",
    "timeout_s limits the time of one statement, so that the sink notices a server that hangs.",
    "pass a number of seconds within the limits, or leave it out.",
)
INVALID_SPARK_RECORD: Final = Code(
    "K370",
    "Record class has no columns in Spark",
    "A stream that goes to Spark, or comes from it, is a table there. Each field is a column of one type, with its "
    "own name.",
    "change the field that is named, or hand over a record without it, made by a bolt before.",
)
SPARK_DIR_UNUSABLE: Final = Code(
    "K371",
    "Folder for Spark cannot be used",
    "The run keeps records for Spark in a folder until Spark has read them. This folder cannot be made or written.",
    "fix the folder's owner or rights, or give the run another state directory.",
)
DAMAGED_SPARK_HANDOVER: Final = Code(
    "K372",
    "Hand-over to Spark is damaged",
    "A file of records for Spark is truncated, was changed, is missing, or was written by another program. The file "
    "was complete and synced when its records were acked, so Kedge does not send them again.",
    f"put the file back from a backup; or {FRESH}.",
)
SPARK_HANDOVER_CLASS_CHANGED: Final = Code(
    "K373",
    "Hand-over to Spark has an old record class",
    "The record class has changed, and Spark has not yet read all records of its earlier form.",
    f"run the old class until Spark has caught up; or give the query another name; or {FRESH}.",
)
INVALID_SPARK_QUERY: Final = Code(
    "K376",
    "Invalid spark_query(…)",
    "spark_query takes a name, streams by name, a function that makes one DataFrame from them, and a mode. The names "
    "become names of folders.",
    "fix the argument that the message names.",
)
SPARK_NOT_INSTALLED: Final = Code(
    "K377",
    "Spark is not installed",
    "Handing streams over to Spark needs pyarrow, and a topology with a spark_query runs a Spark driver beside "
    "itself. pyspark and its requirements come with an extra of Kedge.",
    "pip install 'kedge-streams[spark]', into the environment that kedge runs in.",
)
UNPICKLABLE_SPARK_QUERY: Final = Code(
    "K378",
    "Query cannot be sent to Spark's driver",
    "The function of a spark_query runs in another process. That process imports the function by its name. If a "
    "script defines the function, Kedge sends it with all objects that it uses, and an open file or a lock cannot be "
    "sent.",
    "define the function at the top of a module, and make the objects that it needs inside it.",
)
UNREADABLE_SPARK_RESULTS: Final = Code(
    "K379",
    "Results of a Spark query cannot be read",
    "The run keeps the results of a query in files in its folder until they are done. One of the files is damaged, or "
    "this user may not read it.",
    f"check the disk, and restore the state directory from a copy; or {FRESH}.",
)
INVALID_WINDOW: Final = Code(
    "K380",
    "Invalid windowed(…)",
    "windowed takes the event time, a window's length or a session's gap, and aggregates by the names of fields of "
    "the output. Spark has to support them on a stream.",
    "fix the argument that the message names.",
)
INVALID_JOIN: Final = Code(
    "K381",
    "Invalid joined(…)",
    "joined takes a Table, made from a path to Parquet, CSV or JSON Lines or from a function. Its columns have to be "
    "columns of both the table and the stream.",
    "fix the argument that the message names.",
)
INVALID_BATCH_JOIN: Final = Code(
    "K382",
    "Invalid batch_joined(…)",
    "batch_joined takes a Table or another stream, columns of both sides, and spans of time: how long records are "
    "kept, and how often the job runs.",
    "fix the argument that the message names.",
)
INVALID_SPARK_MASTER: Final = Code(
    "K384",
    "Invalid Spark master",
    "--spark, KEDGE_SPARK or Spark(…) set where Spark runs: local[CORES], spark://HOST:PORT, sc://HOST:PORT, yarn, "
    "k8s://… and others that Spark knows.",
    "write it as Spark's documentation has it; in a shell, quote the brackets: --spark 'local[4]'.",
)

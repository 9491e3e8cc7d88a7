"""K5xx: events in a run: failures of inputs, dead messages, sources, workers. Text only."""

from typing import Final

from topology.codes.code import Code

EVENT_LOOP_BLOCKED: Final = Code(
    "K566",
    "Event loop is blocked",
    "A bolt or spout computes or waits for long without `await`, so nothing else in the process runs: no other bolt, "
    "no ack, no view of the run. The line names the component and its place in the code. Timeouts exclude the time in "
    "which the loop did not run. A run of one process cannot name code that holds Python's lock until it returns, for "
    "example a long regular expression.",
    "set `blocking = True` on the bolt, which runs its `process` in a thread; or write it as async def, and await "
    "what it waits for.",
)


USER_CODE_RAISED: Final = Code(
    "K501",
    "User code raised an exception",
    "A method of a bolt or spout raised. If the method was handling an input, Kedge failed that input, and replays "
    "its message for retry_for_s, or max_replays times. Kedge shows the first exception of each kind with your "
    "frames, and counts the others.",
    "fix the last line of the traceback; raise Reject if no replay can help.",
)
BOLT_FAILED_INPUT: Final = Code(
    "K502",
    "Bolt failed its input",
    "A bolt that defines execute called out.fail. Kedge replays the message.",
    "read the reason that the bolt gave.",
)
PROCESS_TIMEOUT: Final = Code(
    "K503",
    "Process timeout",
    "process or execute did not return within process_timeout_s, and Kedge cancelled it. Kedge replays the message.",
    "find what it waits for, or raise the limit: --config process_timeout_s=….",
)
EMIT_FAILED: Final = Code(
    "K504",
    "Emission failed",
    "Kedge could not route or encode a record, so the input that emitted it failed.",
    "read the message: it ends in a code of its own (K6xx).",
)
MESSAGE_REJECTED: Final = Code(
    "K505",
    "Message was rejected",
    "A bolt raised Reject: it can never process this message. The message becomes dead at once, without replays.",
    "read the reason that the bolt gave; no other action is needed.",
)
TREE_TIMEOUT: Final = Code(
    "K506",
    "Tree timeout: no progress",
    "Nothing was acked in a tuple's tree for tree_timeout_s. Kedge replays the message.",
    "find the bolt that holds it, or raise the limit: --config tree_timeout_s=….",
)
TUPLE_FORGOTTEN: Final = Code(
    "K507",
    "Tuple was neither acked nor failed",
    "A bolt that defines execute held a tuple, and dropped it without out.ack or out.fail.",
    "ack or fail each tuple that execute is given.",
)
PEER_WORKER_LOST: Final = Code(
    "K508",
    "Link or worker was lost",
    "Kedge replays the messages that were in flight there. These replays do not count against max_replays.",
    "do nothing, unless it happens again: then find out why the worker died.",
)
DRAIN_TIMEOUT: Final = Code(
    "K509",
    "Drain timeout",
    "The run was draining, and this message was not done within the time limit.",
    "raise drain_timeout_s if the message needs more time.",
)
STALE_TUPLE: Final = Code(
    "K510",
    "Stale tuple was dropped",
    "A tuple of an earlier attempt, or of a worker that was replaced, came late, and Kedge dropped it. Kedge replays "
    "its message.",
    "do nothing: Kedge counts the tuple only so that you see it.",
)
UNDECODABLE_RECORD: Final = Code(
    "K511",
    "Record cannot be decoded",
    "The bytes of a record from another worker do not fit its class: a field holds a value that its type does not "
    "allow.",
    "fix the value that the emitter puts into the field.",
)
RECORD_TOO_LARGE: Final = Code(
    "K512",
    "Record is too large for a frame",
    "Records travel between workers in frames, which have a size limit. The record's tree has failed.",
    "send a reference instead of the content: a path, a key.",
)
MESSAGE_DEAD: Final = Code(
    "K520",
    "Message is dead",
    "The message failed for longer than retry_for_s or more often than max_replays allows, or a bolt rejected it. "
    "Kedge does not try it again by itself, and goes on with the other messages. Kedge counts the message, and the "
    "exit status is 1. A run that keeps state keeps it as a dead letter.",
    "fix the cause that is shown with it, then run kedge dead replay NAME; --config on_dead=stop ends a run at the "
    "first one.",
)
SPOUT_RAISED: Final = Code(
    "K521",
    "Source raised an exception",
    "A spout raised in poll or records. Its source cannot be read further, so the run drains and stops.",
    "fix the last line of the traceback; catch in the spout the exceptions that it can wait out.",
)
POLL_RETURNED_NONE: Final = Code(
    "K522",
    "poll returned None",
    "poll waits until there is a message, and returns an empty list at the end of the source.",
    "return [] at the end.",
)
UNKNOWN_PARTITION: Final = Code(
    "K523",
    "Message of an unknown partition",
    "Kedge keeps a position per partition that partitions() names. The partition of this message is not among them.",
    "return that partition, with its epoch, from partitions().",
)
NON_INCREASING_ID: Final = Code(
    "K524",
    "Message id does not increase",
    "Integer ids of a partition's epoch increase from message to message, with or without gaps, so that Kedge can "
    "keep progress as ranges. This id is not above the previous one, and is not that of a message in flight.",
    "give each message the next number or offset; if ids begin again, name a new epoch in partitions(); make ids that "
    "are names str or bytes.",
)
WORKER_STATE_BROKEN: Final = Code(
    "K525",
    "State of a worker cannot be trusted",
    "The disk lost data while Kedge wrote the state: an fsync failed, or the data that was read back is damaged. "
    "Nothing was acked because of that write. The next start of the worker reads the disk again.",
    "check the disk and its log (dmesg); with several workers, Kedge replaces the worker by itself.",
)
LAST_POSITIONS_NOT_KEPT: Final = Code(
    "K526",
    "Last positions were not saved",
    "Kedge could not write the state at the end of the run: the disk is full or read-only, or a quota is reached. The "
    "next run processes everything since the last commit once more. Idempotent sinks drop the repeated records.",
    "free disk space before the next run.",
)
WORKER_DIED: Final = Code(
    "K530",
    "Worker died",
    "A worker process ended by itself, or was killed. Kedge restarts it with its saved state and replays the messages "
    "that were in flight.",
    "find out how it ended: SIGKILL mostly means memory, SIGSEGV an extension in C.",
)
TOO_MANY_WORKER_DEATHS: Final = Code(
    "K531",
    "Workers died too often",
    "More workers died within a minute than max_restarts allows, so the run has ended.",
    "fix the cause, or raise max_restarts.",
)
WORKER_DIED_WHILE_ENDING: Final = Code(
    "K532",
    "Worker died while the run ended",
    "The worker ended without its final report, and no other worker took over its work. So Kedge does not know "
    "whether all of its work was done.",
    "run again: records that are stored are not stored twice.",
)
RUNTIME_FAILED: Final = Code(
    "K533",
    "Part of the runtime failed",
    "An exception was raised in Kedge itself. The process loses its work in flight, and other processes replay it.",
    "please report it, with the traceback: it is a bug in Kedge.",
)
WORKER_UNREACHABLE: Final = Code(
    "K534",
    "Worker cannot be reached",
    "Kedge could not use the address of another worker, or had no file descriptor left for the connection. Kedge "
    "tries again several times per second.",
    "check the address: with tcp links, all workers need to reach it; also check the limit of file descriptors, "
    "ulimit -n.",
)
SINK_WRITER_DIED: Final = Code(
    "K535",
    "Writer task of a sink failed",
    "The task that writes for a sink raised an unexpected exception. All inputs that the sink takes from now on fail.",
    "please report it, with the traceback, if it is a sink of Kedge's.",
)
STATE_NOT_WRITABLE: Final = Code(
    "K536",
    "State cannot be written",
    "The disk is full, a quota is reached, or the state directory is no longer writable. Nothing is lost: the sources "
    "wait, and messages in flight are processed further.",
    "free disk space, or make the directory writable again; the run resumes by itself.",
)
STATE_DURABILITY_UNKNOWN: Final = Code(
    "K537",
    "Content of the disk is unknown",
    "The system could not make data durable, or returns other data than was written. Kedge cannot rely on that data, "
    "so the process ends. The next process reads the data that is on the disk.",
    "check the disk and the kernel's log; if the run does not start again, its error names the next step.",
)
DEAD_LETTER_BOLT_FAILED: Final = Code(
    "K538",
    "Bolt that reads dead letters failed",
    "A bolt that reads a spout's dead letters failed for one of them for longer than retry_for_s or more often than "
    "max_replays allows. A run that keeps state keeps the letter, as it keeps every dead letter. Only this bolt does "
    "not get the letter again.",
    "fix the bolt that reads them; `kedge dead show NAME` shows the letter.",
)
DEAD_LETTER_NOT_REPLAYABLE: Final = Code(
    "K539",
    "Dead letter cannot be replayed",
    "The letter's spout, or the class of its record, has changed since the message died; or workers died repeatedly "
    "during the replay. Kedge keeps the letter.",
    "read the message; `kedge dead show NAME` shows the letter, `kedge dead replay NAME` tries again.",
)
REPLAYING_ONE_BY_ONE: Final = Code(
    "K540",
    "Messages are replayed one at a time",
    "Workers died twice while the same messages were in flight. To find out whether one of these messages kills them, "
    "Kedge replays each alone, and reads nothing else in the meantime.",
    "do nothing: it takes some seconds, and then the run resumes by itself.",
)
DEADLY_MESSAGE: Final = Code(
    "K541",
    "Message kills workers",
    "Workers died three times while this message was in flight, the last time while it was the only one. So Kedge "
    "marks the message as dead and resumes with the others.",
    "find out how the worker ended (K530), and look at this record: an extension in C, os._exit, or all of the memory.",
)
SINK_STORE_AWAY: Final = Code(
    "K546",
    "Store of a sink is unavailable",
    "A sink's store does not answer, is locked, or has no room. The sink retries without a time limit. Its inputs "
    "wait without a deadline, and the sources wait too. Nothing is lost, and no replays are spent.",
    "fix what the message names, and the run resumes by itself; or end the run, and the next one reads the waiting "
    "messages again.",
)
SINK_STORE_BROKEN: Final = Code(
    "K547",
    "Store of a sink is broken",
    "A disk failed to sync a sink's write, or the sink's file is damaged. This process no longer knows what is "
    "stored, so it acks nothing and ends. The next process reads the data that is there.",
    "check the disk and the system's log; then start the run again, which stores the records that were not acked.",
)
TIMER_FAILED: Final = Code(
    "K548",
    "Timer or its records failed",
    "A bolt failed the records of an on_timer for as long as retry_for_s or as often as max_replays allows, or "
    "rejected them. Or on_timer itself raised as often, after all inputs had ended. Kedge keeps the records, or the "
    "timer, in the state directory. This run does not try them again, and its exit status is 1.",
    "fix the error that the bolt reports for them; the next run tries them again.",
)
FSYNC_OFF_ALLOWED: Final = Code(
    "K550",
    "PostgreSQL server runs without fsync",
    "The sink may use this server because allow_fsync_off is set. A power failure loses records that are acked.",
    "turn fsync on in postgresql.conf, unless losing that is fine.",
)
COMPANION_FAILED: Final = Code(
    "K551",
    "Companion failed",
    "A process beside the run reported a failure that a user has to fix. The message is the companion's own. The run "
    "drains and ends, with exit status 1, and the next run resumes from there.",
    "fix what the message names, and run again.",
)
TOO_MANY_COMPANION_DEATHS: Final = Code(
    "K552",
    "Companion died too often",
    "A process beside the run died more often within a minute than max_restarts allows. Kedge has printed its last "
    "lines of stderr. They are also in companions/NAME.log in the folder kept of the state directory.",
    "find there why it died, and run again.",
)
COMPANION_LAUNCH_RAISED: Final = Code(
    "K553",
    "Companion could not be launched",
    "The method launch of a companion raised, so no process was started.",
    "fix the method; for a failure that a user has to fix, raise ConfigurationError with a message.",
)
COMPANION_DIED: Final = Code(
    "K554",
    "Companion died",
    "A process beside the run ended with another status than 0, or was killed. Kedge kills every process that the "
    "companion had started, and starts the companion again. Its last lines of stderr follow.",
    "do nothing, unless it happens again: its stderr is in companions/NAME.log in the folder kept of the state "
    "directory.",
)
RECORD_REJECTED_ON_SPARK: Final = Code(
    "K555",
    "Bolt on Spark rejected a record",
    "With --engine spark, a bolt raised Reject, a sink failed a row for good, or a spout's message cannot be sent. "
    "The other records of its batch were processed. The dead letter has the record as a text, for you to read. `kedge "
    "dead replay` only prints the same error again and gives no bolt on Spark the record, because Spark does not "
    "compute a finished batch again.",
    "read the record in the letter; fix the bolt, or the code that made the record; then `kedge dead drop` the "
    "letter, and let the source give the message again.",
)
DUPLICATE_MESSAGE_ID: Final = Code(
    "K556",
    "Two messages with the same id",
    "An id names one message of its partition, and a source may give that message repeatedly. This source gave an id "
    "again with another record while the first was not done. Kedge would have taken one of the two for the other.",
    "give each message an id of its own, or name the part of the source that it comes from: Message(record, id, "
    'partition="…").',
)
STATE_DIR_REMOVED: Final = Code(
    "K557",
    "State directory was removed",
    "Someone removed or replaced the state directory of a run, or the file lock in it, while the run used it. The next "
    "run would not find what this one keeps, so this one ends. Rows that sinks have stored stay.",
    "put the directory back from a copy, and run again. Without a copy, the next run begins without positions, state "
    "and dead letters, and reads every source from its start; sinks drop the rows that they recognise.",
)
WORKER_SOCKET_DELETED: Final = Code(
    "K571",
    "Socket of a worker was deleted",
    "The file of the socket through which other workers reach this one was deleted, for example by a program that "
    "removes temporary files. The worker makes the file again as soon as it can. Existing links were not cut.",
    "do nothing, unless it happens again: then set XDG_RUNTIME_DIR or TMPDIR to a directory that no program cleans up.",
)
SINK_FILE_DAMAGED: Final = Code(
    "K572",
    "File of a sink is damaged",
    "SQLite found pages with other content than was written, or a line of a JSON Lines file does not match its key. "
    "The disk is failing, or a program wrote into the file. Kedge checks files of up to 1 GiB at the end of a run. "
    "Acked records are not sent again, so lost rows do not come back by themselves.",
    "check the disk. Restore the file from a copy; or extract the rows that can be read (sqlite3 FILE .recover); or "
    "give up its rows: move it away, and run over the same input with another state directory, which makes it again.",
)
CHECKPOINT_OVERDUE: Final = Code(
    "K573",
    "Checkpoint is not decided",
    "A checkpoint waits for a worker whose loop is blocked, or for a disk; or each one is given up, because a worker "
    "is away or its disk is full. Nothing is lost. Until one is decided, Kedge remembers all inputs since the last "
    "one, and the sources wait when max_remembered_bytes are reached.",
    "look at the worker that the message names: its log says what blocks its loop, or why its store can't be written.",
)
SLOW_CHECKPOINT: Final = Code(
    "K574",
    "Checkpoint was slow",
    "A checkpoint took longer than a second. Tuples were processed meanwhile. After a crash more is done again, "
    "because sources resume at the last decided checkpoint.",
    "do nothing, unless it happens often: then use a faster disk, or a larger checkpoint_s.",
)
KNOWN_INPUTS_DROPPED: Final = Code(
    "K575",
    "Known inputs were dropped",
    "Kedge remembers each input that a bolt has counted until its message is done. Inputs of an earlier run go once "
    "their source has given them again. A million of them did not come again in one task, as if the source has lost "
    "them, so Kedge has dropped the oldest. If one of these comes after all, it is counted a second time.",
    "find out if the source still has the messages of the earlier run; if it never gives them again, do nothing.",
)
HANDOVER_FORGETS: Final = Code(
    "K576",
    "Hand-over forgets old records",
    "A hand-over to Spark remembers each record until its message cannot come again. Records that a process had handed "
    "over shortly before it died never come again if their messages were done. There are more than a million of them "
    "now, so the oldest are forgotten. If one of these does come again, Spark gets it twice.",
    "do nothing, unless a source may still give messages that are older than a million records.",
)

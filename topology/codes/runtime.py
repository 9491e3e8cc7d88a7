"""K5xx: what happens in a run: failures of inputs, dead messages, sources, workers. Words only."""

from typing import Final

from topology.codes.code import Code

EVENT_LOOP_BLOCKED: Final = Code(
    "K566",
    "The event loop is blocked",
    "A bolt or spout computes or waits for long without `await`, so that nothing else of the process runs: no other "
    "bolt, no ack, no view of the run. The line names the component and where it stands. Time in which the loop did "
    "not turn counts for no timeout. A run of one process can't name what keeps Python's lock until it returns, a long "
    "regular expression say.",
    "set `blocking = True` on the bolt, which runs its `process` in a thread; or write it as async def, and await what "
    "it waits for.",
)


USER_CODE_RAISED: Final = Code(
    "K501",
    "User code raised",
    "A method of a bolt or spout raised. Where it was handling an input, that input has failed, and its message is "
    "replayed for retry_for_s, or max_replays times. The first of each kind is shown with your frames, the others are "
    "counted.",
    "mend the line that the traceback ends in; raise Reject where no replay can help.",
)
BOLT_FAILED_INPUT: Final = Code(
    "K502",
    "A bolt failed its input",
    "A bolt that defines execute has called out.fail: the message is replayed.",
    "look at the reason that it gave.",
)
PROCESS_TIMEOUT: Final = Code(
    "K503",
    "Over the time limit",
    "process or execute did not end within process_timeout_s, and was cancelled: the message is replayed.",
    "find what it waits for, or raise the limit: --config process_timeout_s=….",
)
EMIT_FAILED: Final = Code(
    "K504",
    "An emission that could not go",
    "A record could not be routed or encoded, so the input that emitted it has failed.",
    "look at the sentence: it has a code of its own (K6xx).",
)
MESSAGE_REJECTED: Final = Code(
    "K505",
    "Rejected",
    "A bolt has raised Reject: this message can never be processed, and is dead at once, without replays.",
    "look at what the bolt says of the record; nothing else is to be done.",
)
TREE_TIMEOUT: Final = Code(
    "K506",
    "No progress",
    "Nothing was acked in a tuple's tree for tree_timeout_s: the message is replayed.",
    "look for the bolt that holds it, or raise the limit: --config tree_timeout_s=….",
)
TUPLE_FORGOTTEN: Final = Code(
    "K507",
    "Held and forgotten",
    "A bolt that defines execute kept a tuple, and has lost it without out.ack or out.fail.",
    "ack or fail each tuple that execute is given.",
)
PEER_WORKER_LOST: Final = Code(
    "K508",
    "A link or a worker was lost",
    "What was under way there is replayed. This does not count against max_replays.",
    "nothing, unless it comes again: then look at why the worker died.",
)
DRAIN_TIMEOUT: Final = Code(
    "K509",
    "Cut off by the drain",
    "The run was to end, and this was not done within its time.",
    "raise drain_timeout_s where it needs longer.",
)
STALE_TUPLE: Final = Code(
    "K510",
    "Stale",
    "A tuple of an earlier attempt, or of a worker that is replaced, came late and was dropped. Its message is "
    "replayed.",
    "nothing: it is counted so that it is not passed over.",
)
UNDECODABLE_RECORD: Final = Code(
    "K511",
    "A record that can't be decoded",
    "The bytes of a record from another worker are not those of its class: a field holds what its type does not allow.",
    "mend what the emitter puts into the field.",
)
RECORD_TOO_LARGE: Final = Code(
    "K512",
    "A record that is too large for a frame",
    "Records between workers travel in frames, which have a limit; its tree has failed.",
    "send a reference in place of the content: a path, a key.",
)
MESSAGE_DEAD: Final = Code(
    "K520",
    "A message is dead",
    "It has failed for longer than retry_for_s or more often than max_replays allows, or was rejected. "
    "It is not tried again by itself; the others go "
    "on. It is counted, and the exit status is 1. A run that keeps state keeps it as a dead letter.",
    "mend the cause that is shown with it, then kedge dead replay NAME; --config on_dead=stop ends a run at the first "
    "one.",
)
SPOUT_RAISED: Final = Code(
    "K521",
    "A source raised",
    "poll or records of a spout raised, so the run drains and ends: nobody could read on for it.",
    "mend the line that the traceback ends in; catch in the spout what can be waited for.",
)
POLL_RETURNED_NONE: Final = Code(
    "K522",
    "poll returned None",
    "poll waits until there is a message, and returns an empty list at the end of the source.",
    "return [] at the end.",
)
UNKNOWN_PARTITION: Final = Code(
    "K523",
    "A message of an unknown partition",
    "Positions are kept for each partition that partitions() names, and this message is of none of them.",
    "return that partition, with its epoch, from partitions().",
)
NON_INCREASING_ID: Final = Code(
    "K524",
    "An id that does not grow",
    "The ids of a partition's epoch that are ints grow from message to message, with gaps or without, so that "
    "progress can be kept as ranges. This one is not above the one before it, and is not that of a message under way.",
    "give each message the next number or offset; where ids begin again, let partitions() name a new epoch; ids that "
    "are names are str or bytes.",
)
WORKER_STATE_BROKEN: Final = Code(
    "K525",
    "The state of a worker can't be trusted",
    "The disk has lost something while the state was written: an fsync failed, or what was read back is damaged. "
    "Nothing was acked on it. What is on the disk is read anew by the next start of the worker.",
    "look at the disk and its log (dmesg); with several workers, the worker is replaced by itself.",
)
LAST_POSITIONS_NOT_KEPT: Final = Code(
    "K526",
    "The last positions are not kept",
    "The state could not be written at the end of the run: no space, a quota, or a disk that is read-only. What was "
    "done since the last commit is processed once more by the next run; idempotent sinks drop it.",
    "make room before the next run.",
)
WORKER_DIED: Final = Code(
    "K530",
    "A worker died",
    "A worker process has ended by itself, or was killed. It is restarted, goes on with the state that was kept, and "
    "what was under way is replayed.",
    "look at how it ended: SIGKILL is mostly memory, SIGSEGV an extension in C.",
)
TOO_MANY_WORKER_DEATHS: Final = Code(
    "K531",
    "Workers died too often",
    "More workers died within a minute than max_restarts allows, so the run has ended.",
    "mend the cause, or raise max_restarts.",
)
WORKER_DIED_WHILE_ENDING: Final = Code(
    "K532",
    "A worker died while the run ended",
    "It ended without its last word, and nobody read on in its place: whether all that it had was done is not known.",
    "run again: what was stored is not stored twice.",
)
RUNTIME_FAILED: Final = Code(
    "K533",
    "A part of the runtime has died",
    "Something in Kedge itself raised. What the process had is lost, and is replayed by others.",
    "please report it, with the traceback: it is a mistake of ours.",
)
WORKER_UNREACHABLE: Final = Code(
    "K534",
    "A worker can't be connected to",
    "The address of another worker could not be used, or there was no descriptor left for it. It is tried again some "
    "times a second.",
    "look at the address: with tcp links, all workers need to reach it; and at the limit of descriptors, ulimit -n.",
)
SINK_WRITER_DIED: Final = Code(
    "K535",
    "A sink's writer has ended",
    "The task that writes for a sink raised what it does not expect. What the sink takes now fails.",
    "please report it, with the traceback, if it is a sink of Kedge's.",
)
STATE_NOT_WRITABLE: Final = Code(
    "K536",
    "The state can't be written",
    "The disk is full, a quota is reached, or the state directory can't be written any more. Nothing is lost: the "
    "sources wait, and what is under way goes on.",
    "make room, or make the directory writable again; the run goes on by itself.",
)
STATE_DURABILITY_UNKNOWN: Final = Code(
    "K537",
    "What the disk has is not known any more",
    "The system could not make something durable, or gives back something else than was written. Nothing may be built "
    "on that, so the process ends, and the next one reads what is there.",
    "look at the disk and the kernel's log; if the run does not start again, it says what to do.",
)
DEAD_LETTER_BOLT_FAILED: Final = Code(
    "K538",
    "Who reads the dead letters has failed",
    "A bolt that reads a spout's dead letters has failed for one of them for longer than retry_for_s "
    "or more often than max_replays allows. The "
    "letter is kept, as every dead letter is in a run that keeps state; only this bolt does not get it again.",
    "mend the bolt that reads them; `kedge dead show NAME` shows the letter.",
)
DEAD_LETTER_NOT_REPLAYABLE: Final = Code(
    "K539",
    "A dead letter can't be replayed",
    "Its spout, or the class of its record, has changed since the message died; or workers have died again and again "
    "while it was replayed. The letter stays.",
    "look at the sentence; `kedge dead show NAME` shows the letter, `kedge dead replay NAME` tries again.",
)
REPLAYING_ONE_BY_ONE: Final = Code(
    "K540",
    "Messages are replayed one at a time",
    "Workers have died twice while the same messages were under way. To find out whether it is one of these that takes "
    "them down, each is replayed alone, and nothing else is read meanwhile.",
    "nothing: it takes some seconds, and the others go on by themselves.",
)
DEADLY_MESSAGE: Final = Code(
    "K541",
    "A message takes workers down",
    "Workers have died three times while this message was under way, the last time while it was there alone; so it is "
    "dead, and the others go on.",
    "look at how the worker ended (K530) and at this record: an extension in C, os._exit, or all of the memory.",
)
SINK_STORE_AWAY: Final = Code(
    "K546",
    "A store is away",
    "A sink's store does not answer, is locked, or has no room. The sink asks again for as long as it takes; its "
    "inputs wait without a deadline, and the sources with them. Nothing is lost, and no replays are spent.",
    "mend what the sentence names, and the run goes on by itself; or end it, and what waits is read again next time.",
)
SINK_STORE_BROKEN: Final = Code(
    "K547",
    "A store is broken",
    "A disk has failed to sync what a sink wrote, or the sink's file is damaged. What is stored is not known in this "
    "process any more, so it acks nothing and ends; the next one reads what is there.",
    "look at the disk and at the system's log; then start the run anew, which stores what was not acked.",
)
TIMER_FAILED: Final = Code(
    "K548",
    "A timer, or what it has put out, could not be processed",
    "on_timer has returned records, and a bolt below failed them for as long as retry_for_s "
    "or as often as max_replays allows, or rejected them; or, "
    "when all inputs had ended, on_timer itself has raised as often. The records, or the timer, are kept in the state "
    "directory, this run does not try them any more, and its exit status is 1.",
    "mend what the bolt says of them; the next run tries them again.",
)
FSYNC_OFF_ALLOWED: Final = Code(
    "K550",
    "A server without fsync",
    "The sink was told that it may use a server with fsync off. What is acked there is lost when the power goes.",
    "turn fsync on in postgresql.conf, unless losing that is fine.",
)
COMPANION_FAILED: Final = Code(
    "K551",
    "A companion that can't go on",
    "A process beside the run has said that it failed for something that a user has to mend; the sentence is its own. "
    "The run drains and ends, with exit status 1, and the next one goes on from there.",
    "mend what the sentence says, and run again.",
)
TOO_MANY_COMPANION_DEATHS: Final = Code(
    "K552",
    "A companion that dies again and again",
    "A process beside the run has died more often within a minute than max_restarts allows. What it wrote to stderr "
    "last was told, and is in companions/NAME.log in the state directory's folder kept.",
    "see there why it died, and run again.",
)
COMPANION_LAUNCH_RAISED: Final = Code(
    "K553",
    "A companion that could not be launched",
    "The method launch of a companion raised, so that no process was started.",
    "mend it; for what a user has to mend it raises ConfigurationError, with a sentence.",
)
COMPANION_DIED: Final = Code(
    "K554",
    "A companion has died",
    "A process beside the run has ended with another status than 0, or was killed. It is started again, and all that "
    "it had started was killed first; the last lines that it wrote to stderr follow.",
    "nothing, unless it comes again: what it wrote is in companions/NAME.log in the state directory's folder kept.",
)
RECORD_REJECTED_ON_SPARK: Final = Code(
    "K555",
    "A record that a bolt on Spark has rejected",
    "With --engine spark, a bolt has raised Reject, a sink has failed a row for good, or a spout's message can't go. "
    "The rest of its batch has gone on. The dead letter has the record as a text, to be read: `kedge dead replay` "
    "tells the same once more, and gives no bolt on Spark the record again, as Spark computes no batch again that is "
    "done.",
    "see the record in the letter; mend the bolt, or what has made the record; then `kedge dead drop` the letter, and "
    "have the source give the message anew.",
)
DUPLICATE_MESSAGE_ID: Final = Code(
    "K556",
    "One id for two messages",
    "An id names one message of its partition, and a source may give that as often as it likes. This one gave an id "
    "again with another record while the first was not done: one of the two would have been taken for the other.",
    "give each message an id of its own, or name the part of the source that it comes from: "
    'Message(record, id, partition="…").',
)
WORKER_SOCKET_DELETED: Final = Code(
    "K571",
    "A worker's socket was gone",
    "The file of the socket that other workers reach this one by was deleted, by a program that tidies up temporary "
    "files say. It is made again, as soon as that can be done; links that stood were not cut.",
    "nothing, unless it comes again: then set XDG_RUNTIME_DIR or TMPDIR to a directory that nobody tidies up.",
)
SINK_FILE_DAMAGED: Final = Code(
    "K572",
    "A sink's file is damaged",
    "SQLite has found pages that are not what was written, or a line of a JSON Lines file does not match its key: a "
    "failing disk, or a program that has written into it. Files of up to 1 GiB are looked through at the end of a run. "
    "What was acked is not sent again, so the rows that are lost do not come back by themselves.",
    "look at the disk. Restore the file from a copy; or take out of it what can be read (sqlite3 FILE .recover); or "
    "give up its rows: move it away, and run over the same input with another state directory, which makes it anew.",
)

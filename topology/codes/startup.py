"""K4xx: causes outside the topology that keep a run from starting (StartError). Text only."""

from typing import Final

from topology.codes.code import FRESH, LOG_LOSS, LOSS, NEW_DIRECTORY, Code

COMPONENT_WAITING_TO_OPEN: Final = Code(
    "K478",
    "Component waits for a missing dependency",
    "A spout or bolt cannot open yet because something that it needs is late: a server that is still starting, or a "
    "file that is not written yet. The run waits up to start_timeout_s, then ends with exit status 3. A worker that "
    "replaces a dead one begins its wait again, so a run that has started goes on waiting.",
    "find out why it is not there; if it takes longer, pass --config start_timeout_s=300.",
)


TOO_FEW_PROCESSES: Final = Code(
    "K468",
    "Limit of processes and threads reached",
    "A run needs some threads, and with --workers some processes. The system refused them because a limit is reached: "
    "that of this user (ulimit -u counts all of the user's processes and threads), or that of the container (pids).",
    "raise the limit, ulimit -u 4096 or the container's; end other processes of this user; or use fewer workers.",
)


STATEFUL_SPOUT_RESCALED: Final = Code(
    "K458",
    "Number of a spout's tasks changed, and state would count twice",
    "Kedge does not know of every single message whether the former tasks had done it. So some are read again, even "
    "after a clean end. Sinks recognise these messages. State does not, and would count them twice.",
    f"give the spout the number of tasks that it had; or {FRESH}.",
)
UNSHARED_ID_SPOUT_RESCALED: Final = Code(
    "K459",
    "Number of tasks changed for a spout without shared ids",
    "Each task of the spout has its own message ids. So the positions of the former tasks do not show what another "
    "number of tasks has done. Kedge would read all messages again under other identities, and sinks would store them "
    "again.",
    "give the spout the number of tasks that it had; or write shared_ids = True in its class, if its tasks share one "
    "set of ids (after several tasks without it, run with their number once more and let that run end); or accept "
    "that everything is stored again, --accept-duplicates.",
)


COMPONENT_OPEN_RAISED: Final = Code(
    "K401",
    "Component could not be opened",
    "open(self, task) of a spout or bolt raised, before any record was read. The traceback begins at your first line.",
    "fix the last line of the traceback, or the resource that it could not reach.",
    traced=True,
)
COMPONENT_COPY_FAILED: Final = Code(
    "K402",
    "Component could not be copied for its task",
    "Each task gets a copy of the object that you gave to the topology. The check had passed, but making a copy "
    "failed later: the object now holds something that cannot be copied.",
    "take resources in open(self, task), not in the constructor.",
)
UNCOPYABLE_GROUPING: Final = Code(
    "K403",
    "Custom grouping cannot be copied",
    "Each emitting task gets a copy of the grouping, and something in it cannot be copied.",
    "keep only configuration in the grouping.",
)
WORKER_TOPOLOGY_RAISED: Final = Code(
    "K404",
    "Worker could not make the topology",
    "Each worker process imports the file again. The import raised there, though not in the first process: something "
    "that the file reads is gone or has changed.",
    "fix the last line of the traceback.",
    traced=True,
)
DIFFERING_WORKER_TOPOLOGIES: Final = Code(
    "K405",
    "Workers made different topologies",
    "Each process makes the topology again, and all of them have to make the same one.",
    "do not change the file while the run starts, and make nothing in it depend on a clock, chance or the process.",
)
WORKER_LINK_TIMEOUT: Final = Code(
    "K406",
    "Workers could not connect in time",
    "Each worker connects to each other worker, and a connection was not made in time: the machine is overloaded, or "
    "a firewall blocks the ports of --links.",
    "run again with fewer workers; with tcp links, check the firewall.",
)
INCOMPATIBLE_WORKERS: Final = Code(
    "K407",
    "Incompatible workers",
    "Two workers run different versions of Kedge, or different topologies.",
    "run all of them from one installation, and start the run again.",
)
WORKER_DIED_BEFORE_START: Final = Code(
    "K408",
    "Worker died before it started",
    "The process was started, and ended without a reason: it was killed, or code of the topology ended it.",
    "read its output, and check the memory limit.",
)
COMPONENT_FILES_NOT_REMOVED: Final = Code(
    "K409",
    "Files of components cannot be removed",
    "--fresh, and another --run-id, remove the files that components keep in the state directory. The system refused "
    "to remove one of them.",
    "find out who owns the file, and which program uses it; then run again.",
)
STATE_DIR_UNUSABLE: Final = Code(
    "K410",
    "State directory cannot be used",
    "The directory that holds what a run stores for the next run cannot be made or read.",
    "pass another one, --state-dir DIR, or fix the rights of this one.",
)
STATE_DIR_NOT_OWNED: Final = Code(
    "K411",
    "State directory belongs to another user",
    "The content of a state directory decides what is read again. So it has to be a directory owned by this user, and "
    "not a link.",
    "pass another one: --state-dir DIR.",
)
STATE_DIR_LOCKED: Final = Code(
    "K412",
    "State directory is in use",
    "Another run of this topology has locked it, because two runs would read the same positions. If no run is active, "
    "a kedge dead command has locked it until the command ends.",
    "end the other run with kedge stop, or give this one a directory of its own: --state-dir DIR.",
)
STATE_DIR_DAMAGED: Final = Code(
    "K413",
    "State directory is damaged, or of another topology",
    "The manifest (state.json) in it cannot be read, or was written by another version of Kedge or by another "
    "topology.",
    f"restore this one from a copy, or pass another one, --state-dir DIR; or {NEW_DIRECTORY.format(path='this one')}.",
)
STATE_DIR_NOT_WRITABLE: Final = Code(
    "K414",
    "State directory cannot be written",
    "A run has to store its notes durably before it continues, and the system refused it. Most of the time the disk "
    "is full.",
    "free disk space, or give this user the right to write there, and run again.",
)
STATE_DIR_NOTES_OVERFLOW: Final = Code(
    "K415",
    "Too many notes in the state directory",
    "Sources store few notes, so the file has a size limit. One source stores notes without end.",
    f"find the source that stores so many, and fix it; or {FRESH}.",
)
DAMAGED_FILE_LIST: Final = Code(
    "K416",
    "A source's list of files is damaged",
    "A source lists in the state directory the files that it has read. This list cannot be read.",
    f"restore the state directory from a copy; or {FRESH}.",
)
DAMAGED_FILE_TIME: Final = Code(
    "K417",
    "A source's note of a file's time is damaged",
    "When a source first reads a file, it notes in the state directory the time of the file's last change. This note "
    "cannot be read.",
    f"restore the state directory from a copy; or {FRESH}.",
)
NEWER_STATE_DIR_FORMAT: Final = Code(
    "K418",
    "State directory was written by a newer Kedge",
    "Its files have a format that this version does not know. Kedge reads older formats and converts them. It cannot "
    "read newer formats.",
    f"install the newer version again; or {NEW_DIRECTORY.format(path='the directory')}.",
)
STATE_DIR_WORLD_WRITABLE: Final = Code(
    "K419",
    "State directory is writable by every user",
    "A user who can write to a state directory decides what is read again. Kedge makes state directories that only "
    "this user can access.",
    "remove that right from the others, chmod o-w DIR, or pass another one: --state-dir DIR.",
)
NO_TEMP_DIR: Final = Code(
    "K420",
    "No directory for a run's sockets",
    "Workers connect through sockets in a directory of the run, made in XDG_RUNTIME_DIR or the temporary directory.",
    "set TMPDIR to a directory that can be written.",
)
INVALID_SOCKET_PATH: Final = Code(
    "K421",
    "Invalid path of a socket",
    "Systems allow about 100 bytes for the path of a socket. The directory has to exist, and no file may have that "
    "path.",
    "set TMPDIR to a short directory that can be written.",
)
TOO_FEW_FILE_DESCRIPTORS: Final = Code(
    "K422",
    "Too few file descriptors",
    "Each link between workers takes some, and the limit of this process is below what they need.",
    "raise the limit, ulimit -n 4096, or use fewer workers.",
)
INVALID_LISTEN_ADDRESS: Final = Code(
    "K423",
    "Invalid address in --links",
    "--links names a host that cannot be resolved, or an address that other workers cannot connect to.",
    "pass an address of this machine: tcp://127.0.0.1, or that of its network.",
)
ADDRESS_BIND_FAILED: Final = Code(
    "K424",
    "Address cannot be bound",
    "The system refused the address: another program uses it, it does not belong to this machine, or this user may "
    "not use it.",
    "pass another port, or none: then Kedge takes a free one.",
)
TCP_WITHOUT_KEYS: Final = Code(
    "K425",
    "TCP links without keys",
    "Without keys any program could connect to a worker. The kedge command makes keys for each run.",
    "use ipc, or pass keys.",
)
INCOMPATIBLE_LIBZMQ: Final = Code(
    "K426",
    "Installed libzmq is too old or lacks CURVE",
    "Links between workers use ZeroMQ. The library on this machine is too old, or was built without the features that "
    "they need.",
    "install pyzmq again from its wheel: pip install -U --force-reinstall --only-binary :all: pyzmq.",
)
SUPERVISOR_NOT_ANSWERING: Final = Code(
    "K427",
    "Supervisor did not answer",
    "A worker had used all of its numbers, asked its supervisor for new ones, and got no answer.",
    "check whether the supervisor is alive, and run again.",
)
SOURCE_NOTE_NOT_KEPT: Final = Code(
    "K428",
    "Note of a source could not be stored",
    "A source in a worker asked the supervisor to store a note durably, and the system refused it.",
    "check the disk of the state directory, and run again.",
)
SOCKET_DIR_NOT_CREATED: Final = Code(
    "K429",
    "Directory for a run's sockets cannot be made",
    "A run makes a directory for its sockets in XDG_RUNTIME_DIR or the temporary directory. The system refused to "
    "make it, or removed it.",
    "set TMPDIR to a directory that can be written.",
)
STATE_FILE_DAMAGED: Final = Code(
    "K430",
    "State file is damaged",
    "Kedge checks a worker's state file when it opens it, and the content differs from what was written. The disk is "
    "failing, or a program changed the file. Kedge does not change the file.",
    f"restore the state directory from one copy; or {LOSS.format(path='it')}.",
)
STATE_FILE_MISSING: Final = Code(
    "K431",
    "State file is missing",
    "The state directory lists this file, in which a worker keeps positions, dead letters and state. Without the file "
    "Kedge would process messages again, or not at all.",
    "put it back; or give up the positions, the state and the dead letters in it and read its sources from their "
    "start, by --accept-loss. If bolts keep state, it has to begin again too: add --fresh, which gives up all "
    "positions and all state.",
)
STATE_FILE_OUTDATED: Final = Code(
    "K432",
    "State file is outdated",
    "The file has fewer commits than the state directory lists, or lacks a checkpoint that is decided: an older copy "
    "replaced it.",
    "put the newest one back; or give up what the file had after that copy and process it again, by --accept-loss. If "
    "bolts keep state, it has to begin again too: add --fresh, which gives up all positions and all state.",
)
FOREIGN_STATE_FILE: Final = Code(
    "K433",
    "State file belongs to another directory",
    "Each state file has its own number, which its state directory lists. The number of this file differs.",
    f"put the right one back; or {LOSS.format(path='this one')}.",
)
UNKNOWN_STATE_FILE: Final = Code(
    "K434",
    "State file is not listed in state.json",
    "The state.json of a state directory lists its files. It is missing, or does not list this file. The same holds "
    "for the folder kept, which has files of components: they belong to positions that are lost with state.json.",
    "restore the state directory from one copy; or give up the positions, the state and the dead letters in the file: "
    "move it away and run again.",
)
NEWER_STATE_FILE_FORMAT: Final = Code(
    "K435",
    "State file was written by a newer Kedge",
    "The file has a format that this version does not know. Kedge reads older formats, but not newer ones.",
    f"install the newer version again; or {NEW_DIRECTORY.format(path='the state directory')}.",
)
STATE_FILE_UNUSABLE: Final = Code(
    "K436",
    "State file cannot be used",
    "The system does not let Kedge read or write it: missing rights, a full disk, or another process that has it open.",
    "fix what the system reports, and run again: nothing was changed.",
)
STATE_REASSIGNMENT_FAILED: Final = Code(
    "K437",
    "State could not be moved between workers",
    "Each worker's file has the state of its tasks. If the plan has changed, some state moves to another file, and "
    "the system refused that. Nothing is lost.",
    "free disk space, or check the disk, and run again: the run resumes where it was.",
)
STATE_FILE_UNTRUSTED: Final = Code(
    "K438",
    "State file is a link, or belongs to another user",
    "The content of a state file decides what is read again. So Kedge follows no link, and reads no file of another "
    "user.",
    "remove it if you did not put it there, and find out who did.",
)
STATE_LOSS_ACCEPTED: Final = Code(
    "K439",
    "State was lost, as --accept-loss allows",
    "A state file was missing or outdated, and --accept-loss made the run start without its content. Records that its "
    "sources give again count a second time in state that other files keep. Records that its state had counted are "
    "not given again by sources whose positions are in other files.",
    f"do nothing if no bolt keeps state, or if there is one worker; else {FRESH}.",
)
TOPOLOGY_CHANGED_IN_FLIGHT: Final = Code(
    "K440",
    "Topology changed while messages were in flight",
    "The last run was killed, or stopped before it had processed all that it had read. Those messages are read again. "
    "The changed topology would give them other identities or keys, so sinks and states would take them for new.",
    "run the old code once more and end it by kedge stop --drain; or accept duplicates, --accept-duplicates; or "
    f"{FRESH}.",
)
UNREADABLE_LAST_TOPOLOGY: Final = Code(
    "K441",
    "Topology of the last run cannot be compared",
    "The last run stored a description of its topology in a form that this version of Kedge does not read.",
    f"run it with the version of Kedge that wrote it and end it by kedge stop --drain; or {FRESH}.",
)
COMMAND_SOCKET_UNAVAILABLE: Final = Code(
    "K442",
    "Commands cannot reach the run",
    "kedge stop and kedge dead reach a run through a socket in its state directory. If that path is too long, the "
    "socket is in the directory for sockets. Neither socket could be made. The run itself continues.",
    "pass a shorter --state-dir on a local disk; until then, end the run with SIGTERM.",
)
RUN_COMMAND_RAISED: Final = Code(
    "K443",
    "Command to a run failed",
    "An unexpected exception was raised while the run executed a command. The run itself continues.",
    "please report it, with the traceback.",
)
RUN_END_NOT_RECORDED: Final = Code(
    "K444",
    "Clean end of a run could not be recorded",
    "All input was processed, but Kedge could not write to the state directory. Most of the time the disk is full. "
    "Nothing is lost: the next run treats this one as killed mid-run.",
    "free disk space. If you change the topology before the next run, you may need --accept-duplicates.",
)
STALE_WORKER_INCARNATION: Final = Code(
    "K445",
    "State file belongs to a later start of the worker",
    "Each start of a worker has a number, which its state file keeps. This worker has a lower number than the file: "
    "another worker took its place while it was starting slowly.",
    "do nothing if a run is active. If state.json was put back from an older copy, restore all of the directory from "
    "one copy.",
)
STATE_FILE_CHANGED_EXTERNALLY: Final = Code(
    "K446",
    "Another program wrote to a state file",
    "A worker is the only writer of its state file, and before each commit it checks that the file is unchanged. The "
    "file had changed, so the worker writes nothing more. The file system does not keep locks, or another program "
    "changed the file.",
    "keep the state directory on a local disk, find out which program uses the file, and run again.",
)
KEPT_STATE_TYPE_MISMATCH: Final = Code(
    "K447",
    "Stored state has another type than the bolt's annotation",
    "A bolt's state was written as one type, and cannot be read as the type that its annotation names now. State "
    "outlives the messages that made it, so Kedge refuses to start even if all messages are done. Kedge does read a "
    "record whose last fields are new and have defaults.",
    f"run the old code and export the state by kedge state export; or {FRESH}.",
)
STATE_NOT_DRAINED: Final = Code(
    "K448",
    "State cannot be exported or imported before the run has drained",
    "The last run was killed mid-run, so some inputs will be read again. The log that deduplicates them is stored "
    "beside the state, and is not part of an export. Such an input would count twice, or not at all, in exported or "
    "imported state.",
    "run it once more and let it end; if its sources never end, wait until they give something new, or nothing for "
    "five seconds, and then end the run by kedge stop --drain, which reports whether all is done.",
)
STATE_IMPORT_FAILED: Final = Code(
    "K449",
    "State could not be imported",
    "The disk has no room, or failed. The stored state is unchanged.",
    "free disk space, or find out what is wrong with the disk; then import again.",
)
COMPONENT_DIR_NOT_CREATED: Final = Code(
    "K450",
    "Folder for files of components cannot be made",
    "A component keeps its own files in the state directory or, if the run has none, in the temporary folder of the "
    "system. The folder for them could not be made.",
    "free disk space there, or pass a state directory that you may write to; TMPDIR names another temporary folder.",
)
UNKNOWN_ENGINE: Final = Code(
    "K451",
    "Unknown engine",
    "A package provides an engine by an entry point of the group kedge.engines. `spark` is Kedge's own engine.",
    "write --engine spark, or install the package that provides the other one.",
)
ENGINE_LOAD_FAILED: Final = Code(
    "K452",
    "Engine cannot be loaded",
    "The engine's module raised when it was imported. A package that it needs may not be installed.",
    "pip install 'kedge-streams[spark]' for spark; for another engine, fix the package that provides it.",
)
UNSUPPORTED_BY_ENGINE: Final = Code(
    "K453",
    "Engine does not support the topology",
    "Each line names the file and line of a call, the feature that the engine lacks, and a fix. Nothing has been run. "
    "Kedge itself runs the topology as it is.",
    "fix each of these lines, or run without --engine; kedge check --engine NAME lists them without running anything.",
)
INVALID_TRIGGER: Final = Code(
    "K454",
    "Invalid --trigger",
    "The trigger sets when Spark begins a micro-batch: as soon as the last one has ended, at an interval, or once for "
    "all records after the sources have ended.",
    "write --trigger default, a duration such as 100ms or 1s, or available-now; with --engine spark.",
)
ENGINE_NOT_INSTALLED: Final = Code(
    "K455",
    "Software of the engine is not installed",
    "With --engine spark a topology's bolts run on Spark, and pyspark comes with an extra of Kedge.",
    "pip install 'kedge-streams[spark]', into the environment that kedge runs in.",
)
SPARK_QUERY_FILES_MISSING: Final = Code(
    "K456",
    "Files of a Spark query are missing",
    "The query started in an earlier run on this state directory, and one of its folders or files is missing. If the "
    "query started again, it would lack records that were handed over and not counted yet, and count replayed records "
    "twice.",
    f"put it back from a copy of the state directory; or {FRESH}.",
)
STATE_DIR_NOT_SHARED: Final = Code(
    "K457",
    "Spark's machines cannot access the state directory",
    "Executors of a cluster read the records from the state directory, and keep their own state in it.",
    "give the run a --state-dir on a file system that all machines of the cluster can access, under the same path.",
)
POSSIBLY_RENAMED_BOLT: Final = Code(
    "K463",
    "A bolt with state may have been renamed",
    "A bolt whose state is kept is gone, and the same start has a new bolt whose state is of the same type. If it is "
    "the same bolt under another name, it would begin with empty state.",
    'write renamed_from="old" in topology.bolt(…) to resume with that state; or begins_empty=True for a new state, '
    "and the state of the other bolt stays stored.",
)
STATE_LOG_DAMAGED: Final = Code(
    "K479",
    "Log of a worker is damaged",
    "Kedge checks a worker's log when it opens it. Bytes that were on the disk already are not the bytes that were "
    "written. The disk is failing, or a program changed the file. Kedge does not change the file.",
    f"restore the state directory from one copy; or {LOG_LOSS.format(paths='both files of the log')}.",
)
STATE_LOG_UNUSABLE: Final = Code(
    "K480",
    "Log of a worker cannot be used",
    "The log cannot be opened, belongs to another worker or a later start, has a newer format, or lacks the records "
    "since the last checkpoint. Kedge does not change the file.",
    "do what the error says, and run again.",
)
DECISION_FILE_MISSING: Final = Code(
    "K481",
    "Decision file is missing, or older",
    "A run with several workers notes in the file `decided` of the state directory which checkpoint is decided. Some "
    "worker had prepared a checkpoint when the run was interrupted, and without the newest file nobody knows whether "
    "it counts.",
    "put the file back; or go back to the checkpoint before, which gives up the positions, dead letters and state "
    "since then, by --accept-loss.",
)
DECISION_FILE_DAMAGED: Final = Code(
    "K482",
    "Decision file is damaged",
    "The file `decided` of the state directory names the last decided checkpoint. Its content is not what was written. "
    "The disk is failing, or a program changed the file.",
    "restore the state directory from one copy; or give up the positions, dead letters and state since the checkpoint "
    "before: move the file away and run again with --accept-loss.",
)
OLDER_STATE_NOT_DRAINED: Final = Code(
    "K483",
    "State of an older Kedge is not drained",
    "An older version of Kedge wrote these state files, and its last run was interrupted. What it remembers of inputs "
    "in flight has another form, by which this version would count some of them twice.",
    f"run the topology with the older version once more and end it by kedge stop --drain, then upgrade; or {FRESH}.",
)
DURABILITY_CHANGED_IN_FLIGHT: Final = Code(
    "K484",
    "Durability changed while messages were in flight",
    "With durability 'disk' an output of a bolt with state is named by its input, else by its key and its count. The "
    "last run was killed, or stopped before it had processed all that it had read. These messages are read again, and "
    "sinks would take the outputs under their other names for new ones.",
    "run once more with the durability that the last run had, and end it by kedge stop --drain; or accept duplicates, "
    f"--accept-duplicates; or {FRESH}.",
)

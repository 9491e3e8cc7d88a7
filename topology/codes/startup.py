"""K4xx: what keeps a run from starting, outside the topology (StartError). Words only."""

from typing import Final

from topology.codes.code import FRESH, LOSS, NEW_DIRECTORY, Code

COMPONENT_WAITING_TO_OPEN: Final = Code(
    "K478",
    "A component waits for what is not there yet",
    "What a spout or bolt needs to open is late: a server that is still starting, a file that nobody has written yet. "
    "The run waits for it up to start_timeout_s, then ends with exit status 3. A worker that replaces a dead one "
    "begins its wait anew, so that a run that has started goes on waiting.",
    "see why it is not there; for what takes longer give --config start_timeout_s=300.",
)


TOO_FEW_PROCESSES: Final = Code(
    "K468",
    "Too few processes and threads",
    "A run needs some threads, and with --workers some processes. The system refuses them: the limit of this user "
    "(ulimit -u counts all of the user's processes and threads), or that of the container (pids), is reached.",
    "raise the limit, ulimit -u 4096 or the container's; end other processes of this user; or use fewer workers.",
)


STATEFUL_SPOUT_RESCALED: Final = Code(
    "K458",
    "Another number of a spout's tasks, and state that would count twice",
    "Which messages the former tasks had done is not known of each single one. So some are read again, after a clean "
    "end too. Sinks know these; state has forgotten them, and would count them twice.",
    f"give the spout the number of tasks that it had; or {FRESH}.",
)
UNSHARED_ID_SPOUT_RESCALED: Final = Code(
    "K459",
    "Another number of tasks of a spout whose tasks have ids of their own",
    "Each task of the spout has message ids of its own. So nobody can tell what another number of tasks has done by "
    "what the former ones had: all would be read again, under other identities, and sinks would store it again.",
    "give the spout the number of tasks that it had; or write shared_ids = True in its class, where its tasks share "
    "one set of ids (after several tasks without it, run with their number once more and let that run end); or accept "
    "that everything is stored again, --accept-duplicates.",
)


COMPONENT_OPEN_RAISED: Final = Code(
    "K401",
    "A component could not be opened",
    "open(self, task) of a spout or bolt raised, before anything ran. The traceback begins at your first line.",
    "mend the line that the traceback ends in, or what it could not reach.",
    traced=True,
)
COMPONENT_COPY_FAILED: Final = Code(
    "K402",
    "A component can't be copied for its task",
    "Each task gets a copy of what was given to the topology, and making one has failed after the check was passed: "
    "something that can't be copied came into it since.",
    "take resources in open(self, task), not in the constructor.",
)
UNCOPYABLE_GROUPING: Final = Code(
    "K403",
    "A custom grouping can't be copied",
    "Each emitting task gets a copy of the grouping, and something in it can't be copied.",
    "keep only configuration in the grouping.",
)
WORKER_TOPOLOGY_RAISED: Final = Code(
    "K404",
    "A worker could not make the topology",
    "Each worker process imports the file anew, and there it raised, though it did not in the first process: "
    "something that it reads is gone or has changed.",
    "mend the line that the traceback ends in.",
    traced=True,
)
DIFFERING_WORKER_TOPOLOGIES: Final = Code(
    "K405",
    "The workers have made different topologies",
    "Each process makes the topology anew, and all of them have to make the same one.",
    "leave the file alone while the run starts, and make nothing in it depend on a clock, chance or the process.",
)
WORKER_LINK_TIMEOUT: Final = Code(
    "K406",
    "Workers could not link with one another",
    "Each worker is linked to each other one, and that was not done in time: an overloaded machine, or a firewall "
    "between the ports of --links.",
    "run again with fewer workers; with tcp links, look at the firewall.",
)
INCOMPATIBLE_WORKERS: Final = Code(
    "K407",
    "Workers that do not understand one another",
    "Two workers run another version of Kedge, or another topology.",
    "run all of them from one installation, and start the run anew.",
)
WORKER_DIED_BEFORE_START: Final = Code(
    "K408",
    "A worker ended before it had started",
    "The process was started, and ended without saying why: it was killed, or code of the topology has ended it.",
    "look at what it has printed, and at the memory that it may have.",
)
COMPONENT_FILES_NOT_REMOVED: Final = Code(
    "K409",
    "Files of components that can't be removed",
    "--fresh, and another --run-id, forget what components have kept in files in the state directory, and the system "
    "has refused to remove one of them.",
    "see whose the file is, and what uses it; then run again.",
)
STATE_DIR_UNUSABLE: Final = Code(
    "K410",
    "The state directory can't be used",
    "The directory that holds what a run notes for the next one can't be made or read.",
    "give another one, --state-dir DIR, or mend the rights of this one.",
)
STATE_DIR_NOT_OWNED: Final = Code(
    "K411",
    "The state directory is somebody else's",
    "What is in a state directory decides what is read again, so it has to be a directory of this user's, and no link.",
    "give another one: --state-dir DIR.",
)
STATE_DIR_LOCKED: Final = Code(
    "K412",
    "The state directory is in use",
    "Another run of this topology has it locked: two would read the same positions. Where nothing runs, kedge dead has "
    "it for as long as it takes.",
    "end the other run by kedge stop, or give this one a directory of its own: --state-dir DIR.",
)
STATE_DIR_DAMAGED: Final = Code(
    "K413",
    "The state directory is damaged, or another topology's",
    "The file of notes in it can't be read, is of another version of Kedge, or was written by another topology.",
    f"restore this one from a copy, or give another one, --state-dir DIR; or {NEW_DIRECTORY.format(path='this one')}.",
)
STATE_DIR_NOT_WRITABLE: Final = Code(
    "K414",
    "The state directory can't be written",
    "What a run notes has to be durable before it goes on, and the system has refused it: a full disk, most of the "
    "time.",
    "make room in it, or give this user the right to write there, and run again.",
)
STATE_DIR_NOTES_OVERFLOW: Final = Code(
    "K415",
    "Too many notes in the state directory",
    "Sources note little, so the file has a limit; one notes without end.",
    f"find the source that makes so many, and mend it; or {FRESH}.",
)
DAMAGED_FILE_LIST: Final = Code(
    "K416",
    "A source's list of files is damaged",
    "A source notes in the state directory which files it has read. This list can't be read.",
    f"restore the state directory from a copy; or {FRESH}.",
)
DAMAGED_FILE_TIME: Final = Code(
    "K417",
    "A note of a file's time is damaged",
    "A source notes when a file had last been changed as it first reads it. This note can't be read.",
    f"restore the state directory from a copy; or {FRESH}.",
)
NEWER_STATE_DIR_FORMAT: Final = Code(
    "K418",
    "A newer Kedge has written the state directory",
    "Its files have a format that this version does not know. Kedge reads older formats and writes them anew. It can't "
    "read newer ones.",
    f"install the newer version again; or {NEW_DIRECTORY.format(path='the directory')}.",
)
STATE_DIR_WORLD_WRITABLE: Final = Code(
    "K419",
    "A state directory that anybody may write to",
    "Who can write to a state directory decides what is read again. Those that Kedge makes are this user's alone.",
    "take the right from the others, chmod o-w DIR, or give another one: --state-dir DIR.",
)
NO_TEMP_DIR: Final = Code(
    "K420",
    "No directory for a run's sockets",
    "Workers are linked by sockets in a directory of the run's, made in XDG_RUNTIME_DIR or the temporary directory.",
    "set TMPDIR to a directory that can be written.",
)
INVALID_SOCKET_PATH: Final = Code(
    "K421",
    "A socket's path that can't be",
    "Systems allow about 100 bytes for the path of a socket, in a directory that is there and with nothing at that "
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
    "An address that workers can't listen on",
    "--links names a host that can't be resolved, or an address that peers can't connect to.",
    "give an address of this machine: tcp://127.0.0.1, or that of its network.",
)
ADDRESS_BIND_FAILED: Final = Code(
    "K424",
    "An address that can't be bound",
    "The system has refused the address: another program has it, it is not this machine's, or this user may not.",
    "give another port, or none: then a free one is taken.",
)
TCP_WITHOUT_KEYS: Final = Code(
    "K425",
    "TCP without keys",
    "Without keys anybody could connect to a worker; runs of the command make keys for each run.",
    "use ipc, or give keys.",
)
INCOMPATIBLE_LIBZMQ: Final = Code(
    "K426",
    "A libzmq that does not do",
    "Links between workers are made of ZeroMQ, and the library here is too old, or built without what they need.",
    "install pyzmq anew from its wheel: pip install -U --force-reinstall --only-binary :all: pyzmq.",
)
SUPERVISOR_NOT_ANSWERING: Final = Code(
    "K427",
    "The supervisor did not answer",
    "A worker had used up its numbers, has asked its supervisor for new ones, and had no answer.",
    "see whether the supervisor is alive, and run again.",
)
SOURCE_NOTE_NOT_KEPT: Final = Code(
    "K428",
    "A note could not be kept",
    "A source in a worker has asked the supervisor to note something durably, which the system has refused.",
    "look at the disk of the state directory, and run again.",
)
SOCKET_DIR_NOT_CREATED: Final = Code(
    "K429",
    "The directory for a run's sockets can't be made",
    "A run makes a directory for its sockets in XDG_RUNTIME_DIR or the temporary directory, and the system has "
    "refused it, or has taken it away.",
    "set TMPDIR to a directory that can be written.",
)
STATE_FILE_DAMAGED: Final = Code(
    "K430",
    "A state file is damaged",
    "What a worker has kept is checked as it is opened, and it is not what was written: a failing disk, or something "
    "that has changed the file. It is left as it is.",
    f"restore the state directory from one copy; or {LOSS.format(path='it')}.",
)
STATE_FILE_MISSING: Final = Code(
    "K431",
    "A state file is missing",
    "The directory says that a worker has kept positions, dead letters and state in it. Without them messages would be "
    "processed anew, or not at all.",
    "put it back; or give up the positions, the state and the dead letters in it and read its sources from their "
    "start, by --accept-loss. If bolts keep state, it has to begin anew too: add --fresh, which gives up all positions "
    "and all state.",
)
STATE_FILE_OUTDATED: Final = Code(
    "K432",
    "A state file is behind",
    "It has seen fewer commits than the directory knows of: an older copy was put in its place.",
    "put the newest one back; or give up what the file had after that copy and process it again, by --accept-loss. If "
    "bolts keep state, it has to begin anew too: add --fresh, which gives up all positions and all state.",
)
FOREIGN_STATE_FILE: Final = Code(
    "K433",
    "A state file of another directory",
    "Each state file has a number of its own, which its directory knows, and this one has another.",
    f"put the right one back; or {LOSS.format(path='this one')}.",
)
UNKNOWN_STATE_FILE: Final = Code(
    "K434",
    "A state file that nothing knows of",
    "Which files belong to a state directory is in its state.json, which is missing, or does not name this one. So "
    "it is with the folder kept, which has files of components: they belong to positions that are lost with it.",
    "restore the state directory from one copy; or give up the positions, the state and the dead letters in the file: "
    "move it away and run again.",
)
NEWER_STATE_FILE_FORMAT: Final = Code(
    "K435",
    "A state file of a newer Kedge",
    "The file has a format that this version does not know. Older formats are read, newer ones can't be.",
    f"install the newer version again; or {NEW_DIRECTORY.format(path='the state directory')}.",
)
STATE_FILE_UNUSABLE: Final = Code(
    "K436",
    "A state file can't be used",
    "The system does not let it be read or written: rights, a full disk, another process that has it open.",
    "look at what the system says, and run again: nothing was changed.",
)
STATE_REASSIGNMENT_FAILED: Final = Code(
    "K437",
    "State could not be filed for this run's workers",
    "Each worker's file has what belongs to its tasks, so some of it moves where the plan has changed, and the system "
    "has refused that. Nothing is lost.",
    "make room, or look at the disk, and run again: it goes on where it was.",
)
STATE_FILE_UNTRUSTED: Final = Code(
    "K438",
    "A state file that is no plain file of this user's",
    "What is in it decides what is read again, so no link is followed, and nobody else's file is taken.",
    "remove it if you did not put it there, and find out who did.",
)
STATE_LOSS_ACCEPTED: Final = Code(
    "K439",
    "State was lost, as --accept-loss allows",
    "A state file was missing or behind, and the run was told to go on without what it had. What its sources give "
    "again counts a second time in state that other files keep; what its state had counted is not given again by "
    "sources whose positions are in other files.",
    f"do nothing if no bolt keeps state, or if there is one worker; else {FRESH}.",
)
TOPOLOGY_CHANGED_IN_FLIGHT: Final = Code(
    "K440",
    "The topology has changed while something was in flight",
    "The last run was killed, or stopped before it was done with all that it had read. That is read again, and by the "
    "changed topology would get other identities or keys: sinks and states would take it for new.",
    "run the old code once more and end it by kedge stop --drain; or accept duplicates, --accept-duplicates; or "
    f"{FRESH}.",
)
UNREADABLE_LAST_TOPOLOGY: Final = Code(
    "K441",
    "The last run's topology can't be compared",
    "What the last run has noted of its topology is in a form that this version of Kedge does not read.",
    f"run it with the version of Kedge that wrote it and end it by kedge stop --drain; or {FRESH}.",
)
COMMAND_SOCKET_UNAVAILABLE: Final = Code(
    "K442",
    "No command can reach the run",
    "kedge stop and kedge dead reach a run by a socket in its state directory, or in the directory for sockets where "
    "its path is too long, and neither could be made. The run itself goes on.",
    "give a shorter --state-dir on a local disk; until then, end the run by SIGTERM.",
)
RUN_COMMAND_RAISED: Final = Code(
    "K443",
    "A command to a run has failed",
    "Something that nobody expects has gone wrong while a run did what a command had asked. The run itself goes on.",
    "please report it, with the traceback.",
)
RUN_END_NOT_RECORDED: Final = Code(
    "K444",
    "The end of a run could not be noted",
    "Everything that was read is done, and the state directory could not be told so: a full disk, most of the time. "
    "The next run takes this one for cut short; nothing is lost.",
    "make room; a changed topology may ask for --accept-duplicates then.",
)
STALE_WORKER_INCARNATION: Final = Code(
    "K445",
    "A state file belongs to a later start",
    "Each start of a worker has a number, which its state file keeps, and this worker has an earlier one than the "
    "file: another has taken its place while it was slow to begin.",
    "nothing where a run is under way. Where state.json was put back from an older copy, restore all of the directory "
    "from one copy.",
)
STATE_FILE_CHANGED_EXTERNALLY: Final = Code(
    "K446",
    "Somebody else has written to a state file",
    "A worker has its state file to itself, and before each commit it looks whether the file is as it has left it. It "
    "was not, so nothing more is written: the file system does not keep locks, or another program has changed "
    "the file.",
    "keep the state directory on a local disk, see who else has the file, and run again.",
)
KEPT_STATE_TYPE_MISMATCH: Final = Code(
    "K447",
    "A state of another type than the one that is kept",
    "What is kept of a bolt's state was written as one type, and can't be read as the one that its annotation says "
    "now. State outlives the messages that have made it, so this is refused though all are done. A record whose "
    "last fields are new, and have defaults, is read.",
    f"run the old code and export the state by kedge state export; or {FRESH}.",
)
STATE_NOT_DRAINED: Final = Code(
    "K448",
    "State that is not drained",
    "The last run was cut short, so its inputs will be read again, and are known by what is remembered of them beside "
    "the state. That does not go along: where the state is put elsewhere, or other state is put here, such an input "
    "would count twice, or not at all.",
    "run it once more and let it end; where its sources never end, let them give something new, or nothing for five "
    "seconds, and then end it by kedge stop --drain, which says whether all is done.",
)
STATE_IMPORT_FAILED: Final = Code(
    "K449",
    "State that could not be put in place",
    "The disk has no room, or failed. What was there is there as it was.",
    "make room, or see what is wrong with the disk; then import again.",
)
COMPONENT_DIR_NOT_CREATED: Final = Code(
    "K450",
    "No folder for files of components",
    "A component keeps files of its own: in the state directory or, where the run has none, in the temporary folder of "
    "the system. The folder for them could not be made.",
    "make room there, or give a state directory that you may write to; TMPDIR names another temporary folder.",
)
UNKNOWN_ENGINE: Final = Code(
    "K451",
    "An engine that is not there",
    "A package brings an engine by an entry point of the group kedge.engines; `spark` is Kedge's own.",
    "write --engine spark, or install the package that brings the other one.",
)
ENGINE_LOAD_FAILED: Final = Code(
    "K452",
    "An engine that can't be loaded",
    "Its module raises when it is imported, perhaps as something that it needs is not installed.",
    "pip install 'kedge-streams[spark]' where it is spark; else mend the package that brings it.",
)
UNSUPPORTED_BY_ENGINE: Final = Code(
    "K453",
    "A topology that this engine can't run",
    "Each line names the file and line of a call, what the engine has nothing for, and what to do. Nothing has been "
    "run. Kedge itself runs the topology as it is.",
    "mend each of these lines, or run without --engine; kedge check --engine NAME tells them without running anything.",
)
INVALID_TRIGGER: Final = Code(
    "K454",
    "A trigger that is none",
    "How often Spark begins a micro-batch: as soon as the last one has ended, at an interval, or for all that is there "
    "once the sources have ended.",
    "write --trigger default, a duration such as 100ms or 1s, or available-now; with --engine spark.",
)
ENGINE_NOT_INSTALLED: Final = Code(
    "K455",
    "An engine whose software is not installed",
    "With --engine spark a topology's bolts run on Spark, and pyspark comes with an extra of Kedge.",
    "pip install 'kedge-streams[spark]', into the environment that kedge runs in.",
)
SPARK_QUERY_FILES_MISSING: Final = Code(
    "K456",
    "Files of a Spark query that are gone",
    "The query has begun in an earlier run on this state directory, and a folder or file of it is not there any more. "
    "Begun anew, it would lack what was handed over and not counted yet, and count twice what comes again.",
    f"put it back from a copy of the state directory; or {FRESH}.",
)
STATE_DIR_NOT_SHARED: Final = Code(
    "K457",
    "A state directory that Spark's machines don't see",
    "Executors of a cluster read what is handed over, and keep their state, in the state directory themselves.",
    "give the run a --state-dir on a file system that all machines of the cluster see, under the same path.",
)
POSSIBLY_RENAMED_BOLT: Final = Code(
    "K463",
    "A bolt with state that may have another name now",
    "A bolt whose state is kept is gone, and in the same start there is a new one whose state is of the same type. If "
    "it is the same bolt under another name, it begins from nothing.",
    'write renamed_from="old" in topology.bolt(…) to go on with that state; or begins_empty=True for one of its own, '
    "and what is kept of the other stays.",
)

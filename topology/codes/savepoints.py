"""K8xx: checkpoints that are kept under a name, and runs that begin from one. Text only."""

from typing import Final

from topology.codes.code import Code

SAVEPOINT_NAME: Final = Code(
    "K801",
    "Invalid name for a checkpoint",
    "The name of a kept checkpoint is the name of its folder. Names that begin with auto- and before- are given by "
    "Kedge itself.",
    "give a name of 1 to 64 letters, digits, _ and -, that begins with a letter or a digit.",
)
SAVEPOINT_EXISTS: Final = Code(
    "K802",
    "A checkpoint of this name exists",
    "A kept checkpoint is never written again.",
    "give another name; or delete that one first: kedge state checkpoint --delete NAME.",
)
SAVEPOINT_NOT_FOUND: Final = Code(
    "K803",
    "No checkpoint of this name",
    "A checkpoint that is kept under a name is a complete folder in checkpoints/ of the state directory. One that was "
    "interrupted while it was made is none.",
    "list them: kedge state checkpoint --list; a checkpoint of another state directory is named by its path, "
    "--from DIR/checkpoints/NAME.",
)
SAVEPOINT_FAILED: Final = Code(
    "K804",
    "Checkpoint could not be kept",
    "The disk is full or failed, a worker died meanwhile, or the run is starting or ending. What was copied is "
    "removed, and the run and its state directory are as they were.",
    "do what the error says, and ask again.",
)
SAVEPOINT_NOT_PLACED: Final = Code(
    "K810",
    "Checkpoint could not be put in place",
    "A run that begins from a checkpoint copies it into its state directory. The disk is full or failed, or the "
    "checkpoint is gone. What the directory had is kept in checkpoints/, under a name that begins with before-.",
    "make room, and give the same command again; or begin elsewhere: --state-dir NEW --from CHECKPOINT.",
)
SAVEPOINT_DAMAGED: Final = Code(
    "K805",
    "Kept checkpoint is damaged",
    "A file of the checkpoint is not what was written, or cannot be read. Kedge does not change it.",
    "begin from another one: kedge state checkpoint --list.",
)
SAVEPOINT_WITHOUT_FILES: Final = Code(
    "K806",
    "Components keep files of their own",
    "A component, such as a hand-over to Spark, keeps its own files in the folder kept/ of the state directory. They "
    "are of the moment, and not of a checkpoint. So no checkpoint of this directory can be kept, and none can replace "
    "what it has.",
    "end the run by kedge stop --drain, and copy the whole state directory; to begin from a checkpoint, pass a new "
    "--state-dir.",
)
SAVEPOINT_OF_ANOTHER: Final = Code(
    "K807",
    "Checkpoint of another topology",
    "A run begins from a checkpoint of its own topology only, whose name is part of all identities.",
    "name a checkpoint of this topology, or run the topology that the checkpoint belongs to.",
)
CONFLICTING_FROM_OPTIONS: Final = Code(
    "K808",
    "Option that --from does not go with",
    "--from begins from the positions, the state and the identities of a checkpoint. --fresh and --run-id forget "
    "those, and with --engine the state of the bolts is elsewhere.",
    "leave out one of the two options. To store everything again from a checkpoint on, give the run another sink.",
)
SAVEPOINT_AS_STATE_DIR: Final = Code(
    "K809",
    "Kept checkpoint given as a state directory",
    "A run changes its state directory all the time. A kept checkpoint stays as it is, so that any number of runs can "
    "begin from it.",
    "give the run a state directory of its own, and begin from the checkpoint: --state-dir NEW --from CHECKPOINT.",
)

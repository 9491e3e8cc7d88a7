"""K1xx: the command line, and loading a topology from it. Text only."""

from typing import Final

from topology.codes.code import Code

OPTION_NEEDS_STATE_DIR: Final = Code(
    "K192",
    "Option needs a state directory, but --no-state was passed",
    "With --no-state a run keeps nothing on the disk: its positions, its state and its dead letters are in memory, "
    "and are lost when the run ends. An option about the state directory, or about the state of an earlier run, then "
    "has nothing to act on. Spark keeps its checkpoint in the state directory too.",
    "leave out one of the two options.",
)
TOPOLOGY_NOT_IMPORTABLE: Final = Code(
    "K193",
    "Worker processes cannot make the topology again",
    "topology.run(workers=N) starts N processes, and each of them makes the topology again: it imports the topology's "
    "module and reads the attribute that holds the topology. A topology made in a function, in a notebook or at "
    "Python's prompt cannot be found that way.",
    "declare the topology at the top level of a file; or pass the function that makes it, made_by=make or "
    "made_by=functools.partial(make, 'value'). The function has to be at the top level of a file, and its values have "
    "to be plain.",
)


INVALID_COMMAND_LINE: Final = Code(
    "K101",
    "Invalid command line",
    "A command, an option or an argument is unknown or missing, or has an invalid value.",
    "print the commands and options: kedge --help, or kedge COMMAND --help.",
)
INVALID_RUN_TIME: Final = Code(
    "K102",
    "Invalid --for time",
    "--for drains the run and ends it after this time. The time has to be above 0.",
    "pass a time, --for 10s, --for 2m, --for 500ms or --for 10; or leave it out to run until the sources end.",
)
INVALID_STATE_DIR: Final = Code(
    "K103",
    "Invalid state directory",
    "The state directory must be a directory used only by this topology. It holds what a run stores for the next run, "
    "and is locked while the run is active. The current directory is not allowed.",
    "give a directory of its own, --state-dir state, or leave it out: then it is .kedge/NAME.",
)
INVALID_WORKER_COUNT: Final = Code(
    "K104",
    "Invalid number of workers",
    "Each worker is a process with a link to each other worker, so the number has an upper limit.",
    "pass --workers a whole number within the limits, one per core at most; or leave it out.",
)
INVALID_LINKS: Final = Code(
    "K105",
    "Invalid --links",
    "--links sets how workers connect to each other: over Unix sockets (ipc), or over TCP ports of an address of this "
    "machine. Without --workers the run is one process, which connects to no other.",
    "pass --workers N with --links ipc, tcp://HOST or tcp://HOST:PORT; or leave out --links.",
)
INVALID_KEY_VALUE_OPTION: Final = Code(
    "K106",
    "Option value is not key=value, or its key is repeated",
    "--set and --config take a name, an equals sign and a value. Each name may be given once.",
    "write --set count=3; quote a value that has spaces: --set 'path=my file.log'.",
)
INVALID_TARGET: Final = Code(
    "K110",
    "Invalid topology file or module",
    "A topology is named by a Python file, which ends in .py or has a slash in it, or by the dotted name of a module. "
    "After a colon comes the attribute that holds the topology.",
    "name a file, jobs/alerts.py, or a module, jobs.alerts; add :NAME if the attribute is not called topology.",
)
TARGET_IS_FOLDER: Final = Code(
    "K111",
    "Folder given instead of a file",
    "A folder may hold many topologies, so Kedge needs the name of one file in it.",
    "name the Python file in it that has the topology.",
)
FILE_NOT_FOUND: Final = Code(
    "K112",
    "File not found",
    "The path is looked up from the current folder.",
    "name an existing file, or the dotted name of a module.",
)
MODULE_NOT_FOUND: Final = Code(
    "K113",
    "Module not found",
    "Kedge imports a dotted name as `python -m` does: from the current folder, then from the folders of installed "
    "packages.",
    "run this command in the folder that the module is in, or name its file, ending in .py.",
)
UNREADABLE_FILE: Final = Code(
    "K114",
    "File cannot be read",
    "The file exists, but the system does not let this user read it.",
    "give yourself the right to read it, chmod u+r FILE, or name another file.",
)
NOT_PYTHON_FILE: Final = Code(
    "K115",
    "Not a Python file",
    "Kedge loads a topology with Python's import, which takes files that end in .py.",
    "rename it so that it ends in .py.",
)
SYNTAX_ERROR: Final = Code(
    "K116",
    "Syntax error",
    "Python cannot parse the file, or a file that it imports. Nothing of it has run.",
    "fix the line that is shown.",
    traced=True,
)
IMPORT_NOT_INSTALLED: Final = Code(
    "K117",
    "Imported module is not installed",
    "The topology imports a module that the Python which runs kedge does not have. That Python may differ from the "
    "one of your project: kedge sees only the packages in its own environment.",
    "install the package that has the module into the environment of this kedge, or fix the name.",
    traced=True,
)
EXTRA_NOT_INSTALLED: Final = Code(
    "K118",
    "Extra of Kedge is not installed",
    "The imported module needs a library that Kedge installs only with an extra.",
    "install the extra that is named, into the environment of this kedge.",
    traced=True,
)
IMPORT_RAISED: Final = Code(
    "K119",
    "Importing the file raised an exception",
    "kedge imports the file to find the topology in it. The import runs the file's top-level code, and that code "
    "raised. The traceback begins at your first line.",
    "fix the last line of the traceback, or move it into a function that is not called on import.",
    traced=True,
)
ATTRIBUTE_NOT_FOUND: Final = Code(
    "K120",
    "Attribute not found in the module",
    "The topology is the attribute `topology` of the file or module, unless you name another one after a colon.",
    "name the attribute that has the topology: FILE.py:NAME.",
)
NOT_A_TOPOLOGY: Final = Code(
    "K121",
    "Attribute is not a topology",
    "The attribute is neither a Topology nor a function that returns one.",
    "name a Topology, or a function that returns one and whose parameters have defaults or values from --set.",
)
SET_WITHOUT_FACTORY: Final = Code(
    "K122",
    "--set has no parameter to set",
    "--set gives values to the parameters of a function that makes a topology. A Topology object has no parameters.",
    "put the topology into a function, def topology(count: int = 3) -> Topology, or leave out --set.",
)
FACTORY_RAISED: Final = Code(
    "K123",
    "The function that makes the topology raised an exception",
    "kedge called the function to get the topology, and the function raised. The traceback begins at your first line.",
    "fix the last line of the traceback, or the values passed with --set.",
    traced=True,
)
FACTORY_RETURNED_NO_TOPOLOGY: Final = Code(
    "K124",
    "The function did not return a topology",
    "kedge called the function to get a Topology, and it returned something else. `async` functions are not supported "
    "here.",
    "return the Topology at its end: return topology.",
)
UNRESOLVED_PARAMETER_TYPE: Final = Code(
    "K125",
    "Invalid annotation of a parameter",
    "Kedge converts the values of --set to the types of the function's parameters, and cannot resolve one of the "
    "annotations.",
    "import the name that the annotation uses, or leave out the annotation: then values are texts.",
)
UNKNOWN_PARAMETER: Final = Code(
    "K126",
    "Unknown parameter",
    "--set names a parameter that the function which makes the topology does not have.",
    "use one of the parameters that are named.",
)
MISSING_PARAMETER_VALUE: Final = Code(
    "K127",
    "Missing parameter value",
    "The function that makes the topology has a parameter without a default, and no --set gives it a value.",
    "pass it, --set NAME=VALUE, or give the parameter a default.",
)
INVALID_VALUE_TYPE: Final = Code(
    "K128",
    "Invalid value for the annotated type",
    "Kedge converts each value of --set, --config and KEDGE_… to the annotated type, and cannot convert this one.",
    "write numbers as digits, and true, false and null as JSON does; write texts, paths and enums as they are.",
)
UNKNOWN_SETTING: Final = Code(
    "K129",
    "Unknown setting",
    "--config and KEDGE_… set fields of the topology's Config.",
    "use one of the settings that are named.",
)
SHADOWED_MODULE: Final = Code(
    "K130",
    "A file or folder has the name of one of Kedge's packages",
    "Kedge's packages are called acker, topology, spouts, bolts, bridge and kedge. A file or folder of the same name "
    "beside the topology cannot be imported: an import of that name finds Kedge's package. Kedge refuses to start if "
    "the file is called kedge.py, or if Spark's own processes would find it.",
    "rename yours, or keep the topology in another folder; from kedge import … has Kedge's own names.",
)
MAIN_NOT_A_TOPOLOGY: Final = Code(
    "K131",
    "__main__ is not a topology module",
    "__main__ is the program that Python was started with. Here that is the kedge command itself, which holds no "
    "topology.",
    "name the file or the module that has the topology: kedge run FILE.py.",
)
TOPOLOGY_ONLY_IN_MAIN: Final = Code(
    "K132",
    "The topology is made only under if __name__ == '__main__'",
    "kedge imports the file, and so does each worker process. An import does not run the code under if __name__ == "
    "'__main__'.",
    "make it at the top level, or in a function def topology() -> Topology; leave only topology().run() under the if.",
)
RUN_DURING_IMPORT: Final = Code(
    "K133",
    "The file runs a topology while it is imported",
    "kedge imports the file to find the topology, and so does each worker process. A call of topology.run() at its "
    "top level would run everything once per process.",
    "put the call under if __name__ == '__main__': then python FILE.py runs it, and kedge run FILE.py as well.",
)
STDOUT_NOT_WRITABLE: Final = Code(
    "K134",
    "Output cannot be written",
    "The run writes its output to stdout, and the system refused it: the disk is full, or the device is gone.",
    "free disk space, or redirect stdout to another place.",
)
UNKNOWN_ERROR_CODE: Final = Code(
    "K135",
    "Unknown error code",
    "kedge explain takes a code as errors show it: K and three digits.",
    "print all codes: kedge explain.",
)
UNKNOWN_KEDGE_MODULE: Final = Code(
    "K136",
    "Unknown module of Kedge",
    "The topology imports a module from one of Kedge's own packages, and this version does not have that module.",
    "fix the name, or install the version of Kedge that has it.",
    traced=True,
)
INTERNAL_ERROR: Final = Code(
    "K137",
    "Internal error in Kedge",
    "Kedge raised an exception that no part of Kedge expects. The traceback is complete, because it is meant for the "
    "developers of Kedge.",
    "please report it, with the traceback and the command line.",
)
INVALID_PROJECT_NAME: Final = Code(
    "K140",
    "Invalid name for a new topology",
    "kedge new names the topology after its folder, with dashes for characters that a name cannot have. --name gives "
    "another name. The name is also that of a state directory and of a distribution.",
    "pass --name NAME: 1 to 64 of A-Z a-z 0-9 _ and -, with a letter or a digit at both ends.",
)
RESERVED_PROJECT_NAME: Final = Code(
    "K141",
    "Name is reserved for Kedge",
    "Kedge's packages are called acker, topology, spouts, bolts, bridge and kedge. Python may find a folder or "
    "distribution of the same name in their place.",
    "choose another name.",
)
PROJECT_DIR_NOT_EMPTY: Final = Code(
    "K142",
    "Folder for new files is not empty",
    "kedge new and kedge demo --keep write into a folder of their own, and never overwrite files. kedge new ignores "
    "hidden files and virtual environments.",
    "name a folder that does not exist yet, or an empty one.",
)
PROJECT_DIR_NOT_WRITABLE: Final = Code(
    "K143",
    "Folder for new files cannot be made",
    "The system refused to make the folder or a file in it. Kedge removed the files and folders that it had made.",
    "name a folder that you may write in, on a disk that has room.",
)
UNKNOWN_STARTER: Final = Code(
    "K179",
    "Unknown source or sink of a starter",
    "kedge new --from and --to take the names of sources and sinks that it has a starter for.",
    "pass one of the names that kedge new --help lists.",
)
INVALID_DEMO_OPTION: Final = Code(
    "K144",
    "Invalid number for kedge demo",
    "The demo makes a log of --lines lines, at least 1,000. It reads --rate of them per second, or as fast as it can "
    "with 0. It uses --workers processes and runs for at most --for seconds.",
    "pass numbers within the limits, or leave them out.",
)
UNKNOWN_GRAPH_FORMAT: Final = Code(
    "K150",
    "Unknown picture format",
    "kedge graph reads the format from the end of the file's name, unless you pass --format.",
    "end the name in .svg, .mmd, .md or .txt, or pass --format svg, mermaid or text.",
)
GRAPH_NOT_WRITABLE: Final = Code(
    "K151",
    "Picture cannot be written",
    "Kedge writes the picture to a new file, which then takes the place of the named file. The system refused one of "
    "the two steps. A file that was there before is unchanged.",
    "name a file in a folder that you may write in, on a disk that has room.",
)
GRAPH_OVERWRITES_CODE: Final = Code(
    "K152",
    "Picture would overwrite Python code",
    "The file for the picture has a name of Python code. Writing it could destroy the topology or a part of it.",
    "name another file, or leave out --output to print the picture on stdout.",
)
BROKEN_PLUGIN_COMMAND: Final = Code(
    "K153",
    "Command of another package cannot be loaded",
    "A package has registered a command under the entry points `kedge.commands`, and importing the command raised.",
    "fix or uninstall that package; all other commands work without it.",
)
STATE_DIR_NOT_FOUND: Final = Code(
    "K160",
    "State directory not found",
    "--state-dir names the directory that a run keeps its state in. No directory exists at this path.",
    "name the directory that was passed to the run.",
)
NO_STATE_DIRS: Final = Code(
    "K161",
    "No topology has run here",
    "kedge run keeps state directories in .kedge in its current folder, unless --state-dir names another place.",
    "change to the folder that kedge run was called in, or pass --state-dir DIR.",
)
AMBIGUOUS_TOPOLOGY: Final = Code(
    "K162",
    "Several topologies have run here",
    "Each topology has a state directory in .kedge. The command works on one of them.",
    "name the topology.",
)
TOPOLOGY_NEVER_RUN: Final = Code(
    "K163",
    "The topology has not run here",
    "There is no state directory of this name in .kedge in the current folder.",
    "name one that has run here, or pass its --state-dir DIR.",
)
RUN_CONNECTION_LOST: Final = Code(
    "K164",
    "The run ended without an answer",
    "A command was connected to a run, and the run ended without saying how: its process was killed or failed. The "
    "next run reads the messages in flight again.",
    "read what the run has logged; start it again with kedge run.",
)
UNKNOWN_RUN_PROTOCOL: Final = Code(
    "K165",
    "Answer of the run cannot be understood",
    "The process that answers on the run's socket is of another version of Kedge, or is not a run.",
    "use the kedge command that started the run, or end the run with SIGTERM.",
)
CONFLICTING_STOP_OPTIONS: Final = Code(
    "K166",
    "Both --drain and --now",
    "kedge stop --drain waits without a limit until the messages in flight are done. --now does not wait for them.",
    "pass one of the two.",
)
NO_ACTIVE_RUN: Final = Code(
    "K167",
    "No active run",
    "No run uses this state directory: the run has ended, or uses another directory.",
    "check whether it runs in another folder, or was started with --state-dir.",
)
RUN_UNREACHABLE: Final = Code(
    "K168",
    "The run cannot be reached",
    "A process has locked the state directory, but accepts no connections. Its event loop is blocked, it is still "
    "starting, or it could not make a socket and has logged that. Another kedge dead that works on the directory "
    "accepts no connections either.",
    "try again; or end its process with SIGTERM.",
)
STOP_REFUSED: Final = Code(
    "K169",
    "The run did not accept the stop command",
    "The message has the run's reason. If the run answered something else, it may be of another version of Kedge.",
    "try again; use the kedge command that started the run, or end the run with SIGTERM.",
)
INVALID_LETTER_SELECTION: Final = Code(
    "K170",
    "Neither names nor --all, or both",
    "kedge dead replay and kedge dead drop act on the dead letters that you name, or on all of them. They never act "
    "on all by mistake.",
    "name them as kedge dead list prints them, or pass --all.",
)
RUN_ENDED_MEANWHILE: Final = Code(
    "K171",
    "The run ended during the command",
    "The run ended while a command was asking it about its dead letters.",
    "call the command again: then it opens the state directory itself.",
)
DEAD_LETTER_COMMAND_FAILED: Final = Code(
    "K172",
    "The run could not execute the command",
    "The message has the run's reason.",
    "try again; read what the run has logged.",
)
INVALID_LETTER_LIMIT: Final = Code(
    "K173",
    "Invalid --limit",
    "kedge dead list prints the newest dead letters, --limit of them at most.",
    "pass --limit a whole number of at least 1, or leave it out.",
)
INVALID_RUN_ID: Final = Code(
    "K174",
    "Invalid run id",
    "The id becomes a part of each record's identity, after the topology's name and a slash.",
    "pass --run-id new, or a name of those characters.",
)
RUN_NOT_ANSWERING: Final = Code(
    "K175",
    "The run does not answer",
    "The run has received the question, and has not answered it for two minutes. A bolt may block its event loop, or "
    "its disk may be full.",
    "try again; read what the run has logged.",
)
TOPOLOGY_AND_STATE_DIR: Final = Code(
    "K176",
    "Both a topology and a state directory",
    "The command got a topology and a --state-dir, which may belong to two runs. A variable may have set one of them.",
    "pass one of the two.",
)
OPTION_WITHOUT_COMPANION: Final = Code(
    "K177",
    "Option for a companion that the topology does not have",
    "Some options of kedge run configure a process beside the run, for example Spark. The topology declares no such "
    "companion.",
    "leave out the option, or unset its variable; or run a topology that has such a companion.",
)
FILE_NOT_USABLE: Final = Code(
    "K178",
    "File or directory cannot be used",
    "The system refused to read or write this file or directory. The usual cause is that it belongs to another user.",
    "run the command as the user that the run belongs to, or fix the rights.",
)

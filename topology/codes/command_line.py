"""K1xx: the command line, and the way from it to a topology. Words only."""

from typing import Final

from topology.codes.code import Code

OPTION_NEEDS_STATE_DIR: Final = Code(
    "K192",
    "An option that needs a state directory, given with --no-state",
    "--no-state keeps nothing on the disk: positions and state are in memory, and gone with the run, as dead letters "
    "are. An option that says where they are, or what to do with those of an earlier run, has nothing to act on; "
    "Spark keeps its checkpoint there.",
    "leave out one of the two options.",
)
TOPOLOGY_NOT_IMPORTABLE: Final = Code(
    "K193",
    "A topology that worker processes can't make anew",
    "topology.run(workers=N) starts N processes, and each of them makes the topology anew: it imports the module that "
    "has it, and takes the attribute of that name. What is made in a function, in a notebook or at Python's prompt is "
    "not found so.",
    "declare the topology at the top level of a file; or give the function that makes it, made_by=make or "
    "made_by=functools.partial(make, 'value'), where that is at the top level of a file and its values are plain.",
)


INVALID_COMMAND_LINE: Final = Code(
    "K101",
    "The command line can't be read",
    "An option, an argument or a command is unknown, missing, or has a value that it can't have.",
    "see what there is: kedge --help, or kedge COMMAND --help.",
)
INVALID_RUN_TIME: Final = Code(
    "K102",
    "A time for --for that can't be",
    "--for drains the run and ends it after so long, so it takes a time above 0.",
    "give a time, --for 10s, --for 2m, --for 500ms or --for 10; or leave it out to run until the sources end.",
)
INVALID_STATE_DIR: Final = Code(
    "K103",
    "A state directory that can't be",
    "The state directory holds what a run notes for the next one, is locked while it runs, and is nobody else's; the "
    "current folder is.",
    "give a directory of its own, --state-dir state, or leave it out: then it is .kedge/NAME.",
)
INVALID_WORKER_COUNT: Final = Code(
    "K104",
    "A number of workers that can't be",
    "Each worker is a process with a link to each other one, so there is a most.",
    "give --workers a whole number within the limits, one for each core at most; or leave it out.",
)
INVALID_LINKS: Final = Code(
    "K105",
    "Links that can't be",
    "--links says where workers listen for one another: on Unix sockets (ipc), or on TCP ports of an address of this "
    "machine. Without --workers there is only one process, and nobody to link to.",
    "give --workers N with --links ipc, tcp://HOST or tcp://HOST:PORT; or leave --links out.",
)
INVALID_KEY_VALUE_OPTION: Final = Code(
    "K106",
    "Not key=value, or given twice",
    "--set and --config take a name, an equals sign and a value, and each name once.",
    "write --set count=3; quote it where the value has spaces: --set 'path=my file.log'.",
)
INVALID_TARGET: Final = Code(
    "K110",
    "Neither a file nor a module",
    "What is run is a Python file, which ends in .py or has a slash in it, or a module by its dotted name; after a "
    "colon comes the attribute that has the topology.",
    "name a file, jobs/alerts.py, or a module, jobs.alerts; add :NAME where the topology is not called topology.",
)
TARGET_IS_FOLDER: Final = Code(
    "K111",
    "A folder, and a file is wanted",
    "A folder may hold many topologies, so one file of it has to be named.",
    "name the Python file in it that has the topology.",
)
FILE_NOT_FOUND: Final = Code(
    "K112",
    "There is no such file",
    "The path is looked up from the current folder.",
    "name a file that is there, or the dotted name of a module.",
)
MODULE_NOT_FOUND: Final = Code(
    "K113",
    "There is no such module",
    "A dotted name is imported as `python -m` does it: from the current folder, and then from where packages are "
    "installed.",
    "run this in the folder that the module is in, or name its file, ending in .py.",
)
UNREADABLE_FILE: Final = Code(
    "K114",
    "The file can't be read",
    "The file is there, and the system does not let this user read it.",
    "give yourself the right to read it, chmod u+r FILE, or name another one.",
)
NOT_PYTHON_FILE: Final = Code(
    "K115",
    "Not a Python file",
    "A topology is loaded by Python's import, which takes files that end in .py.",
    "rename it so that it ends in .py.",
)
SYNTAX_ERROR: Final = Code(
    "K116",
    "A syntax error",
    "Python can't read the file, or one that it imports. Nothing of it has run.",
    "mend the line that is shown.",
    traced=True,
)
IMPORT_NOT_INSTALLED: Final = Code(
    "K117",
    "A module that it imports is not installed",
    "The topology imports a module that the Python which runs kedge does not have. That Python need not be the one "
    "of your project: kedge sees what is installed in its own environment.",
    "install what brings the module into the environment of this kedge, or mend the name.",
    traced=True,
)
EXTRA_NOT_INSTALLED: Final = Code(
    "K118",
    "An extra of Kedge is missing",
    "What is imported needs a library that Kedge does not install unless it is asked to.",
    "install the extra that is named, into the environment of this kedge.",
    traced=True,
)
IMPORT_RAISED: Final = Code(
    "K119",
    "An exception while the file was imported",
    "kedge imports the file to find the topology in it, which runs its top-level code, and that raised. The "
    "traceback begins at your first line.",
    "mend the line that the traceback ends in, or move it into a function that is not called on import.",
    traced=True,
)
ATTRIBUTE_NOT_FOUND: Final = Code(
    "K120",
    "The module has no such attribute",
    "The topology is the attribute `topology` of the file or module, unless another one is named after a colon.",
    "name the attribute that has the topology: FILE.py:NAME.",
)
NOT_A_TOPOLOGY: Final = Code(
    "K121",
    "Not a topology",
    "The attribute is neither a Topology nor a function that returns one.",
    "name a Topology, or a function whose parameters have defaults or come from --set, and which returns one.",
)
SET_WITHOUT_FACTORY: Final = Code(
    "K122",
    "--set has nowhere to go",
    "--set gives values to the parameters of a function that makes a topology; a Topology that is made already has "
    "none.",
    "put the topology into a function, def topology(count: int = 3) -> Topology, or leave --set out.",
)
FACTORY_RAISED: Final = Code(
    "K123",
    "An exception in the function that makes the topology",
    "kedge has called the function to have the topology, and it raised. The traceback begins at your first line.",
    "mend the line that the traceback ends in, or what was given by --set.",
    traced=True,
)
FACTORY_RETURNED_NO_TOPOLOGY: Final = Code(
    "K124",
    "The function returned no topology",
    "The function was called to have a Topology, and has returned something else; `async` functions can't be used "
    "here.",
    "return the Topology at its end: return topology.",
)
UNRESOLVED_PARAMETER_TYPE: Final = Code(
    "K125",
    "The function's parameters can't be read",
    "Values of --set are converted to the types of the parameters, and one of the annotations can't be resolved.",
    "import what the annotation names, or leave the annotation out: then values are texts.",
)
UNKNOWN_PARAMETER: Final = Code(
    "K126",
    "The function has no such parameter",
    "--set names a parameter that the function which makes the topology does not have.",
    "use one of those that are named.",
)
MISSING_PARAMETER_VALUE: Final = Code(
    "K127",
    "A parameter without a value",
    "The function that makes the topology has a parameter without a default, and nothing gives it a value.",
    "give it, --set NAME=VALUE, or give the parameter a default.",
)
INVALID_VALUE_TYPE: Final = Code(
    "K128",
    "A value of another type",
    "A value of --set, --config or KEDGE_… is converted to the annotated type, and can't be.",
    "write it as JSON does: numbers as digits, true, false, null; texts, paths and enums as they are.",
)
UNKNOWN_SETTING: Final = Code(
    "K129",
    "There is no such setting",
    "--config and KEDGE_… set fields of the topology's Config.",
    "use one of those that are named.",
)
SHADOWED_MODULE: Final = Code(
    "K130",
    "A file or folder has the name of a package of Kedge's",
    "Kedge's packages are called acker, topology, spouts, bolts, bridge and kedge. A file or folder of the same name "
    "beside the topology can't be imported: an import of that name finds Kedge's package. One called kedge.py, or one "
    "that Spark's own processes would find, is refused before anything runs.",
    "rename yours, or keep the topology in another folder; from kedge import … has Kedge's own names.",
)
MAIN_NOT_A_TOPOLOGY: Final = Code(
    "K131",
    "__main__ is not a module to run",
    "__main__ is whatever Python was started with; here that is the kedge command itself, which holds no topology.",
    "name the file or the module that has the topology: kedge run FILE.py.",
)
TOPOLOGY_ONLY_IN_MAIN: Final = Code(
    "K132",
    "The topology is made under if __name__ == '__main__' only",
    "kedge imports the file, and so does each worker process; what stands under if __name__ == '__main__' does not "
    "run then.",
    "make it at the top level, or in a function def topology() -> Topology; leave only topology().run() under the if.",
)
RUN_DURING_IMPORT: Final = Code(
    "K133",
    "The file runs a topology while it is imported",
    "kedge imports the file to find the topology, and so does each worker process: a call of topology.run() at its "
    "top level would run everything once for each of them.",
    "put the call under if __name__ == '__main__': then python FILE.py runs it, and kedge run FILE.py as well.",
)
STDOUT_NOT_WRITABLE: Final = Code(
    "K134",
    "The output can't be written",
    "What the run has to say goes to stdout, and the system has refused it: a full disk, or a device that is gone.",
    "make room, or send stdout elsewhere.",
)
UNKNOWN_ERROR_CODE: Final = Code(
    "K135",
    "There is no such code",
    "kedge explain takes a code as errors show it: K and three digits.",
    "see all of them: kedge explain.",
)
UNKNOWN_KEDGE_MODULE: Final = Code(
    "K136",
    "Kedge has no such module",
    "The topology imports from one of Kedge's own packages a module that this version does not have.",
    "mend the name, or install the version of Kedge that has it.",
    traced=True,
)
INTERNAL_ERROR: Final = Code(
    "K137",
    "A mistake of Kedge's own",
    "Something was raised that no part of Kedge expects. The traceback is whole, since it is for us.",
    "please report it, with the traceback and the command line.",
)
INVALID_PROJECT_NAME: Final = Code(
    "K140",
    "A name that a new topology can't have",
    "kedge new calls the topology as its folder is called, with dashes for what a name can't have; --name calls it "
    "otherwise. It is the name of a state directory and of a distribution, too.",
    "give --name NAME: 1 to 64 of A-Z a-z 0-9 _ and -, with a letter or a digit at both ends.",
)
RESERVED_PROJECT_NAME: Final = Code(
    "K141",
    "A name of Kedge's own",
    "Kedge's packages are called acker, topology, spouts, bolts, bridge and kedge; a folder or distribution of the "
    "same name may be found in their place.",
    "take another name.",
)
PROJECT_DIR_NOT_EMPTY: Final = Code(
    "K142",
    "The folder for new files is not empty",
    "kedge new and kedge demo --keep write into a folder of their own, and never over what is there. Hidden files and "
    "virtual environments are not in the way of kedge new.",
    "name a folder that is not there yet, or an empty one.",
)
PROJECT_DIR_NOT_WRITABLE: Final = Code(
    "K143",
    "The folder for new files can't be made",
    "The system has refused to make the folder or a file in it. What had been made of it was taken away again.",
    "name a folder that you may write in, on a disk that has room.",
)
INVALID_DEMO_OPTION: Final = Code(
    "K144",
    "A number that kedge demo can't take",
    "It makes a log of --lines lines, at least 1,000, and reads --rate of them a second, or as fast as it can with 0, "
    "on --workers processes, at most --for seconds long.",
    "give numbers within the limits, or leave them out.",
)
UNKNOWN_GRAPH_FORMAT: Final = Code(
    "K150",
    "A picture of no known format",
    "kedge graph takes the format from the end of the file's name, unless --format says it.",
    "end the name in .svg, .mmd, .md or .txt, or give --format svg, mermaid or text.",
)
GRAPH_NOT_WRITABLE: Final = Code(
    "K151",
    "A picture that can't be written",
    "The system has refused to write the file, or a new one beside it, which then takes its place. What was there "
    "before is as it was.",
    "name a file in a folder that you may write in, on a disk that has room.",
)
GRAPH_OVERWRITES_CODE: Final = Code(
    "K152",
    "A picture in place of code",
    "The file for the picture is named as Python code is; the topology, or a part of it, might be gone.",
    "name another file, or leave --output out to have it on stdout.",
)
BROKEN_PLUGIN_COMMAND: Final = Code(
    "K153",
    "A command of another package that can't be loaded",
    "A package has registered a command under the entry points `kedge.commands`, and importing it has raised.",
    "mend or uninstall that package; all other commands work without it.",
)
STATE_DIR_NOT_FOUND: Final = Code(
    "K160",
    "There is no such state directory",
    "--state-dir names the directory that a run keeps its state in, and there is none at this path.",
    "name the directory that the run was given.",
)
NO_STATE_DIRS: Final = Code(
    "K161",
    "No topology has run here",
    "State directories are in .kedge in the folder that kedge run was called in, unless --state-dir says otherwise.",
    "change to the folder that kedge run was called in, or give --state-dir DIR.",
)
AMBIGUOUS_TOPOLOGY: Final = Code(
    "K162",
    "Several topologies have run here",
    "Each topology has a state directory in .kedge, and the command is about one of them.",
    "name the topology.",
)
TOPOLOGY_NEVER_RUN: Final = Code(
    "K163",
    "The topology has not run here",
    "There is no state directory of this name in .kedge in the current folder.",
    "name one that has run here, or give its --state-dir DIR.",
)
RUN_CONNECTION_LOST: Final = Code(
    "K164",
    "A run that is gone without a last word",
    "A command was connected to a run, which has ended without saying how: its process was killed or has failed. What "
    "was under way is read again by the next run.",
    "look at what the run has logged; start it again by kedge run.",
)
UNKNOWN_RUN_PROTOCOL: Final = Code(
    "K165",
    "A run that can't be understood",
    "What answers on the run's socket is of another version of Kedge, or no run at all.",
    "use the kedge command that has started the run, or end it by SIGTERM.",
)
CONFLICTING_STOP_OPTIONS: Final = Code(
    "K166",
    "Both --drain and --now",
    "kedge stop --drain waits, however long, for what is under way; --now leaves it.",
    "give one of the two.",
)
NO_ACTIVE_RUN: Final = Code(
    "K167",
    "Nothing runs there",
    "No run has this state directory: it has ended already, or runs on another one.",
    "see whether it runs in another folder, or was given --state-dir.",
)
RUN_UNREACHABLE: Final = Code(
    "K168",
    "A run that can't be reached",
    "A process has the state directory locked, and does not take connections: its event loop is blocked, it is only "
    "starting, or it could not make a socket and has logged so. Another kedge dead that is at work there takes none, "
    "either.",
    "try again; or end its process by SIGTERM.",
)
STOP_REFUSED: Final = Code(
    "K169",
    "A run that could not be told to stop",
    "The run says why, or has answered something else: it may be of another version of Kedge.",
    "try again; use the kedge command that has started the run, or end it by SIGTERM.",
)
INVALID_LETTER_SELECTION: Final = Code(
    "K170",
    "Neither names nor --all, or both",
    "kedge dead replay and kedge dead drop act on the dead letters that are named, or on all, and never on all by "
    "mistake.",
    "name them as kedge dead list shows them, or give --all.",
)
RUN_ENDED_MEANWHILE: Final = Code(
    "K171",
    "The run has ended meanwhile",
    "A command was asking a run about its dead letters, and the run has ended in between.",
    "call the command again: then it opens the state directory itself.",
)
DEAD_LETTER_COMMAND_FAILED: Final = Code(
    "K172",
    "A run that could not do what it was asked",
    "The run has answered why.",
    "try again; look at what the run has logged.",
)
INVALID_LETTER_LIMIT: Final = Code(
    "K173",
    "A number of dead letters that can't be",
    "kedge dead list shows the newest ones, as many as --limit says.",
    "give --limit a whole number of at least 1, or leave it out.",
)
INVALID_RUN_ID: Final = Code(
    "K174",
    "A run id that can't be",
    "The id becomes part of each identity, behind the topology's name and a slash.",
    "give --run-id new, or a name of those characters.",
)
RUN_NOT_ANSWERING: Final = Code(
    "K175",
    "A run that does not answer",
    "The run has taken the question, and has not answered it for two minutes: its event loop may be blocked by a bolt, "
    "or its disk be full.",
    "try again; look at what the run has logged.",
)
TOPOLOGY_AND_STATE_DIR: Final = Code(
    "K176",
    "Both a topology and a state directory",
    "A command got a topology and a --state-dir, which may be two runs. A variable may have given one.",
    "give one of the two.",
)
OPTION_WITHOUT_COMPANION: Final = Code(
    "K177",
    "An option for a companion that is not there",
    "Some options of kedge run are for a process beside the run, Spark say, and the topology declares none such.",
    "leave the option out, or unset its variable; or run a topology that has such a companion.",
)

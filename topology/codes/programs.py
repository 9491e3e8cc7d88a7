"""K19x: a run without a state directory, and one on processes that a program of the user's starts. Words only."""

from typing import Final

from topology.codes.code import Code

K192: Final = Code(
    "K192",
    "An option that needs a state directory, given with --no-state",
    "--no-state keeps nothing on the disk: positions and state are in memory, and gone with the run, as dead letters "
    "are. An option that says where they are, or what to do with those of an earlier run, has nothing to act on; "
    "Spark keeps its checkpoint there.",
    "leave out one of the two options.",
)
K193: Final = Code(
    "K193",
    "A topology that worker processes can't make anew",
    "topology.run(workers=N) starts N processes, and each of them makes the topology anew: it imports the module that "
    "has it, and takes the attribute of that name. What is made in a function, in a notebook or at Python's prompt is "
    "not found so.",
    "declare the topology at the top level of a file; or give the function that makes it, made_by=make or "
    "made_by=functools.partial(make, 'value'), where that is at the top level of a file and its values are plain.",
)

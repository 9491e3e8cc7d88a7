"""K7xx: a comparison of modes, before anything of it is measured. Words only."""

from typing import Final

from topology.codes.code import Code

INVALID_COMPARISON_NUMBER: Final = Code(
    "K701",
    "A number for a comparison that can't be",
    "kedge compare offers --rate messages a second, or all at once with --rate max, for so many seconds, in so many "
    "rounds.",
    "give --rate 1000 or --rate max, --for and --warm-up in seconds, and a whole number of --rounds.",
)
REPORT_NOT_WRITABLE: Final = Code(
    "K702",
    "A report that can't be written",
    "The files of --report and --png are written at the end, beside what is printed. Whether they can be is tried "
    "before anything is measured.",
    "name a file in a folder that is there, and that you may write to.",
)
COMPARISON_EXTRA_NOT_INSTALLED: Final = Code(
    "K703",
    "A library for comparisons is missing",
    "kedge compare reads the load of processes by psutil, and draws its reports by matplotlib. Both come with an extra "
    "of Kedge.",
    "pip install 'kedge-streams[compare]', into the environment of this kedge.",
)
UNKNOWN_COMPARISON_MODE: Final = Code(
    "K704",
    "A mode that there is none of",
    "--modes names what is compared, with commas between: record is Kedge on two workers, record:N on N of them, "
    "embedded is Kedge in one process, spark:default and spark:INTERVAL are Spark's micro-batches, spark:continuous "
    "and spark:real-time are what Spark does without Python.",
    "write --modes record,embedded,spark:default, say; without --modes, all that can run here are compared.",
)
INCOMPARABLE_TOPOLOGY: Final = Code(
    "K705",
    "A topology that can't be compared",
    "Every mode is offered the same messages, which stand in for those of the spouts, and what reaches the sinks is "
    "timed. So a topology has a spout, and a bolt whose results can be seen; processes beside it, such as a query of "
    "Spark's, would run in no mode but one.",
    "compare a topology of spouts and bolts alone.",
)
NO_COMPARISON_MESSAGES: Final = Code(
    "K706",
    "A source that gives nothing to compare with",
    "Messages are read from the topology's own spouts, before anything is measured. They gave none within some "
    "seconds, or raised; where they raised, the traceback begins at your first line.",
    "mend the line that the traceback ends in, or give the source something to read: --set path=FILE, say.",
    traced=True,
)
TOO_MANY_COMPARISON_MESSAGES: Final = Code(
    "K707",
    "More messages than a comparison can keep",
    "Each message has a place in memory, from when it is due until it is counted: rate × (warm-up + seconds) of them.",
    "give a lower --rate, or fewer seconds, --for.",
)
COMPARISON_FILES_NOT_WRITABLE: Final = Code(
    "K708",
    "A comparison's own files can't be written",
    "What a comparison offers, and what arrives, is kept in a folder of its own in the temporary directory, which is "
    "gone with it. It can't be made there, or there is no room for it.",
    "make room there, or name another directory that can be written: TMPDIR=/var/tmp, say.",
)
INVALID_COUNTED: Final = Code(
    "K709",
    "Invalid COUNTED in samples.py",
    "COUNTED says by which part of a message a topology counts: name of the topology's file → (regular expression, "
    "name of a group of it). `kedge compare` has Spark's Real-Time Mode count by that group.",
    "write a pair of texts: a regular expression, and the name of one of its groups.",
)

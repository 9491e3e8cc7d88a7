"""K7xx: a comparison of modes, before it measures anything. Text only."""

from typing import Final

from topology.codes.code import Code

INVALID_COMPARISON_NUMBER: Final = Code(
    "K701",
    "Invalid number for a comparison",
    "kedge compare offers --rate messages per second, or all at once with --rate max. It does so for the given number "
    "of seconds, in the given number of rounds.",
    "pass --rate 1000 or --rate max, --for and --warm-up in seconds, and a whole number of --rounds.",
)
REPORT_NOT_WRITABLE: Final = Code(
    "K702",
    "Report cannot be written",
    "Kedge writes the files of --report and --png at the end, in addition to the printed table. Kedge tests that it "
    "can write them before it measures anything.",
    "name a file in an existing folder that you may write to.",
)
COMPARISON_EXTRA_NOT_INSTALLED: Final = Code(
    "K703",
    "Library for comparisons is not installed",
    "kedge compare reads the load of processes with psutil, and draws its reports with matplotlib. Both come with an "
    "extra of Kedge.",
    "pip install 'kedge-streams[compare]', into the environment of this kedge.",
)
UNKNOWN_COMPARISON_MODE: Final = Code(
    "K704",
    "Unknown mode of a comparison",
    "--modes lists the modes to compare, with commas between them. record is Kedge on two workers, record:N is Kedge "
    "on N workers, and embedded is Kedge in one process. spark:default and spark:INTERVAL are Spark's micro-batches, "
    "and spark:continuous and spark:real-time are Spark's modes without Python.",
    "write for example --modes record,embedded,spark:default; without --modes, all modes that can run here are "
    "compared.",
)
INCOMPARABLE_TOPOLOGY: Final = Code(
    "K705",
    "Topology cannot be compared",
    "Every mode is offered the same messages, which replace those of the spouts, and Kedge measures when the records "
    "reach the sinks. So a topology needs a spout, and a bolt whose results can be seen. A process beside the "
    "topology, such as a Spark query, would run in one mode only.",
    "compare a topology of spouts and bolts alone.",
)
NO_COMPARISON_MESSAGES: Final = Code(
    "K706",
    "Source gave no messages to compare with",
    "Kedge reads messages from the topology's own spouts, before it measures anything. The spouts gave none within "
    "some seconds, or raised. If they raised, the traceback begins at your first line.",
    "fix the last line of the traceback, or give the source something to read, for example --set path=FILE.",
    traced=True,
)
TOO_MANY_COMPARISON_MESSAGES: Final = Code(
    "K707",
    "Too many messages for a comparison",
    "Each message has a place in memory, from the time when it is due until it is counted. Their number is rate × "
    "(warm-up + seconds).",
    "pass a lower --rate, or fewer seconds, --for.",
)
COMPARISON_FILES_NOT_WRITABLE: Final = Code(
    "K708",
    "Files of the comparison cannot be written",
    "Kedge keeps the offered and the received messages of a comparison in a folder in the temporary directory, and "
    "removes the folder at the end. The folder cannot be made there, or the disk has no room for it.",
    "free disk space there, or name another directory that can be written, for example TMPDIR=/var/tmp.",
)
INVALID_COUNTED: Final = Code(
    "K709",
    "Invalid COUNTED in samples.py",
    "COUNTED names the part of a message by which a topology counts. It maps the name of the topology's file to a "
    "pair: a regular expression, and the name of one of its groups. In `kedge compare`, Spark's Real-Time Mode counts "
    "by that group.",
    "write a pair of texts: a regular expression, and the name of one of its groups.",
)

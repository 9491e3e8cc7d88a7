"""K458 and K459: a run that begins with another number of a spout's tasks. Words only."""

from typing import Final

from topology.codes.code import FRESH, Code

K458: Final = Code(
    "K458",
    "Another number of a spout's tasks, and state that would count twice",
    "Which messages the former tasks had done is not known of each single one. So some are read again, after a clean "
    "end too. Sinks know these; state has forgotten them, and would count them twice.",
    f"give the spout the number of tasks that it had; or {FRESH}.",
)
K459: Final = Code(
    "K459",
    "Another number of tasks of a spout whose tasks have ids of their own",
    "Each task of the spout has message ids of its own. So nobody can tell what another number of tasks has done by "
    "what the former ones had: all would be read again, under other identities, and sinks would store it again.",
    "give the spout the number of tasks that it had; or write shared_ids = True in its class, where its tasks share "
    "one set of ids (after several tasks without it, run with their number once more and let that run end); or accept "
    "that everything is stored again, --accept-duplicates.",
)

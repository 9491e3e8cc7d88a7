"""K5xx: what happens in a run: failures of inputs, dead messages, sources, workers. Words only."""

from typing import Final

from topology.codes.code import Code

K501: Final = Code(
    "K501",
    "User code raised",
    "A method of a bolt or spout raised. Where it was handling an input, that input has failed, and its message is "
    "replayed up to max_replays times. The first of each kind is shown with your frames, the others are counted.",
    "mend the line that the traceback ends in; raise Reject where no replay can help.",
)
K502: Final = Code(
    "K502",
    "A bolt failed its input",
    "A bolt that defines execute has called out.fail: the message is replayed.",
    "look at the reason that it gave.",
)
K503: Final = Code(
    "K503",
    "Over the time limit",
    "process or execute did not end within process_timeout_s, and was cancelled: the message is replayed.",
    "find what it waits for, or raise the limit: --config process_timeout_s=….",
)
K504: Final = Code(
    "K504",
    "An emission that could not go",
    "A record could not be routed or encoded, so the input that emitted it has failed.",
    "look at the sentence: it has a code of its own (K6xx).",
)
K505: Final = Code(
    "K505",
    "Rejected",
    "A bolt has raised Reject: this message can never be processed, and is dead at once, without replays.",
    "look at what the bolt says of the record; nothing else is to be done.",
)
K506: Final = Code(
    "K506",
    "No progress",
    "Nothing was acked in a tuple's tree for tree_timeout_s: the message is replayed.",
    "look for the bolt that holds it, or raise the limit: --config tree_timeout_s=….",
)
K507: Final = Code(
    "K507",
    "Held and forgotten",
    "A bolt that defines execute kept a tuple, and has lost it without out.ack or out.fail.",
    "ack or fail each tuple that execute is given.",
)
K508: Final = Code(
    "K508",
    "A link or a worker was lost",
    "What was under way there is replayed. This does not count against max_replays.",
    "nothing, unless it comes again: then look at why the worker died.",
)
K509: Final = Code(
    "K509",
    "Cut off by the drain",
    "The run was to end, and this was not done within its time.",
    "raise drain_timeout_s where it needs longer.",
)
K510: Final = Code(
    "K510",
    "Stale",
    "A tuple of an earlier attempt, or of a worker that is replaced, came late and was dropped. Its message is "
    "replayed.",
    "nothing: it is counted so that it is not passed over.",
)
K511: Final = Code(
    "K511",
    "A record that can't be decoded",
    "The bytes of a record from another worker are not those of its class: a field holds what its type does not allow.",
    "mend what the emitter puts into the field.",
)
K512: Final = Code(
    "K512",
    "A record that is too large for a frame",
    "Records between workers travel in frames, which have a limit; its tree has failed.",
    "send a reference in place of the content: a path, a key.",
)
K520: Final = Code(
    "K520",
    "A message is dead",
    "It has failed more often than max_replays allows, or was rejected. It is not tried again in this run; the "
    "others go on. It is counted, and the exit status is 1.",
    "mend the cause that is shown with it; --config on_dead=stop ends the run at the first one.",
)
K521: Final = Code(
    "K521",
    "A source raised",
    "poll or records of a spout raised, so the run drains and ends: nobody could read on for it.",
    "mend the line that the traceback ends in; catch in the spout what can be waited for.",
)
K522: Final = Code(
    "K522",
    "poll returned None",
    "poll waits until there is a message, and returns an empty list at the end of the source.",
    "return [] at the end.",
)
K523: Final = Code(
    "K523",
    "A message of an unknown partition",
    "Positions are kept for each partition that partitions() names, and this message is of none of them.",
    "return that partition, with its epoch, from partitions().",
)
K530: Final = Code(
    "K530",
    "A worker died",
    "A worker process has ended by itself, or was killed. It is restarted, and what was under way is replayed.",
    "look at how it ended: SIGKILL is mostly memory, SIGSEGV an extension in C.",
)
K531: Final = Code(
    "K531",
    "Workers died too often",
    "More workers died within a minute than max_restarts allows, so the run has ended.",
    "mend the cause, or raise max_restarts.",
)
K532: Final = Code(
    "K532",
    "A worker died while the run ended",
    "It was to close, and ended without its last word: whether all that it had was done is not known.",
    "run again: what was stored is not stored twice.",
)
K533: Final = Code(
    "K533",
    "A part of the runtime has died",
    "Something in Kedge itself raised. What the process had is lost, and is replayed by others.",
    "please report it, with the traceback: it is a mistake of ours.",
)
K534: Final = Code(
    "K534",
    "A worker can't be connected to",
    "The address of another worker could not be used.",
    "look at the address: with tcp links, all workers need to reach it.",
)
K535: Final = Code(
    "K535",
    "A sink's writer has ended",
    "The task that writes for a sink raised what it does not expect. What the sink takes now fails.",
    "please report it, with the traceback, if it is a sink of Kedge's.",
)

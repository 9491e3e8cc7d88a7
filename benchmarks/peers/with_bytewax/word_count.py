"""Word count: lines are split, words are counted, and the counts are written at the end, as in Bytewax's own guide.

python -m bytewax.run "benchmarks.peers.with_bytewax.word_count:flow('LINES', 'OUT')"
"""

import bytewax.operators as op
from bytewax.connectors.files import FileSink, FileSource
from bytewax.dataflow import Dataflow

from benchmarks.peers.work import Count, to_json, words


def flow(path: str, out: str) -> Dataflow:
    flow = Dataflow("word-count")
    lines = op.input("lines", flow, FileSource(path))
    said = op.flat_map("split", lines, words)
    counts = op.count_final("count", said, lambda word: word)
    rows = op.map("json", counts, lambda counted: (counted[0], to_json(Count(*counted)).decode()))
    op.output("out", rows, FileSink(out))
    return flow

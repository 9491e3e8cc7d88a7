"""Identity: each line goes through a step into a JSON Lines file.

python -m bytewax.run "benchmarks.peers.with_bytewax.identity:flow('LINES', 'OUT')"
"""

import bytewax.operators as op
from bytewax.connectors.files import FileSink, FileSource
from bytewax.dataflow import Dataflow

from benchmarks.peers.work import Text, to_json


def flow(path: str, out: str) -> Dataflow:
    flow = Dataflow("identity")
    lines = op.input("lines", flow, FileSource(path))
    records = op.map("record", lines, Text)
    same = op.map("same", records, lambda record: Text(record.text))
    rows = op.map("json", same, lambda record: ("out", to_json(record).decode()))
    op.output("out", rows, FileSink(out))
    return flow

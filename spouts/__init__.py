"""Ready-made sources, and parsers for their lines.

`file_tail` follows files; `items`, `ticker` and `paced` are for tests, demos and benchmarks. Must not know any bolt.

Imports nothing of: bolts, bridge, topology.runtime.worker, topology.runtime.links, topology.storage, topology.cli
"""

from spouts.file_tail.spout import FileTail, first_mtime
from spouts.items import Items
from spouts.lines import Line
from spouts.match_check import Matching
from spouts.paced import Paced
from spouts.syslog import SyslogTimes
from spouts.ticker import Tick, Ticker

__all__ = ["FileTail", "Items", "Line", "Matching", "Paced", "SyslogTimes", "Tick", "Ticker", "first_mtime"]

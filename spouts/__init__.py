"""Sources to use as they are, and what helps to read them. Knows `topology`, and no bolt."""

from spouts.file_tail import FileTail, first_mtime
from spouts.items import Items
from spouts.lines import Line
from spouts.matching import Matching
from spouts.paced import Paced
from spouts.syslog import SyslogTimes
from spouts.ticker import Tick, Ticker

__all__ = ["FileTail", "Items", "Line", "Matching", "Paced", "SyslogTimes", "Tick", "Ticker", "first_mtime"]

"""Sources to use as they are. Knows `topology`, and no bolt."""

from spouts.file_tail import FileTail, first_mtime
from spouts.items import Items
from spouts.lines import Line
from spouts.ticker import Tick, Ticker

__all__ = ["FileTail", "Items", "Line", "Tick", "Ticker", "first_mtime"]

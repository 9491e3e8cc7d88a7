"""The keys of the outputs that a sink has sent lately, so that a replay in the same process is not sent again. Pure."""

from collections import OrderedDict
from typing import Final

from bolts.sinks.keys import PAIR_BYTES

OUTPUTS_MAX: Final = 100_000  # outputs that are remembered; the oldest are dropped first
CONTENTS_MAX: Final = 100  # contents of one output that are remembered
_PAIR: Final = 2 * PAIR_BYTES  # hexadecimal digits of an output's name; the rest of a key names its content


class RecentKeys:
    """The keys of the last 100,000 outputs that were confirmed, about 250 bytes each."""

    def __init__(self) -> None:
        self._outputs: OrderedDict[str, tuple[str, ...]] = OrderedDict()

    def __contains__(self, key: str) -> bool:
        return key[_PAIR:] in self._outputs.get(key[:_PAIR], ())

    def add(self, key: str) -> bool:
        """Note a key that the server has confirmed. Return True if the output had another content before."""
        pair, content = key[:_PAIR], key[_PAIR:]
        before = self._outputs.get(pair, ())
        if content not in before:
            self._outputs[pair] = (*before[1 - CONTENTS_MAX :], content) if before else (content,)
        if len(self._outputs) > OUTPUTS_MAX:
            self._outputs.popitem(last=False)
        return bool(before) and content not in before

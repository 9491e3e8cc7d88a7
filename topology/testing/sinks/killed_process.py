"""A process of its own that feeds numbered items into a sink, prints each number as it is acked, and is killed.

    python -m topology.testing.sinks.killed_process MODULE:FUNCTION '["arguments", "as JSON"]' COUNT

The function makes a `SinkSubject`. The conformance suite, which knows no store, runs this.
"""

import asyncio
import importlib
import json
import os
import sys
from typing import Any

from topology.core.tuples import Tuple
from topology.testing.sinks.driver import RecordedAnswers, delivery, feed, item, opened


async def main(made_by: str, arguments: str, count: int) -> None:
    module, _, function = made_by.partition(":")
    subject = getattr(importlib.import_module(module), function)(*json.loads(arguments))

    def tell(acked: Tuple[Any]) -> None:
        os.write(1, b"%d\n" % acked.record.number)

    async with opened(subject.make()) as sink:
        await feed(sink, (delivery(item(number)) for number in range(1, count + 1)), RecordedAnswers(tell))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))

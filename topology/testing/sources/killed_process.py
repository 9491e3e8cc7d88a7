"""A process of its own that takes messages from a source, settles each third one, prints its number, and is killed.

    python -m topology.testing.sources.killed_process MODULE:FUNCTION '["arguments", "as JSON"]'

The function makes a `SourceSubject`. The conformance suite, which knows no server, runs this.
"""

import asyncio
import importlib
import json
import os
import sys

from topology.testing.sources.driver import DrivenSource, Memory


async def main(made_by: str, arguments: str) -> None:
    module, _, function = made_by.partition(":")
    subject = getattr(importlib.import_module(module), function)(*json.loads(arguments))
    source = DrivenSource(subject.make(), Memory())
    await source.open()
    while True:
        some = (await source.poll(9))[::3]
        await source.settle(some)
        for message in some:
            os.write(1, b"%d\n" % subject.number(message.record))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))

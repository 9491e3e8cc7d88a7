"""A process of its own that feeds numbered records into a sink, to be killed or starved by a test.

python sink_process.py KIND PATH crash COUNT     feeds 1 … COUNT, and prints each number when it is acked
python sink_process.py KIND PATH starve BYTES    as below, with files limited to BYTES more than at the start
python sink_process.py KIND PATH retry COUNT     feeds until all are acked, or the store is broken; as above
"""

import asyncio
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

from sink_kit import KINDS, Alert, Recorder, alert, feed, opened, until

from bolts.sinks.batching import BatchingSink
from topology.core.tuples import Tuple

STARVED = 2_000  # records fed under the limit


async def crash(sink: BatchingSink, count: int) -> None:
    def tell(acked: Tuple[Any]) -> None:
        os.write(1, b"%d\n" % acked.record.failures)

    await feed(sink, (alert(number) for number in range(1, count + 1)), Recorder(tell))


async def starve(sink: BatchingSink, path: Path, room: int) -> dict[str, Any]:
    first = await feed(sink, [alert(1)])
    assert len(first.acked) == 1
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    largest = max(entry.stat().st_size for entry in path.parent.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest + room, hard))
    out = Recorder()
    feeding = asyncio.ensure_future(feed(sink, [alert(n, "192.0.2.1" + "x" * 100) for n in range(2, STARVED + 1)], out))
    await until(lambda: "retry 3" in sink.away)
    while_full = {"acked": len(out.acked), "away": sink.away}
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await feeding
    return {**while_full, "failed": sorted(set(out.failed.values())), "then": len(out.acked), "stored": sink.stored}


async def retry(sink: BatchingSink, count: int) -> dict[str, Any]:
    out = Recorder()
    feeding = asyncio.ensure_future(feed(sink, [alert(number) for number in range(1, count + 1)], out))
    await asyncio.wait({feeding})
    if sink.broken is not None:
        assert feeding.exception() is sink.broken
    return {
        "acked": sorted(t.record.failures for t in out.acked),
        "failed": sorted(set(out.failed.values())),
        "broken": str(sink.broken or ""),
    }


async def main(name: str, where: str, what: str, number: int) -> None:
    (kind,) = (kind for kind in KINDS if kind.name == name)
    path = Path(where)
    settings: dict[str, Any] = {"records": (Alert,)} if name == "sqlite" else {}
    async with opened(kind.make(path, batch=20, within_ms=1, **settings)) as sink:
        if what == "crash":
            await crash(sink, number)
        elif what == "starve":
            print(json.dumps(await starve(sink, path, number)))
        else:
            print(json.dumps(await retry(sink, number)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))

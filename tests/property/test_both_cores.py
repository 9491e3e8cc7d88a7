"""The compiled core and the Python core make the same of the same input: identities, edges, trees and errors."""

import json
import os
import subprocess
import sys
from pathlib import Path
from random import SystemRandom
from typing import Any

import pytest

from topology.core import why_not

ROOT = Path(__file__).parents[2]


def said(core: str, seed: int) -> Any:
    env = {**os.environ, "KEDGE_CORE": core, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.property.both_cores", str(seed)]
    told = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 0, told.stderr
    answer = json.loads(told.stdout)
    assert answer["core"].lower() == core
    return answer["said"]


@pytest.mark.skipif(bool(why_not()), reason=f"there is no compiled core to compare with: {why_not()}")
def test_both_cores_make_the_same_of_the_same_input() -> None:
    for seed in (1, 2, 3, SystemRandom().getrandbits(32)):
        print(f"seed {seed}")
        ours, reference = said("compiled", seed), said("python", seed)
        for number, (one, other) in enumerate(zip(ours, reference, strict=True)):
            assert one == other, f"seed {seed}, step {number}"

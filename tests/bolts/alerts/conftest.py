"""The tests of alerts use the HTTP server of the tests of web hooks."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "http"))  # for hook_kit

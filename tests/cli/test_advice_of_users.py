"""An error of a user's own, raised as one of ours with advice and no code: the advice is told with it."""

from pathlib import Path

import pytest
from cli_kit import kedge

from topology import ConfigurationError
from topology.errors import KedgeError, advice

RAISING = """
from topology import ConfigurationError, Topology

def topology() -> Topology:
    raise ConfigurationError("the table is empty", next="fill it, by load.py")
"""


def test_advice_without_a_code_is_kept_and_ends_a_traceback() -> None:
    error = ConfigurationError("the table is empty", next="fill it.")
    assert (str(error), error.code, error.next) == ("the table is empty", None, "fill it.")
    assert error.__notes__ == ["  next: fill it"]
    assert not hasattr(KedgeError("nothing to say"), "__notes__")
    assert advice("fill it.", None) == "  next: fill it"


@pytest.mark.parametrize("command", ["check", "run"])
def test_the_command_tells_it_below_the_sentence(tmp_path: Path, command: str) -> None:
    (tmp_path / "empty.py").write_text(RAISING)
    result = kedge(command, "empty.py", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.rstrip().endswith("kedge: the table is empty\n  next: fill it, by load.py"), result.stderr

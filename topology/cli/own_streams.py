"""A bolt that is given its own stream. Python tells it as a variable that is not there, which says nothing of bolts.

Reads the source that an exception comes from; runs nothing.
"""

import ast
import re
import traceback
from pathlib import Path
from typing import Final

from topology.codes.declaring import K211
from topology.errors import ConfigurationError
from topology.runtime.failures import text_of

NAMED: Final = re.compile(r"'([^']+)'")  # in what Python says of a variable


def own_stream(error: BaseException) -> ConfigurationError | None:
    """What to raise where a declaration has raised this for a bolt that is given its own stream: its handle is there
    only once the bolt is. Else None."""
    if not isinstance(error, NameError):
        return None
    frames = traceback.extract_tb(error.__traceback__)
    missing = NAMED.search(text_of(error))
    if not frames or missing is None:
        return None
    at = frames[-1]
    try:
        tree = ast.parse(Path(at.filename).read_bytes())
    except (OSError, ValueError, SyntaxError):
        return None
    for one in ast.walk(tree):
        if isinstance(one, ast.Assign | ast.AnnAssign) and one.lineno <= (at.lineno or 0) <= (one.end_lineno or 0):
            name = _bolt_reading(one, missing[1])
            if name:
                text = f"{at.filename}:{at.lineno}: the bolt {name!r:.80} is given its own stream as an input"
                return ConfigurationError(text, code=K211)
    return None


def _bolt_reading(one: ast.Assign | ast.AnnAssign, variable: str) -> str:
    """The name of the bolt that is declared here, bound to this variable, and given it; empty where none is."""
    call = one.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "bolt":
        return ""
    targets = one.targets if isinstance(one, ast.Assign) else [one.target]
    bound = {target.id for target in targets if isinstance(target, ast.Name)}
    inputs = call.args[2:]  # behind the name and the bolt
    given = {part.id for argument in inputs for part in ast.walk(argument) if isinstance(part, ast.Name)}
    if variable not in bound & given:
        return ""
    first = call.args[0]
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else variable

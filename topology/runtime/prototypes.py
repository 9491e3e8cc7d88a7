"""Each task's own copy of the component that was given to the topology. Knows nothing of what the copy will do."""

import copy
from typing import Any

from topology.codes.startup import COMPONENT_COPY_FAILED
from topology.errors import StartError
from topology.graph import Declared


def prototype_copy(declared: Declared) -> Any:
    """Return a task's own copy of a declared component. Raises StartError, which names what can't be copied."""
    try:
        return copy.deepcopy(declared.prototype)
    except Exception as error:
        culprit = ""
        for name, value in vars(declared.prototype).items():
            try:
                copy.deepcopy(value)
            except Exception:
                culprit = f": its attribute {name!r} ({type(value).__name__}) can't be"
                break
        raise StartError(
            f"{declared.name!r} can't be copied for each task{culprit} ({type(error).__name__}: {error})",
            code=COMPONENT_COPY_FAILED,
        ) from error

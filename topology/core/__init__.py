"""The core: tuples, and which form of the compiled modules runs.

What has to be fast is compiled if there was a compiler at the install: the numbers of tuples and trees are C's then.
All else is Python. `choice` decides as this package is imported, before a compiled module is. Must not know tasks or
graphs.

Imports nothing of: topology.components, topology.graph, topology.plan, topology.runtime, topology.storage, asyncio
"""

from topology.core.choice import CORE, REASON, why_not

__all__ = ["CORE", "REASON", "why_not"]

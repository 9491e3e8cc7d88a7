"""The conformance suite of sources, for Kedge's own and for yours.

`SourceSubject` says how a source is made and fed. `check_source` runs one of `SOURCE_CHECKS` on it. Must not know
pytest.

Imports nothing of: pytest, spouts
"""

from topology.testing.sources.suite import SOURCE_CHECKS, SourceItem, SourceSubject, check_source

__all__ = ["SOURCE_CHECKS", "SourceItem", "SourceSubject", "check_source"]

"""Why a row could not be measured, or not to its end: a sentence, and what was measured until then."""

from bridge.compare.results import ModeResult


class Problem(Exception):
    """Ends one row's turn; the others go on. `result`: what its round has come to, where it has come to anything."""

    def __init__(self, text: str, result: ModeResult | None = None) -> None:
        super().__init__(text)
        self.result = result

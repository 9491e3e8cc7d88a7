"""What a mutant is: a rule, a small patch of the shipped code that breaks it, and the test that has to see it.

Pure, but for reading the file that it patches. Must not know how tests are run.
"""

from dataclasses import dataclass
from pathlib import Path


class BrokenMutant(Exception):
    """The patch does not fit the code any more; the text says how."""


@dataclass(frozen=True)
class Mutant:
    """One patch: in `file`, `old`, which stands there exactly once, becomes `new`. `test` is a node id of pytest's."""

    rule: str  # A1 … P16
    breaks: str  # what the code does then, in one sentence
    file: str  # relative to the root, with slashes
    old: str
    new: str
    test: str
    hangs: bool = False  # the test shows it by never ending
    also: tuple["Mutant", ...] = ()  # patched with it: the other guards, where each alone keeps the rule

    def mutated(self, text: str) -> str:
        """The file's text with the patch. Raises BrokenMutant where it does not fit, or what comes out is no Python."""
        found = text.count(self.old)
        if found != 1:
            raise BrokenMutant(
                f"{self.rule}: {self.file} has {found} places like {self.old!r:.100}; it needs exactly 1"
            )
        if self.old == self.new:
            raise BrokenMutant(f"{self.rule}: the patch of {self.file} changes nothing")
        changed = text.replace(self.old, self.new)
        try:
            compile(changed, self.file, "exec")
        except SyntaxError as error:
            raise BrokenMutant(f"{self.rule}: {self.file} is no Python any more: {error}") from error
        return changed

    def mutated_file(self, root: Path) -> str:
        """As `mutated`, of the file under `root`."""
        try:
            text = (root / self.file).read_text("utf-8")
        except FileNotFoundError:
            raise BrokenMutant(f"{self.rule}: there is no {self.file}") from None
        return self.mutated(text)

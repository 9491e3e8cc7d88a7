"""Checks the words of the code and the docs: `python docs/prose.py [FILES]`, which `make lint` runs over all of them.

The rules are in CONTRIBUTING.md ("Words"). Exceptions stand in `prose_exceptions.txt`, beside this file: a path and how
many findings are left there; a number may only fall. Looks at docstrings, comments and Markdown; must not change any.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
EXCEPTIONS: Final = Path(__file__).with_name("prose_exceptions.txt")
SENTENCE_WORDS_MAX: Final = 35

# Words that a reader has to read twice → what to write.
WORDS: Final = {
    r"anew": "again, or name the action",
    r"besides": "also, or too",
    r"mend(s|ed|ing)?": "fix",
    r"whoever|whomever": "name the actor",
    r"nobody|somebody": "name the actor",
    r"whatever (it|is|was|has|they)": "name the thing",
    r"tells? of|is told|are told|was told|were told": "report, print, or name the actor",
    r"that can't be": "Invalid …",
    r"hangs? on": "depends on",
    r"comes? of": "results from",
    r"puts? out|putting out": "emit",
    r"(goes|go|went|gone) on with": "resume",
    r"of its own accord": "by itself",
    r"what is more": "also",
}
OPENERS: Final = ("What", "Whether", "Who", "Whose", "Which", "How", "Why", "That")
SAY: Final = re.compile(r", say(?=[.,;:)]|$)")
_WORDS: Final = re.compile(r"\b(" + "|".join(WORDS) + r")\b", re.IGNORECASE)


class Finding(NamedTuple):
    """One place that breaks a rule."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def findings(path: Path) -> list[Finding]:
    """All findings of one file, Python or Markdown."""
    name = path.relative_to(ROOT).as_posix()
    text = path.read_text("utf-8")
    found = of_python(text) if path.suffix == ".py" else of_markdown(text)
    return [Finding(name, line, what) for line, what in found]


def of_python(text: str) -> Iterator[tuple[int, str]]:
    """Findings of docstrings, comments and loop variables."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            doc = ast.get_docstring(node)
            if doc:
                first = node.body[0].lineno
                opener = doc.split(None, 1)[0].rstrip(",:")
                if opener in OPENERS:
                    yield first, f"a docstring begins with {opener!r}: begin with a verb or a noun"
                yield from of_prose(doc, first)
        loops = (
            node.generators if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) else []
        )
        for target in [loop.target for loop in loops] + (
            [node.target] if isinstance(node, ast.For | ast.AsyncFor) else []
        ):
            if isinstance(target, ast.Name) and target.id == "one":
                yield target.lineno, "a loop variable `one`: name what it holds"
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from of_words(token.string, token.start[0])


def of_markdown(text: str) -> Iterator[tuple[int, str]]:
    """Findings of the prose of a page: no code, no tables, no comments."""
    inside = ""
    paragraph: list[str] = []
    first = 1
    for number, line in enumerate([*text.split("\n"), ""], 1):
        fence = re.match(r"\s*(```+|~~~+|:::+)", line)
        if inside:
            inside = "" if (fence and fence[1][:3] == inside[:3]) or ("-->" in line and inside == "<!--") else inside
            continue
        if fence and not fence[1].startswith(":::"):
            inside = fence[1]
        elif line.lstrip().startswith("<!--"):
            inside = "" if "-->" in line else "<!--"
        elif not line.strip() or line.startswith(("|", "#", "    ")) or re.match(r"\s*([-*]|\d+\.) ", line):
            yield from of_prose(" ".join(paragraph), first)
            heading = line.lstrip("#|").strip() if line.startswith(("#", "|")) else ""
            yield from of_words(heading, number)
            paragraph, first = (
                ([re.sub(r"^\s*([-*]|\d+\.) ", "", line)] if re.match(r"\s*([-*]|\d+\.) ", line) else []),
                number,
            )
        else:
            first = first if paragraph else number
            paragraph.append(line.strip())


def of_prose(text: str, line: int) -> Iterator[tuple[int, str]]:
    """Findings of running text: words, and sentences that are too long."""
    yield from of_words(text, line)
    plain = re.sub(r"``[^`]*``|`[^`]*`", "x", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text))
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\w+  ))", plain):
        for sentence in re.split(r"(?<=[.!?;:])\s+", " ".join(paragraph.split())):
            if (words := len(sentence.split())) > SENTENCE_WORDS_MAX:
                yield line, f"a sentence of {words} words, over {SENTENCE_WORDS_MAX}: {sentence[:60]} …"


def of_words(text: str, line: int) -> Iterator[tuple[int, str]]:
    """Findings of single words."""
    plain = re.sub(r"``[^`]*``|`[^`]*`", "x", text)
    for match in _WORDS.finditer(plain):
        advice = next(what for word, what in WORDS.items() if re.fullmatch(word, match[0], re.IGNORECASE))
        yield line, f"{match[0]!r}: {advice}"
    for _ in SAY.finditer(plain):
        yield line, "', say': for example"


def looked_at() -> list[Path]:
    """The files of the repository that have prose of ours, tests' data and generated pages left out."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "*.py", "*.md"], capture_output=True, text=True, check=True
    ).stdout.split()
    generated = ("docs/reference/errors.md", "docs/benchmarks.md")
    return [ROOT / path for path in listed if path not in generated and not path.startswith("tests/")]


def allowed() -> Counter[str]:
    """Return how many findings each file may have left."""
    lines = EXCEPTIONS.read_text("utf-8").splitlines() if EXCEPTIONS.exists() else []
    parts = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
    return Counter({path: int(count) for path, count in parts})


def main(arguments: list[str]) -> int:
    """Prints findings and returns the exit status. `--write` writes the exceptions that are needed now."""
    if arguments == ["--write"]:
        counts = Counter(found.path for path in looked_at() for found in findings(path))
        head = "# Findings of docs/prose.py that are left, by file. A number may only fall.\n"
        EXCEPTIONS.write_text(head + "".join(f"{path} {count}\n" for path, count in sorted(counts.items())))
        return 0
    if arguments:
        found = [found for argument in arguments for found in findings(Path(argument).resolve())]
        print("\n".join(map(str, found)))
        return bool(found)
    may, bad = allowed(), 0
    for path in looked_at():
        found = findings(path)
        name = path.relative_to(ROOT).as_posix()
        if len(found) > may[name]:
            print("\n".join(map(str, found)))
            print(f"{name}: {len(found)} findings, and prose_exceptions.txt allows {may[name]}")
            bad += 1
        elif len(found) < may[name]:
            print(f"{name}: {len(found)} findings, {may[name]} are allowed: run python docs/prose.py --write")
            bad += 1
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What stands in a page: its fenced blocks in order, and what the comment before each one says of it.

Pure: text in, values out. Pages are read by the parser that builds them. Comments are HTML ones, which no reader sees:

    <!-- file: words.py -->           the block is this file; later blocks import it, or give it to a command
    <!-- exits: 1 -->                 the command ends with this status
    <!-- with: KEDGE_RATE=5000 -->    the command has this in its environment
    <!-- background -->               the command goes on while later blocks run
    <!-- 4711 is: kill -9 (\\d+) -->   in this command 4711 stands for what the background has told there
    <!-- of the background -->        this output is that of the background, which has to end
    <!-- foreign: Storm -->           code of another system
    <!-- needs: postgres -->          the page is left out where nats, spark, … is not there, see `page_runner`
    <!-- not run: why -->             anything else that no test runs

Nothing else is needed: `python` and `sh` run, `output` is what the block before it has printed.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
COMMENT = re.compile(r"<!--\s*(?P<word>[a-z ]+?|\d+ is)(?::\s*(?P<text>.*?))?\s*-->", re.DOTALL)
WORDS = {"file", "exits", "with", "background", "of the background", "foreign", "needs", "not run"}
MARKS = {"top end"}  # where the part of the README ends that the index begins with
NUMBER = r"[\d,.]+(?:e-?\d+)?"
LOOSE = re.compile(r"\d[\d,]*(?:\.\d+)?(?: (?P<unit>µs|ms|s|%)(?!\w))|\d[\d,]*\.\d+|\bpid \d+|nothing waits|…")
WAITS = rf"(?:nothing waits|no queue is more than {NUMBER} % full)"  # a share as well, and 0 % in words


@dataclass(frozen=True)
class Block:
    """One fenced block. `comments`: word → text, of the comment right before it. `line` is that of its first line."""

    page: str
    line: int
    language: str
    text: str
    comments: dict[str, str]

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """All pages with snippets, relative to the root."""
    docs = (path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)
    return ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in docs)]


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in order. Raises ValueError for a comment that means nothing."""
    return blocks_of(page, (ROOT / page).read_text("utf-8"))


def blocks_of(page: str, text: str) -> list[Block]:
    found: list[Block] = []
    comments: dict[str, str] = {}
    for token in MarkdownIt("commonmark").parse(text):
        if token.type == "html_block":
            comments = {**comments, **_comments(page, token.content)}
        elif token.type == "fence":
            assert token.map is not None
            language = token.info.split()[0] if token.info.strip() else ""
            found.append(Block(page, token.map[0] + 2, language, token.content, comments))
            comments = {}
        elif token.type == "inline":
            comments = {}
    return found


def _comments(page: str, html: str) -> dict[str, str]:
    found = {}
    for match in COMMENT.finditer(html):
        word = match["word"].strip()
        if word == "figures":  # of the text beside it, not of a block: `told_figures` reads it
            continue
        if word not in WORDS | MARKS and not word.endswith(" is"):
            raise ValueError(f"{page}: a comment before a block says {word!r}, which means nothing")
        found[word] = match["text"] or ""
    return found


def pattern(line: str) -> re.Pattern[str]:
    """What a printed line has to look like: `…` is anything; pids, shares, times and numbers with a point may differ;
    all else, and so every count, is exact."""

    parts = []
    end = 0
    for match in LOOSE.finditer(line := line.strip()):
        parts += [re.escape(line[end : match.start()]), _loosely(match)]
        end = match.end()
    return re.compile(re.sub(r"(\\ )+", r"\\s+", "".join([*parts, re.escape(line[end:])])))


def _loosely(match: re.Match[str]) -> str:
    text = match[0]
    if text == "…":
        return ".*"
    if text.startswith("pid"):
        return r"pid \d+"
    if text == "nothing waits":
        return WAITS
    unit = match["unit"]
    if unit is None or unit == "%":
        return NUMBER + (" %" if unit else "")
    return rf"(?:\d+ %\s+)?{NUMBER} [µm]?s\b"  # a run that lasts has the share of its time before it


def missing(expected: str, printed: str) -> str | None:
    """The first line of an `output` block that was not printed, in the block's order; None where all of them were."""
    lines = iter(printed.splitlines())
    for line in expected.splitlines():
        if line.strip() in ("", "…"):
            continue
        wanted = pattern(line)
        if not any(wanted.search(one) for one in lines):
            return line
    return None

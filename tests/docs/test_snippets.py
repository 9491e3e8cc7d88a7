"""Every snippet of the README and of docs/ runs as it stands there, page by page; what is not run says why."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page_runner import PageRunner
from snippets import blocks, blocks_of, missing, pages

NOT_RUN_MAX = 12  # of all pages together; a new one has to be worth it
SLOW = {  # they start Spark several times, kill runs, go back to checkpoints, simulate many runs, measure, or compare
    *("docs/fraud.md", "docs/how-to/compare.md", "docs/how-to/resume.md", "docs/how-to/run-on-spark.md"),
    *("docs/how-to/simulate.md", "docs/how-to/spark.md", "docs/how-to/time-travel.md", "docs/how-to/tune.md"),
    *("docs/how-to/test.md", "docs/how-to/write-an-idempotent-sink.md", "docs/how-to/dead-letters.md"),
    *("docs/how-to/ticks.md", "docs/how-to/write-a-source.md"),
}
DIRECTIVES = "{"  # a fence that Sphinx makes something of


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PageRunner]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    one = PageRunner(tmp_path)
    monkeypatch.setitem(sys.modules, "page", one.module)
    yield one
    one.close()
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def with_snippets() -> list[str]:
    return [page for page in pages() if any(not one.language.startswith(DIRECTIVES) for one in blocks(page))]


def in_turn() -> list[Any]:
    """All pages with snippets; those that take long by their nature are for `make test-all`."""
    return [pytest.param(page, marks=pytest.mark.slow) if page in SLOW else page for page in with_snippets()]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("page", in_turn())
def test_a_page_runs_from_its_first_block_to_its_last(page: str, runner: PageRunner) -> None:
    for block in blocks(page):
        if not block.language.startswith(DIRECTIVES):
            runner.run(block)


def test_what_is_not_run_says_why_and_is_rare() -> None:
    left = [one for page in pages() for one in blocks(page) if "not run" in one.comments]
    assert [one.place for one in left if len(one.comments["not run"].split()) < 2] == [], "a reason is a few words"
    assert len(left) <= NOT_RUN_MAX, "\n".join(f"{one.place}: {one.comments['not run']}" for one in left)


def test_code_of_other_systems_stands_on_their_pages_alone() -> None:
    foreign = [one for page in pages() for one in blocks(page) if "foreign" in one.comments]
    assert [one.place for one in foreign if not one.page.startswith("docs/coming-from/")] == []
    assert [one.place for one in foreign if not one.comments["foreign"]] == [], "say whose it is"


# -- the finders find


def test_a_block_has_its_line_its_language_and_the_comment_before_it() -> None:
    text = "# A page\n\n<!-- file: a.py -->\n```python\nx = 1\n```\n\n- a list\n\n  ```sh\n  true\n  ```\n"
    file, shell = blocks_of("page.md", text)
    assert (file.line, file.language, file.text, file.comments) == (5, "python", "x = 1\n", {"file": "a.py"})
    assert (shell.line, shell.language, shell.text, shell.comments) == (11, "sh", "true\n", {})


def test_a_comment_that_means_nothing_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="means nothing"):
        blocks_of("page.md", "<!-- skip: later -->\n```sh\nfalse\n```\n")


@pytest.mark.parametrize(
    ("expected", "printed", "line"),
    [
        ("a\nb\n", "x\na\nb\n", None),
        ("b\na\n", "a\nb\n", "a"),
        ("3 rows in ….db\n", "3 rows in /x/y.db\n", None),
        ("20,000 read\n", "20,001 read\n", "20,000 read"),
        ("ended after 16.8 s\n", "ended after 2 s\n", None),
        ("p50 0.135 ms, p99 2.27 ms\n", "p50 1.2 s, p99 12 ms\n", None),
        ("busy 97 %, 26 µs\n", "busy 3 %, 1.5 ms\n", None),
        ("split  6      33 µs\n", "split  6  0 %  78 µs\n", None),
        ("nothing waits, it pauses 0 %\n", "no queue is more than 5 % full, it pauses 2 %\n", None),
        ("nothing waits, it pauses 0 %\n", "'b' is the limit: it is busy 99 %\n", "nothing waits, it pauses 0 %"),
        ("3 replayed\n", "4 replayed\n", "3 replayed"),
        ("2 steps\n", "3 steps\n", "2 steps"),
        ("worker 1 (pid 4711)\n", "worker 1 (pid 99)\n", None),
        ("worker 1 (pid 4711)\n", "worker 2 (pid 99)\n", "worker 1 (pid 4711)"),
        ("(a) [b] 1 + 1?\n", "(a) [b] 1 + 1?\n", None),
    ],
)
def test_an_output_is_compared_loosely_where_runs_differ_and_exactly_elsewhere(
    expected: str, printed: str, line: str | None
) -> None:
    assert missing(expected, printed) == line


def test_a_block_that_fails_is_named_with_its_line(runner: PageRunner) -> None:
    (block,) = blocks_of("page.md", "Text.\n\n```sh\nexit 3\n```\n")
    with pytest.raises(pytest.fail.Exception, match=r"page\.md:4: exit status 3"):
        runner.run(block)


def test_output_that_was_not_printed_is_named(runner: PageRunner) -> None:
    shell, output = blocks_of("page.md", "```sh\necho no\n```\n```output\nyes\n```\n")
    runner.run(shell)
    with pytest.raises(pytest.fail.Exception, match="not printed"):
        runner.run(output)

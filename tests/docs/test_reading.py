"""The built pages, as somebody reads them: names of files, copy buttons, linked code, and pictures in both themes."""

import html
import re
from pathlib import Path

import pytest
from snippets import ROOT, blocks, pages

CAPTION = re.compile(r'<div class="code-block-caption"><span class="caption-text"><code[^>]*>(.*?)</code></span>')
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)[^)]*\)")
FENCE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
PHONE = 358  # pixels between the margins of a page on a phone of 390
LEGIBLE = 9.0  # pixels of a letter


def built_of(built: Path, page: str) -> Path:
    return built / Path(page).relative_to("docs").with_suffix(".html")


def text(shown: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", shown))


def with_files() -> dict[str, list[str]]:
    """Page of the website → the files on it, in their order."""
    found = {
        page: [one.comments["file"] for one in blocks(page) if "file" in one.comments]
        for page in pages()
        if page.startswith("docs/")
    }
    return {page: files for page, files in found.items() if files}


@pytest.mark.parametrize("page", with_files())
def test_every_file_of_a_page_has_its_name_above_its_code(built: Path, page: str) -> None:
    assert [text(one) for one in CAPTION.findall(built_of(built, page).read_text("utf-8"))] == with_files()[page]


def test_there_are_pages_with_files() -> None:
    assert len(with_files()) > 10


# -- copy buttons


def test_the_copy_button_is_on_what_is_typed_and_on_no_output(built: Path) -> None:
    script = (built / "_static" / "copybutton.js").read_text("utf-8")
    assert ":not(.highlight-output):not(.highlight-text) > div.highlight > pre" in script
    page = built_of(built, "docs/tutorial.md").read_text("utf-8")
    assert "copybutton.js" in page
    languages = re.findall(r'<div class="(highlight-\w+) notranslate"><div class="highlight"><pre>', page)
    assert {"highlight-sh", "highlight-output"} <= set(languages)
    assert len(languages) == page.count('<div class="highlight">'), "the selector looks at the element right above"


# -- links to files of the repository


def test_no_link_downloads_a_file(built: Path) -> None:
    found = [page.name for page in built.rglob("*.html") if "_downloads/" in page.read_text("utf-8")]
    assert found == []
    assert not (built / "_downloads").exists()


def linked_files(page: str) -> set[str]:
    """Files of the repository, other than pages and pictures, that a page links to."""
    links = LINK.findall(FENCE.sub("", (ROOT / page).read_text("utf-8")))
    paths = {(ROOT / page).parent.joinpath(link).resolve() for link in links}
    return {path.relative_to(ROOT).as_posix() for path in paths if path.suffix in (".py", ".csv", ".toml", ".json")}


LINKING = [page for page in pages() if page.startswith("docs/") and linked_files(page)]


@pytest.mark.parametrize("page", LINKING)
def test_a_link_to_a_file_opens_a_page_with_its_code(built: Path, page: str) -> None:
    here = built_of(built, page)
    targets = re.findall(r'href="([^"#]*source/[^"#]+)"', here.read_text("utf-8"))
    opened = {here.parent.joinpath(target).resolve().relative_to(built / "source").as_posix() for target in targets}
    assert opened == {f"{path}.html" for path in linked_files(page)}
    for path in linked_files(page):
        shown = text((built / "source" / f"{path}.html").read_text("utf-8"))
        assert [line for line in (ROOT / path).read_text("utf-8").splitlines() if line not in shown] == [], path


# -- pictures


ALL = sorted(path for path in (ROOT / "docs").rglob("*.svg") if "_build" not in path.parts)
TERMINALS = [path for path in ALL if 'class="live-' in path.read_text("utf-8")]  # dark in every theme
PICTURES = [path for path in ALL if path not in TERMINALS]


def widths(picture: Path) -> tuple[float, float]:
    """The width of a picture, and the size of its smallest letters, both in its own pixels."""
    svg = picture.read_text("utf-8")
    width = re.search(r'<svg[^>]*?\swidth="([\d.]+)"', svg)
    assert width is not None, picture
    sizes = re.findall(r'(?:font|font-size)\s*[:=]\s*"?(?:[a-z0-9]+ )?(\d+(?:\.\d+)?)(?:px|")', svg)
    assert sizes, picture
    return float(width[1]), min(map(float, sizes))


@pytest.mark.parametrize(
    "picture", [one for one in PICTURES if one.name.startswith("benchmarks-")], ids=lambda p: p.stem
)
def test_letters_of_a_chart_are_legible_on_a_phone(picture: Path) -> None:
    width, smallest = widths(picture)
    assert smallest * min(1.0, PHONE / width) >= LEGIBLE


@pytest.mark.parametrize("picture", PICTURES, ids=lambda p: p.stem)
def test_a_picture_has_colours_for_dark(picture: Path) -> None:
    assert re.search(r"prefers-color-scheme:\s*dark", picture.read_text("utf-8"))


def test_pictures_on_pages_follow_the_theme_that_the_reader_has_chosen(built: Path) -> None:
    page = (built / "explanation" / "acking.html").read_text("utf-8")
    assert 'body[data-theme="dark"] #picture-1 .paper' in page
    assert 'body:not([data-theme="light"]) #picture-1 .paper' in page
    for one in built.rglob("*.html"):
        behind = set(re.findall(r'<img[^>]+src="[^"]*?([^"/]+\.svg)"', one.read_text("utf-8")))
        assert behind <= {path.name for path in TERMINALS}, one.name


def test_no_rule_of_a_picture_touches_anything_else_and_no_id_is_there_twice(built: Path) -> None:
    for one in built.rglob("*.html"):
        page = one.read_text("utf-8")
        for name, css in re.findall(r'<span class="picture" id="([^"]+)".*?<style>(.*?)</style>', page, re.DOTALL):
            selectors = re.findall(r"(?:^|[{};])\s*([^{};@]+)\{", css)
            assert selectors
            assert [rule for rule in selectors for part in rule.split(",") if f"#{name} " not in part] == [], one.name
        ids = re.findall(r'\sid="(picture-[^"]+)"', page)
        assert sorted(ids) == sorted(set(ids)), one.name

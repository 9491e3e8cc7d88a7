"""The pictures of the README: `python docs/pictures.py` runs `kedge demo` on a terminal and draws its screen.

It kills one worker while the demo runs, so that the picture shows a death and the return. It also draws the graphs, as
`kedge graph --format svg` does. Knows the terminal of the tests, Rich and the command; a test compares the result.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

HERE = Path(__file__).parent
IMAGES = HERE / "images"
EXAMPLES = HERE.parent / "examples"
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests" / "cli")]

import pyte  # noqa: E402 - found on the path above, as all that follows
from rich.console import Console  # noqa: E402
from rich.style import Style  # noqa: E402
from rich.terminal_theme import TerminalTheme  # noqa: E402
from rich.text import Text  # noqa: E402
from terminal_kit import KEDGE, OnTerminal, terminal  # noqa: E402

COLUMNS, ROWS = 100, 20
GRAPHS = ("fraud", "ssh_alerts")
ALERT = "alert: "  # each alert is printed above the table while the demo runs
DEATH = re.compile(r"kill -9 (\d+)")
RICH = {"brown": "yellow"}  # pyte's names of colours that Rich calls otherwise
FAINT, BLINK = b"\x1b[2m", b"\x1b[5m"  # pyte keeps no faint text; the live view blinks nowhere, so this stands in
THEME = TerminalTheme(
    (15, 20, 32),
    (226, 232, 240),
    [
        *((15, 20, 32), (248, 113, 113), (74, 222, 128), (251, 191, 36)),
        *((122, 168, 255), (216, 180, 254), (45, 212, 191), (226, 232, 240)),
    ],
)
FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="live-title" viewBox="0 0 {width} {height}" \
width="{width}" height="{height}">
<title id="live-title">kedge demo: records per second, load, latency and failures of each component and worker</title>
<style>
.{unique_id}-matrix {{ font-size: {char_height}px; \
font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace }}
.{unique_id}-title {{ font: bold 16px system-ui, "DejaVu Sans", sans-serif }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def live_view() -> str:
    """Runs `kedge demo`, kills a worker, and returns the screen some seconds after its return as SVG."""
    with tempfile.TemporaryDirectory() as folder, terminal(Path(folder), "demo", columns=COLUMNS, rows=ROWS) as demo:
        read_faint(demo)
        demo.until_shown(ALERT)
        demo.until(lambda: DEATH.search("\n".join(demo.everything())), "the command that kills a worker")
        told = DEATH.search("\n".join(demo.everything()))
        assert told is not None
        os.kill(int(told[1]), signal.SIGKILL)
        demo.until_shown("is back as pid")
        alerts = sum(ALERT in line for line in demo.everything())
        demo.until(lambda: sum(ALERT in line for line in demo.everything()) >= alerts + 4, "four more alerts")
        demo.until(lambda: demo.lines()[-1].strip(), "a frame at the bottom of the screen")
        return svg(demo._screen)


def read_faint(shown: OnTerminal) -> None:
    """Has the terminal keep which text is faint."""
    feed = shown._stream.feed
    shown._stream.feed = lambda data: feed(data.replace(FAINT, BLINK))


def svg(screen: pyte.Screen) -> str:
    """Returns a picture of this screen, with no reference to any font or file elsewhere."""
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=screen.columns, file=nowhere, force_terminal=True, color_system="standard")
        for line in texts(screen):
            console.print(line, no_wrap=True, overflow="crop", crop=True)
        return console.export_svg(
            title="kedge demo", theme=THEME, code_format=FORMAT, font_aspect_ratio=0.6, unique_id="live"
        )


def texts(screen: pyte.Screen) -> Iterator[Text]:
    """The lines of the screen, each with its styles."""
    for y in range(screen.lines):
        line = Text()
        cells = [screen.buffer[y][x] for x in range(screen.columns)]
        for style, run in groupby(cells, style_of):
            line.append("".join(cell.data for cell in run), style)
        line.rstrip()
        yield line
    yield Text()  # Rich leaves the last line without room for what reaches below it


def style_of(cell: pyte.screens.Char) -> Style:
    colour = None if cell.fg == "default" else RICH.get(cell.fg, cell.fg)
    return Style(color=colour, bold=cell.bold, dim=cell.blink)


def main() -> None:
    for name in GRAPHS:
        example, picture = EXAMPLES / f"{name}.py", IMAGES / f"{name}.svg"
        subprocess.run([KEDGE, "graph", example, "--output", picture], check=True)
    (IMAGES / "live-view.svg").write_text(live_view(), encoding="utf-8")


if __name__ == "__main__":
    main()

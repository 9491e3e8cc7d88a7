"""Plots of a comparison, drawn by matplotlib: as SVG for a page, which decides their colours, and as a PNG.

Knows figures and axes; must not know pages, files or how anything was measured. Imported when a report is made.
"""

import io
import math
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from bridge.compare.report.table import at_once, bounded, called, headline, measured, name_of, with_kill
from bridge.compare.results import Comparison, ModeResult, percentile
from topology.cli.output.numbers import short
from topology.text import printable

WIDTH_IN: Final = 4.6  # width of a plot in a page, in inches, so that its text can be read on a phone
HEIGHT_IN: Final = 3.3
BAR_IN: Final = 0.5  # height of a bar with its name, in inches
PNG_IN: Final = (10.0, 4.9)
PNG_DPI: Final = 150
TITLE_MAX: Final = 112  # characters of one line of the picture's title
LEAST_MS: Final = 0.001  # lower latencies are shown as this
CURVE_POINTS: Final = 240
FEW: Final = 300  # up to this many results, each is a dot
BINS: Final = 80  # parts of the time if there are more results
KILL_BIN_S: Final = 0.1
BEFORE_KILL_S: Final = 3.0  # seconds before the kill that are shown
DASHES: Final = ((), (4.0, 1.6), (1.2, 1.4), (6.0, 1.5, 1.2, 1.5))  # dashes of rows of the same mode, in points
SERIES: Final = (  # colours that colour-blind readers can tell apart; in light and in dark
    ("#0068a8", "#5ab4f0"),
    ("#cf5200", "#ff9a56"),
    ("#00825f", "#3fd6a7"),
    ("#b0508a", "#f2a6d2"),
    ("#8a6d00", "#e8cb4a"),
    ("#6b4fb3", "#bfa6f7"),
    ("#2c8ca6", "#8fdcf0"),
    ("#666666", "#b4b4b4"),
)
SETTINGS: Final[dict[str, Any]] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "kedge",  # the same figures give the same bytes
    "text.parse_math": False,  # a $ is a $
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "lines.linewidth": 1.7,
}


@dataclass(frozen=True)
class PlotStyle:
    """The style of a row in all plots: a colour of SERIES for its mode, dashes for its place among the mode's rows."""

    colour: int
    dashes: tuple[float, ...]


Looks = Mapping[str, PlotStyle]  # by a row's title


@dataclass(frozen=True)
class Ink:
    """The colours of a picture."""

    text: str
    faint: str
    series: tuple[str, ...]


# In a page each colour is a variable of its style sheet. These colours stand for the variables until the picture is
# text.
OF_PAGE: Final = Ink("#010101", "#020202", tuple(f"#0300{number:02x}" for number in range(len(SERIES))))
VARIABLES: Final = {
    OF_PAGE.text: "var(--text)",
    OF_PAGE.faint: "var(--faint)",
    **{colour: f"var(--series-{number})" for number, colour in enumerate(OF_PAGE.series)},
}
OF_PNG: Final = Ink("#1c1c1c", "#c8c8c8", tuple(light for light, _ in SERIES))


def looks_of(modes: Sequence[ModeResult]) -> dict[str, PlotStyle]:
    """Return a style for each row, by its title. Call it with all rows, so that a row looks the same in each plot."""
    found, colours, seen = dict[str, PlotStyle](), dict[str, int](), dict[str, int]()
    for mode in modes:
        number = colours.setdefault(mode.mode, len(colours))
        again = seen[mode.mode] = seen.get(mode.mode, -1) + 1
        found[mode.title] = PlotStyle(number % len(SERIES), DASHES[(again + number // len(SERIES)) % len(DASHES)])
    return found


# -- the plots of a report


def percentiles_svg(modes: Sequence[ModeResult], looks: Looks) -> str:
    """Return the latency of each share of the results, both on log axes."""
    return _svg(
        "percentiles", lambda axes: _percentiles(axes, modes, looks, OF_PAGE), "Latency by percentile of each mode"
    )


def over_time_svg(modes: Sequence[ModeResult], looks: Looks) -> str:
    """Return the latency of results over the time when their messages were due."""

    def draw(axes: Axes) -> None:
        _over_time(axes, modes, looks, OF_PAGE, lambda one: 0.0, None)
        axes.set_xlabel("seconds, when the message was due")

    return _svg("over-time", draw, "Latency over time of each mode")


def kill_svg(modes: Sequence[ModeResult], looks: Looks) -> str:
    """Return the same plot around the kill, for the modes that had one."""

    def draw(axes: Axes) -> None:
        _over_time(axes, modes, looks, OF_PAGE, lambda one: one.kill.at_s if one.kill else None, KILL_BIN_S)
        axes.axvline(0, color=OF_PAGE.text, linewidth=1, dashes=(2, 2))
        axes.set_xlim(left=-BEFORE_KILL_S)
        axes.set_xlabel("seconds from the kill, when the message was due")

    return _svg("kill", draw, "Latency around the kill in each mode")


def bars_svg(
    name: str,
    label: str,
    modes: Sequence[ModeResult],
    looks: Looks,
    value: Callable[[ModeResult], float | None],
    unit: str = "",
) -> str:
    """Return one bar per row, with its number. `label` is a description for readers who cannot see it."""
    height = BAR_IN * len(modes) + 0.2
    return _svg(name, lambda axes: _bars(axes, modes, looks, OF_PAGE, value, unit), label, height)


def png(comparison: Comparison) -> bytes:
    """Return a picture for a README: percentiles, and CPU or throughput, with the conditions in its title."""
    modes, found = [mode for mode in comparison.modes if measured(mode)], looks_of(comparison.modes)
    with _plain():
        figure = Figure(figsize=PNG_IN, dpi=PNG_DPI, facecolor="white", layout="constrained")
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2, width_ratios=(1.65, 1), gridspec_kw={"wspace": 0.06})
        _percentiles(left, modes, found, OF_PNG)
        left.set_title("latency of a result", color=OF_PNG.text)
        if at_once(comparison) or bounded(comparison):
            _bars(right, modes, found, OF_PNG, lambda one: one.throughput_per_s, "")
            right.set_title("messages per second", color=OF_PNG.text)
        else:
            _bars(right, modes, found, OF_PNG, lambda one: one.cpu_seconds_per_million, "")
            right.set_title("CPU seconds per million messages", color=OF_PNG.text)
        figure.suptitle(_title(comparison), x=0.01, ha="left", fontsize=11, color=OF_PNG.text)
        handles, labels = left.get_legend_handles_labels()
        if handles:
            figure.legend(
                handles, labels, loc="outside lower left", ncols=2, frameon=False, labelcolor=OF_PNG.text, fontsize=8
            )
        written = io.BytesIO()
        figure.savefig(written, format="png", metadata={"Software": None})
    return written.getvalue()


def _title(comparison: Comparison) -> str:
    first = f"{name_of(comparison)}: {conditions(comparison)}".rstrip(": ")
    lines = (printable(line) for line in (first, headline(comparison)))
    return "\n".join(part for line in lines for part in textwrap.wrap(line, TITLE_MAX))


def conditions(comparison: Comparison) -> str:
    """Return the rate and the times, in a few words, as far as the comparison has noted them."""
    noted = comparison.settings
    rate, seconds, rounds = noted.get("rate"), noted.get("seconds"), noted.get("rounds")
    parts = []
    if isinstance(rate, int | float):
        parts.append(f"{rate:,.10g} messages per second")
    elif bounded(comparison):
        parts.append(f"the highest rate with p99 within {noted['p99_ms']:g} ms")
    elif "rate" in noted:
        parts.append("all messages at once")
    if seconds is not None and not at_once(comparison):
        parts.append(f"for {seconds:g} s")
    if rounds is not None:
        parts.append("in one round" if rounds == 1 else f"in each of {rounds} rounds")
    if with_kill(comparison):
        parts.append("with a kill in the middle")
    return " ".join(parts)


# -- drawing


def _percentiles(axes: Axes, modes: Sequence[ModeResult], looks: Looks, ink: Ink) -> None:
    most = max((len(mode.latencies) for mode in modes), default=0)
    for mode in modes:
        if mode.latencies:
            xs, ys = curve(mode.latencies)
            axes.plot(xs, ys, label=printable(called(mode)), drawstyle="steps-post", **_line(looks[mode.title], ink))
    ticks = [
        1 / (1 - share / 100) for share in (50, 90, 99, 99.9, 99.99, 99.999) if 1 / (1 - share / 100) <= most * 1.01
    ]
    axes.set_xscale("log")
    axes.set_xlim(1, max(2.0, most))
    axes.set_xticks(ticks, [f"{100 - 100 / tick:.6g}" for tick in ticks])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()
    axes.set_xlabel("percent of the results")
    _latency_axis(axes, ink)


def curve(latencies: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return points of the percentile plot: at x the value that all but one of x results do not exceed; last the
    maximum."""
    ordered = sorted(latencies)
    count = len(ordered)
    steps = min(CURVE_POINTS, count)
    xs = [count ** (step / max(1, steps - 1)) for step in range(steps)]
    return xs, [max(LEAST_MS, ordered[min(count - 1, int(count * (1 - 1 / x) + 1e-9))]) for x in xs]


def _over_time(
    axes: Axes,
    modes: Sequence[ModeResult],
    looks: Looks,
    ink: Ink,
    since: Callable[[ModeResult], float | None],
    bin_s: float | None,
) -> None:
    """Draw latencies over time. `since`: where a row's time begins; None leaves the row out."""
    for mode in modes:
        begin = since(mode)
        if begin is None or not mode.latencies:
            continue
        points = [(at - begin, max(LEAST_MS, ms)) for at, ms in zip(mode.arrivals, mode.latencies, strict=False)]
        if bin_s is not None:
            points = [point for point in points if point[0] >= -BEFORE_KILL_S]
        style = _line(looks[mode.title], ink)
        if len(points) <= FEW:
            style.pop("dashes", None)
            hollow: dict[str, Any] = {"markerfacecolor": "none", "markeredgewidth": 0.9, "markersize": 3.8}
            full: dict[str, Any] = {"markeredgewidth": 0, "markersize": 3.4}
            style |= {
                "linestyle": "none",
                "marker": "o",
                "alpha": 0.85,
                **(hollow if looks[mode.title].dashes else full),
            }
            axes.plot([at for at, _ in points], [ms for _, ms in points], **style)
            continue
        bins = [*binned(points, bin_s)]
        thin: dict[str, Any] = {**style, "linewidth": 0.7, "alpha": 0.6}
        axes.plot([at for at, _, _ in bins], [middle for _, middle, _ in bins], **style)
        axes.plot([at for at, _, _ in bins], [most for _, _, most in bins], **thin)
    _latency_axis(axes, ink)


def binned(points: Sequence[tuple[float, float]], bin_s: float | None) -> Iterator[tuple[float, float, float]]:
    """Yield the middle, the median and the maximum of each part of the time with results. Without `bin_s`: BINS
    parts."""
    first, last = min(at for at, _ in points), max(at for at, _ in points)
    width = bin_s or max(last - first, 1e-6) / BINS
    within: dict[int, list[float]] = {}
    for at, ms in points:
        within.setdefault(math.floor((at - first) / width), []).append(ms)
    for place, found in sorted(within.items()):
        yield first + (place + 0.5) * width, percentile(sorted(found), 50), max(found)


def _bars(
    axes: Axes,
    modes: Sequence[ModeResult],
    looks: Looks,
    ink: Ink,
    value: Callable[[ModeResult], float | None],
    unit: str,
) -> None:
    values = [value(mode) for mode in modes]
    most = max((mode for mode in values if mode is not None), default=0.0) or 1.0
    for place, (mode, number) in enumerate(zip(modes, values, strict=True)):
        look = looks[mode.title]
        said = "not measured" if number is None else f"{short(number) if number >= 9.95 else f'{number:.2g}'}{unit}"
        axes.barh(
            place + 0.16,
            number or 0.0,
            height=0.4,
            color=ink.series[look.colour],
            alpha=0.55 if look.dashes else 1.0,
            linewidth=0,
        )
        axes.text(0, place - 0.12, printable(mode.title), va="bottom", color=ink.text, fontsize=9.5)
        axes.annotate(
            said,
            (number or 0.0, place + 0.16),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            color=ink.text,
            fontsize=9.5,
        )
    axes.set_xlim(0, most * 1.25)
    axes.set_ylim(len(modes) - 0.4, -0.6)
    axes.set_axis_off()


def _line(look: PlotStyle, ink: Ink) -> dict[str, Any]:
    style: dict[str, Any] = {"color": ink.series[look.colour], "solid_joinstyle": "round"}
    return style | ({"dashes": look.dashes} if look.dashes else {})


def _latency_axis(axes: Axes, ink: Ink) -> None:
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    decades = math.log10(high / low) if low > 0 else 1.0
    subs = (1.0,) if decades > 3.5 else (1.0, 3.0) if decades > 2 else (1.0, 2.0, 5.0)
    axes.yaxis.set_major_locator(LogLocator(subs=subs))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda ms, _: tick(ms)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.minorticks_off()
    axes.grid(True, color=ink.faint, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(colors=ink.text, length=2.5)
    axes.xaxis.label.set_color(ink.text)
    for spine in axes.spines.values():
        spine.set_color(ink.faint)


def tick(ms: float) -> str:
    """Return a round latency with its unit."""
    return f"{ms * 1000:g} µs" if ms < 1 else f"{ms:g} ms" if ms < 1000 else f"{ms / 1000:,.10g} s"


# -- from a figure to text


@contextmanager
def _plain() -> Iterator[None]:
    """Draw without the user's own settings of matplotlib, and without warnings of letters that its font lacks."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matplotlib.rcdefaults()
        settings: Any = matplotlib.rcParams  # its types know only this release's names
        settings.update(SETTINGS)
        yield


def _svg(name: str, draw: Callable[[Axes], None], label: str, height_in: float = HEIGHT_IN) -> str:
    with _plain():
        figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.subplots())
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    return _inline(written.getvalue(), name, label)


def _inline(text: str, name: str, label: str) -> str:
    """Return an SVG as a part of a page: it fits its place, takes the page's colours and fonts, and its ids are
    unique."""
    text = re.sub(
        r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", text[text.index("<svg") :], flags=re.S
    )
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'href="#', f'href="#{name}-', text).replace("url(#", f"url(#{name}-")
    text = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", text)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, variable)
    head = f'<svg role="img" aria-label="{label}" viewBox='
    return re.sub(r"<svg [^>]*?viewBox=(\"[^\"]*\")[^>]*>", lambda found: f"{head}{found[1]}>", text, count=1).strip()

"""The report of a comparison: one self-contained HTML file, and a PNG for READMEs.

Shows what the table shows, and plots, conditions and the command that repeats it. Knows files; must not know terminals.
"""

import html
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bridge.compare.report import plots
from bridge.compare.report.plots import SERIES
from bridge.compare.report.table import (
    at_once,
    called,
    exactness,
    measured,
    megabytes,
    milliseconds,
    name_of,
    remarks_of,
    sentences,
)
from bridge.compare.results import JVM_ONLY, Comparison, ModeResult, percentiles
from topology.cli.output.numbers import NONE, duration, rate
from topology.filesystem.safe_files import write_anew
from topology.text import printable

_LIGHT: Final = "".join(f"--series-{number}:{light};" for number, (light, _) in enumerate(SERIES))
_DARK: Final = "".join(f"--series-{number}:{dark};" for number, (_, dark) in enumerate(SERIES))
STYLE: Final = (
    ":root{color-scheme:light dark;--page:#fff;--card:#f6f7f8;--text:#1c1c1c;--soft:#5b6066;--faint:#d5d8dc;"
    f"--bad:#b3261e;{_LIGHT}}}"
    "@media (prefers-color-scheme:dark){:root{--page:#15171a;--card:#1e2126;--text:#e8e9ea;--soft:#a3a9b0;"
    f"--faint:#3b4047;--bad:#ff8a80;{_DARK}}}}}"
    """
*{box-sizing:border-box}
body{margin:0 auto;max-width:72rem;padding:1.2rem;background:var(--page);color:var(--text);
 font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif}
h1{font-size:1.5rem;line-height:1.25;margin:.2rem 0}
h2{font-size:1.15rem;margin:2rem 0 .5rem}
p,li{max-width:44rem}
.lead{font-size:1.1rem}
.soft,figcaption{color:var(--soft);font-size:.9rem}
.bad{color:var(--bad)}
th .soft{font-weight:400}
.wide{overflow-x:auto;border:1px solid var(--faint);border-radius:.5rem}
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.4rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--faint)}
tr:last-child>*,tr.more>td{border-bottom:0}
.remark td{padding-top:0}
.said{overflow-wrap:anywhere;position:sticky;left:10rem;max-width:calc(100vw - 12.5rem)}
thead th{color:var(--soft);font-weight:600}
th[scope=row],.text{text-align:left}
.text{white-space:normal;min-width:9rem}
th[scope=row]{vertical-align:top;position:sticky;left:0;background:var(--page);font-weight:600;white-space:normal;min-width:8.5rem}
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,27rem),1fr));gap:1rem}
figure{margin:0;padding:.8rem;background:var(--card);border-radius:.5rem;min-width:0}
figure h3{margin:0 0 .3rem;font-size:1rem}
svg{display:block;width:100%;height:auto}
svg *{stroke-linejoin:round}
ul.key{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1rem;margin:.4rem 0 0;padding:0;font-size:.85rem}
ul.key li{display:flex;align-items:baseline;gap:.4rem}
ul.key svg{flex:none;width:1.8rem;height:.7rem}
figcaption{margin-top:.5rem}
pre{white-space:pre-wrap;overflow-wrap:anywhere;padding:.8rem;background:var(--card);border-radius:.5rem;font-size:.85rem}
dl{display:grid;grid-template-columns:fit-content(50%) minmax(0,1fr);gap:.15rem 1rem;margin:.3rem 0;
 font-size:.9rem}
dt{color:var(--soft);overflow-wrap:anywhere}
dd{margin:0;overflow-wrap:anywhere}
details{margin:.4rem 0}
summary{cursor:pointer}
@media (max-width:60rem){table,tbody{display:block}
 thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
 tr{display:grid;grid-template-columns:repeat(auto-fill,minmax(5.2rem,1fr));padding:.5rem .6rem;
  border-bottom:1px solid var(--faint)}
 tr.more,tbody tr:last-child{border-bottom:0}
 th[scope=row],td{display:block;padding:.1rem 0;border:0;min-width:0;text-align:left}
 th[scope=row],td.text{position:static}
 th[scope=row],.remark td,td.bad{grid-column:1/-1}
 td.text[data-of]{grid-column:span 2}
 td[data-of]::before{content:attr(data-of);display:block;color:var(--soft);font-size:.8rem}
 .remark{padding-top:0}
 .said{position:static;max-width:none}}
@media (max-width:34rem){body{padding:.8rem;font-size:15px}}
@media print{figure{break-inside:avoid}details{display:block}}
"""
)
# The page may load nothing. Its plots are in it, and there are no scripts.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(title: str, body: str) -> str:
    """Return a whole document. `body` is HTML; `title` is text."""
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{html.escape(printable(title))}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


LATENCIES: Final = {"p50": "p50", "p90": "p90", "p99": "p99", "p99.9": "p999", "max": "max"}
FIGURES: Final = (*LATENCIES, "messages/s", "CPU s/M", "memory", "start", "results")
KILLED: Final = ("gap", "recovered", "replayed", "repeated", "missing", "exact")
PERCENTILE: Final = re.compile(r"p\d")
WORDS: Final = {  # labels of settings and of the machine, with their units
    "rate": "messages per second",
    "p99_ms": "99th percentile at most (--p99), ms",
    "first_rate": "messages per second, at first (--rate)",
    "seconds": "seconds measured per round",
    "warm_up_s": "seconds of warm-up before",
    "kill": "a kill in the middle",
    "values": "values set (--set)",
    "config": "settings of Kedge's (--config)",
    "spark": "Spark's master (--spark)",
    "spark_conf": "settings of Spark's (--spark-conf)",
    "messages": "messages measured per round",
    "warm_up_messages": "messages of warm-up",
    "memory_mb": "memory, MB",
    "load_before": "load average before",
    "java": "Java",
}
KILL_TOLD: Final = (
    "Gap: the longest time without a result after the kill, minus the longest before it. Recovered: from the kill to "
    "the first result of a message due after it. Replayed: from the kill until the first replay was acked; – if a mode "
    "does not report it. Exact: each result arrived once; in effect: some arrived again, and a sink recognises and "
    "drops them by their identities; by count: the number is right, but some results are of other messages, because "
    "replays arrive in another order; – if a mode did not end."
)
HIDDEN: Final = "Values and Spark's settings are shown by name only: they may be secrets."
HOW: Final = (
    "Messages were read from the topology's own sources before the rounds. Each mode was offered them by the same "
    "schedule: the next message is due whether or not the system keeps up. Latency is the time from when a message "
    "was due to the arrival of its result at the sink, so waiting in a queue counts. Modes took turns, and the warm-up "
    "does not count. A probe replaced the topology's sinks and recorded each arrival: nothing was stored or sent."
)
JVM_NOTE: Final = (
    "Continuous and real-time processing accept no operators in Python. Their rows show the best that Spark can do, "
    "not this topology. They have a source, a filter and a sink in the JVM, and a count by key or a Python filter if "
    "the title says so."
)


def write(path: Path, data: bytes) -> None:
    """Write a whole file in place of the old one. Raises OSError, and then the old file stays."""
    write_anew(path, [data], synced=True)


def as_html(comparison: Comparison, again: str) -> str:
    """Return the whole page. `again` is the command line that repeats the comparison."""
    return page(f"{name_of(comparison)}: modes compared", "\n".join(_parts(comparison, again)))


def _parts(comparison: Comparison, again: str) -> Iterator[str]:
    modes, looks = comparison.modes, plots.looks_of(comparison.modes)
    timed = [mode for mode in modes if mode.latencies]
    yield f"<h1>{_text(name_of(comparison))}: modes compared</h1>"
    yield f'<p class="soft">{_text(_sentence(plots.conditions(comparison)))}</p>'
    first, *others = [*sentences(comparison), ""]
    yield f'<p class="lead">{_text(_sentence(first))}</p>' if first else ""
    yield f"<ul>{''.join(f'<li>{_text(_sentence(mode))}</li>' for mode in others if mode)}</ul>" if others[:-1] else ""
    yield _figures_table(modes)
    if timed:
        yield '<h2>Latency</h2>\n<div class="plots">'
        key = _key(timed, looks)
        yield _figure("By percentile", plots.percentiles_svg(timed, looks), "Both axes are logarithmic.", key)
        if not at_once(comparison):  # all were due at the same time
            yield _figure("Over time", plots.over_time_svg(timed, looks), _over_time_caption(timed, looks), key)
        yield "</div>"
    yield from _kill(modes, looks)
    yield '<h2>Throughput and cost</h2>\n<div class="plots">'
    yield from _bars(modes, looks)
    yield "</div>"
    yield f"<h2>What was measured</h2>\n<p>{_text(HOW)}</p>"
    if any(mode.mode in JVM_ONLY for mode in modes):
        yield f"<p>{_text(JVM_NOTE)}</p>"
    yield "<h2>Settings</h2>"
    yield _pairs(comparison.settings)
    if comparison.settings.get("values") or comparison.settings.get("spark_conf"):
        yield f'<p class="soft">{_text(HIDDEN)}</p>'
    for mode in modes:
        if mode.settings:
            yield f"<details><summary>{_text(mode.title)}</summary>{_pairs(mode.settings)}</details>"
    yield f"<h2>Machine and versions</h2>\n{_pairs({**comparison.machine, **comparison.versions})}"
    yield f"<h2>To repeat it</h2>\n<pre><code>{_text(again)}</code></pre>"


# -- tables


def _figures_table(modes: Sequence[ModeResult]) -> str:
    head = "".join(f'<th scope="col">{title}</th>' for title in FIGURES)
    rows = "".join(_row(mode, len(FIGURES) + 2) for mode in modes)
    return (
        '<div class="wide"><table>\n<thead><tr><th scope="col" class="text">mode</th>'
        f'{head}<th scope="col" class="text">guarantee</th></tr></thead>\n<tbody>{rows}</tbody>\n</table></div>\n'
        '<p class="soft">CPU s/M: processor seconds per million messages, of all processes except the feeder.</p>'
    )


def _row(one: ModeResult, columns: int) -> str:
    """Return a row, and one below it for remarks that its figures do not show."""
    called = f'<br><span class="soft">{_text(one.mode)}</span>' if one.mode != one.title else ""
    remarks = "<br>".join(_text(line) for line in remarks_of(one))
    more = f'<td class="text bad" colspan="{columns - 1}"><div class="said">{remarks}</div></td>'
    if not measured(one):
        return f'<tr><th scope="row">{_text(one.title)}{called}</th>{more}</tr>\n'
    found: Mapping[str, float] = percentiles(one.latencies) or {}
    cells = [
        *(milliseconds(found.get(name)) for name in LATENCIES.values()),
        rate(one.throughput_per_s),
        rate(one.cpu_seconds_per_million),
        megabytes(one.memory_mb),
        duration(one.start_s),
        f"{one.arrived or len(one.latencies):,}",
    ]
    spans, split = (' rowspan="2"', ' class="more"') if remarks else ("", "")
    figures = "".join(_cell(title, cell) for title, cell in zip(FIGURES, cells, strict=True))
    return (
        f'<tr{split}><th scope="row"{spans}>{_text(one.title)}{called}</th>{figures}'
        f"{_cell('guarantee', one.guarantee, 'text')}</tr>\n"
    ) + (f'<tr class="remark">{more}</tr>\n' if remarks else "")


def _cell(title: str, text: str, kind: str = "") -> str:
    """Return a cell with one figure and its column's title, which is shown above it if the page is too narrow for
    columns."""
    which = f' class="{kind}"' if kind else ""
    return f'<td{which} data-of="{title}">{_text(text)}</td>'


def _kill(modes: Sequence[ModeResult], looks: plots.Looks) -> Iterator[str]:
    killed = [(mode, mode.kill) for mode in modes if mode.kill is not None]
    if not killed:
        return
    yield "<h2>A kill in the middle</h2>"
    head = "".join(f'<th scope="col">{title}</th>' for title in KILLED)
    rows = ""
    for mode, kill in killed:
        cells = [milliseconds(ms) for ms in (kill.gap_ms, kill.recovered_ms, kill.replayed_ms)]
        cells += [f"{mode.repeated:,}", f"{mode.missing:,}", exactness(mode)]
        rows += f'<tr><th scope="row">{_text(mode.title)}</th>{_cell("killed", kill.what, "text")}'
        rows += "".join(_cell(title, cell) for title, cell in zip(KILLED, cells, strict=True)) + "</tr>\n"
    yield (
        '<div class="wide"><table>\n<thead><tr><th scope="col" class="text">mode</th>'
        f'<th scope="col" class="text">killed</th>{head}</tr></thead>\n<tbody>{rows}</tbody>\n</table></div>'
    )
    yield f'<p class="soft">{_text(KILL_TOLD)}</p>'
    timed = [mode for mode, _ in killed if mode.latencies]
    if timed:
        plot = plots.kill_svg(timed, looks)
        figure = _figure("Around the kill", plot, _over_time_caption(timed, looks), _key(timed, looks))
        yield f'<div class="plots">{figure}</div>'


# -- plots


def _bars(modes: Sequence[ModeResult], looks: plots.Looks) -> Iterator[str]:
    shown: Sequence[tuple[str, str, Callable[[ModeResult], float | None], str]] = (
        ("throughput", "Messages per second", lambda one: one.throughput_per_s, ""),
        ("cpu", "CPU seconds per million messages", lambda one: one.cpu_seconds_per_million, ""),
        ("memory", "Memory of all processes", lambda one: one.memory_mb, " MB"),
    )
    for name, title, value, unit in shown:
        if any(value(mode) is not None for mode in modes):
            yield _figure(title, plots.bars_svg(name, f"{title}, of each mode", modes, looks, value, unit))


def _figure(title: str, svg: str, caption: str = "", key: str = "") -> str:
    below = f"<figcaption>{_text(caption)}</figcaption>" if caption else ""
    return f"<figure><h3>{_text(title)}</h3>\n{svg}\n{key}{below}</figure>"


def _over_time_caption(modes: Sequence[ModeResult], looks: plots.Looks) -> str:
    rings = " Rings belong to rows with dashes." if any(looks[mode.title].dashes for mode in modes) else ""
    if all(len(mode.latencies) <= plots.FEW for mode in modes):
        return f"Each dot is a result.{rings}"
    return f"Thick: the median of each moment; thin: its slowest result. Dots: single results, where few.{rings}"


def _key(shown: Sequence[ModeResult], looks: plots.Looks) -> str:
    """Return the legend of colours and dashes."""
    entries = ""
    for mode in shown:
        look = looks[mode.title]
        dashes = f' stroke-dasharray="{" ".join(f"{part * 1.7:g}" for part in look.dashes)}"' if look.dashes else ""
        line = f'<line x1="0" y1="4" x2="28" y2="4" stroke="var(--series-{look.colour})" stroke-width="3"{dashes}/>'
        entries += f'<li><svg viewBox="0 0 28 8" aria-hidden="true">{line}</svg><span>{_text(called(mode))}</span></li>'
    return f'<ul class="key">{entries}</ul>'


# -- texts


def _pairs(values: Mapping[str, Any]) -> str:
    entries = "".join(
        f"<dt>{_text(WORDS.get(name, str(name)))}</dt><dd>{_text(_value(entry))}</dd>" for name, entry in values.items()
    )
    return f"<dl>{entries}</dl>"


def _value(value: object) -> str:
    if value is None or value == "" or value == [] or value == {}:
        return NONE
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_value(entry)}" for name, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_value(entry) for entry in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.10g}" if isinstance(value, int | float) else str(value)


def _sentence(text: str) -> str:
    """Return the text with a full stop, and a capital if it begins with a word."""
    if not text:
        return ""
    first = text[0] if PERCENTILE.match(text) else text[0].upper()
    return f"{first}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"


def _text(text: str) -> str:
    return html.escape(printable(text))

"""One section of docs/benchmarks.md for one file of results: its text, tables and drawings. Pure.

A figure is shown as in the file, rounded to its significant digits. A missing figure is a dash, and a mode or peer
without figures shows the reason in its row.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.charts import bars, percentiles
from benchmarks.kept import Kept
from benchmarks.plot import svg

NOTHING: Final = "–"
PERCENTS: Final = {"p50": "p50", "p90": "p90", "p99": "p99", "p999": "p99.9", "max": "highest"}
OURS: Final = ("kedge", "record", "embedded")  # rows of Kedge have names that begin so
TITLES: Final = {
    "latency": "How soon an alert comes",
    "throughput": "How many messages a second",
    "state": "What keeping state costs",
    "recovery": "What the kill of a worker costs",
    "bridge": "The way to Spark and back",
    "fraud": "Card fraud at the rate of a payment network",
    "connectors": "Sources and sinks on servers",
}
ABOUT: Final = {
    "connectors": """\
`bare` is plain code of the client with the same messages, and `ratio` our share of it. Bar: 0.6. The messages have 100
bytes of JSON. A source reads, decodes and processes them, with a state directory; a sink sends them until the last is
acked. CPU is that of our process, in microseconds a message; the server's own is not in it. Over HTTP, each request has
one message. Kafka's brokers are librdkafka's own mock brokers, which keep nothing on a disk.""",
    "state": """\
The last word of a row's name is how it is kept: `none` has no state directory, the others are the kinds of
`Config.durability`. A bar is judged on figures of the same run; a share is of the row with `none`.

- `wordcount-file-…` and `alerts-file-…` are the work of [the peers](#kedge-and-its-peers), from a file into a file in
  one process, from the making of the run to its end. Bars of word count: `checkpoint` 0.8 of `none`, and `disk` 0.35;
  of alerts: 250,000 and 180,000 lines per second.
- `state-…` count 5,000 keys in one task, of which each input has one. Bar: 120,000 with `disk`.
- `alert-2w-…` are alerts on two workers, at 1,000 and 10,000 lines per second. Bars: with `checkpoint`, a p50 of at
  most 1.1 times that of `none`; with `disk`, a p50 of 0.75 ms and 1.5 ms at the two rates, and a p99 of 4 ms.
- `state-disk-latency` is the way of one count to the next bolt, at 1,000 per second. Bar: two fsyncs and 1 ms.
- `checkpoint-hold` is the longest time for which a checkpoint of 10,000 changed keys, of a million, held the loop. Bar:
  below 5 ms.
- `state-restart` is a start with a million keys, up to the first count. Bar: 3 s.
- `recovery` is the time from the SIGKILL of one of two workers to the ack of the first replayed message that needed it,
  with `durability="checkpoint"`. Bar: below 0.5 s.
- `…-sink` are rows that a sink stores by itself, and `…-run` those of a topology with that sink. Bars: 400,000 into
  JSON Lines, and 60,000 into SQLite and PostgreSQL.""",
}
UNMEASURED: Final = "A row with a dash is not measured yet."
WORKLOADS: Final = {"identity": "Identity", "word_count": "Word count", "ssh_alerts": "SSH alerts"}

OF_MODES: Final = "What each mode sets"
TRIGGERS: Final = ("--trigger", "trigger")  # names of a setting in which modes differ that are alike otherwise

Cells = Sequence[str]


@dataclass
class Section:
    """A heading and paragraphs; `{}` in a paragraph stands for the place of the drawing of that name."""

    heading: str
    paragraphs: list[str] = field(default_factory=list)
    drawings: dict[str, str] = field(default_factory=dict)  # name → SVG

    def draw(self, name: str, words: str, drawn: str) -> None:
        """A drawing, with the words for those who can't see it."""
        self.drawings[name] = drawn
        self.paragraphs.append(f"![{words}](\0{name}.svg)")

    def text(self, images: str) -> str:
        """Return Markdown; `images` is the prefix of the drawings' names."""
        return "\n\n".join([f"## {self.heading}", *self.paragraphs]).replace("\0", images) + "\n"


# -- kedge compare


def of_comparison(kept: Kept) -> Section:
    """Return a comparison of modes: latency, throughput, CPU, memory, guarantee; and the effects of a kill."""
    found = kept.found
    settings, modes = found.get("settings", {}), found["modes"]
    rate = settings.get("rate", "?")
    section = Section(_heading(found))
    at_a_rate = rate != "max"
    since = (
        "the time for which a message was scheduled"
        if at_a_rate
        else "when all were due, at once: how long each waited"
    )
    section.paragraphs += [_about(found), f"Latency is from {since}, in ms."]
    rows = [
        (_titled(mode), *(_ms((mode.get("latency_ms") or {}).get(key)) for key in PERCENTS), _problem(mode))
        for mode in modes
    ]
    section.paragraphs.append(table(("mode", *PERCENTS.values(), ""), rows))
    _draw_modes(section, kept.stem, section.heading.replace("`", ""), modes, at_a_rate)
    section.paragraphs.append(
        table(("mode", "messages/s", "CPU s/M", "MB", "start s", "exact", "guarantee"), _costs(modes))
    )
    if any(mode.get("kill") for mode in modes):
        section.paragraphs.append(_kills(modes))
    section.paragraphs += [f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in found.get("notes", [])]
    if any(mode.get("settings") for mode in modes):
        section.paragraphs.append(f"What each mode sets is listed [below](#{OF_MODES.lower().replace(' ', '-')}).")
    if found.get("interrupted"):
        section.paragraphs.append("The comparison was interrupted: the figures are of the part measured before.")
    section.paragraphs.append(f"Settings: {_settings(settings)}. Again: {_command_of(found)}.")
    return section


def _heading(found: Mapping[str, Any]) -> str:
    settings = found.get("settings", {})
    config = "".join(f", `{entry}`" for entry in settings.get("config", ()))
    killed = ", with a kill" if settings.get("kill") else ""
    return f"`{found['topology']}`, {_rate(settings.get('rate', '?'))}{config}{killed}"


def of_modes(comparisons: Sequence[Kept]) -> Section | None:
    """Return the settings of the modes of all comparisons, each once: modes that differ in their trigger alone share an
    item. None if no mode sets anything."""
    shared: dict[str, list[str]] = {}  # settings but for the trigger → modes, each with its trigger
    for (title, settings), headings in _settings_of_modes(comparisons).items():
        given = dict(settings)
        trigger = next((f"`{key}` {given.pop(key)}" for key in TRIGGERS if key in given), "")
        where = f" in {' and '.join(headings)}" if headings else ""
        also = f" ({trigger})" if trigger and given else ""
        text = _settings(given) or trigger
        shared.setdefault(text, []).append(f"**{title}**{also}{where}")
    if not shared:
        return None
    return Section(OF_MODES, ["\n".join(f"- {', '.join(modes)}: {text}" for text, modes in shared.items())])


def _settings_of_modes(comparisons: Sequence[Kept]) -> dict[tuple[str, tuple[tuple[str, str], ...]], list[str]]:
    """Title and settings of each mode → the comparisons that have them so, if others have the title otherwise."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
    for kept in comparisons:
        for mode in kept.found["modes"]:
            if settings := mode.get("settings"):
                found.setdefault((_titled(mode), tuple(settings.items())), []).append(_heading(kept.found))
    titles = Counter(title for title, _ in found)
    return {one: headings if titles[one[0]] > 1 else [] for one, headings in found.items()}


def _draw_modes(section: Section, name: str, what: str, modes: Sequence[Mapping[str, Any]], at_a_rate: bool) -> None:
    """Draw latencies if messages came at a rate; else messages per second, as all of them waited."""
    if at_a_rate:
        timed = [
            (_titled(mode), [mode["latency_ms"][key] for key in PERCENTS], _is_ours(mode["mode"]))
            for mode in modes
            if mode.get("latency_ms")
        ]
        if timed:
            drawn = percentiles(f"{what}: from the scheduled time to the sink", timed)
            section.draw(name, f"Latency of each mode, {what}, on a logarithmic axis", drawn)
        return
    rates = [
        (_titled(mode), mode["throughput_per_s"], "", _is_ours(mode["mode"]))
        for mode in modes
        if mode.get("throughput_per_s")
    ]
    if rates:
        section.draw(name, f"Messages a second of each mode, {what}", bars(what, "messages/s", rates))


def _costs(modes: Sequence[Mapping[str, Any]]) -> list[Cells]:
    return [
        (
            _titled(mode),
            number(mode.get("throughput_per_s")),
            number(mode.get("cpu_seconds_per_million")),
            number(mode.get("memory_mb")),
            number(mode.get("start_s")),
            _exact(mode),
            str(mode.get("guarantee") or NOTHING),
        )
        for mode in modes
    ]


def _exact(mode: Mapping[str, Any]) -> str:
    """Return if each result came once, or would have come once to a deduplicating sink."""
    if mode.get("exact"):
        return "yes"
    if mode.get("exact_in_effect"):
        return f"yes, once {mode['repeated']:,} repeats are dropped"
    parts = [f"{mode[key]:,} {key}" for key in ("missing", "extra", "repeated") if mode.get(key)]
    return f"no: {', '.join(parts)}" if parts else NOTHING


def _kills(modes: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            _titled(mode),
            str(kill["what"]),
            *(_ms(kill.get(key)) for key in ("gap_ms", "recovered_ms", "replayed_ms")),
            number(mode.get("repeated")),
            _exact(mode),
        )
        for mode in modes
        if (kill := mode.get("kill"))
    ]
    heading = ("mode", "killed", "gap ms", "recovered after ms", "first replay acked after ms", "repeated", "exact")
    return f"With a SIGKILL in the middle:\n\n{table(heading, rows)}"


def _titled(mode: Mapping[str, Any]) -> str:
    return str(mode.get("title") or mode["mode"])


def _problem(mode: Mapping[str, Any]) -> str:
    remarks = str(mode.get("problem") or "")
    if mode.get("feeder_limited"):
        remarks = f"{remarks}; " * bool(remarks) + "the feeder was the limit"
    elif mode.get("late_in_tail"):  # older results do not have this
        late = "the feeder was late by more than half of p99: the slowest results are not due to the mode alone"
        remarks = f"{remarks}; " * bool(remarks) + late
    return remarks


def _rate(rate: object) -> str:
    if isinstance(rate, int | float):
        return f"{rate:,.0f}/s"
    return "all messages at once" if rate == "max" else str(rate)


def _command_of(found: Mapping[str, Any]) -> str:
    """Return the command that measures it again; of values that were set, only the names are kept."""
    rate = "first_rate" if "first_rate" in found.get("settings", {}) else "rate"
    options = {rate: "--rate", "seconds": "--for", "warm_up_s": "--warm-up", "rounds": "--rounds"}
    settings = found.get("settings", {})
    words = ["kedge compare", str(found["topology"]), *(f"--set {name}=…" for name in settings.get("values", ()))]
    words += [f"--config {entry}" for entry in settings.get("config", ())]
    words.append(f"--modes {','.join(dict.fromkeys(mode['mode'] for mode in found['modes']))}")
    words += [f"{option} {_plain(settings[key])}" for key, option in options.items() if key in settings]
    words += [f"--p99 {settings['p99_ms']:g}ms"] if "p99_ms" in settings else []
    return f"`{' '.join([*words, *['--kill'] * bool(settings.get('kill'))])}`"


# -- make peers


def of_peers(kept: Kept) -> Section:
    """Return a table and a drawing per workload, and each peer's guarantee."""
    found = kept.found
    section = Section("Kedge and its peers", [_about(found)])
    section.paragraphs.append(
        "Each peer reads the same file to its end, and writes the same rows as JSON Lines, which were compared with "
        f"Kedge's. A rate is of the lines alone: {_start_up(found['results'])}. CPU is in seconds a million "
        "lines, of all processes; memory is that of the largest one. The scripts are in `benchmarks/peers`, each as "
        "somebody would write it who uses that peer."
    )
    if found.get("interrupted"):
        section.paragraphs.append(f"Not all was measured: {found['interrupted']}.")
    for workload, about in found["workloads"].items():
        rows = [entry for entry in found["results"] if entry["workload"] == workload]
        section.paragraphs += _workload(kept.stem, workload, about, rows, found["settings"], section)
    section.paragraphs.append(_promises(found["results"]))
    section.paragraphs.append(_left_out(found.get("left_out", {})))
    section.paragraphs.append(
        f"Lines of SSH alerts: {found['settings']['log']}. Medians of {found['settings']['rounds']} interleaved "
        "rounds. Again: `make peers`."
    )
    return section


def _start_up(results: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence about the start-up that is subtracted."""
    if all("starts" in entry for entry in results):
        return "the least start-up of all rounds is taken off each, and shown separately"
    return (
        "each round's own start-up is taken off, and its median is shown separately; plain pyzmq's took up to 0.2 s "
        "longer by chance, in runs of less than a second, so that its rates are uncertain by as much"
    )


def _workload(
    stem: str, name: str, about: str, rows: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], section: Section
) -> Iterator[str]:
    title = WORKLOADS.get(name, name)
    lines = f"{settings['lines'][name]:,} lines"
    yield f"### {title}\n\n{about[:1].upper()}{about[1:]}: {lines}."
    heading = ("", "lines/s", "× asyncio", "CPU s/M", "start-up s", "MB", "guarantee", "")
    keys = ("value", "ratio", "cpu_seconds_per_million", "start_s", "memory_mb")
    yield table(
        heading,
        [
            (entry["title"], *(number(entry.get(key)) for key in keys), entry["guarantee"], entry.get("problem") or "")
            for entry in rows
        ],
    )
    drawn = [
        (entry["title"], entry["value"], entry["guarantee"], _is_ours(entry["peer"]))
        for entry in rows
        if entry.get("value")
    ]
    if drawn:
        words = f"{title}: lines a second of each peer"
        section.drawings[f"{stem}-{name}"] = bars(title, "lines/s", drawn)
        yield f"![{words}](\0{stem}-{name}.svg)"


def _promises(results: Sequence[Mapping[str, Any]]) -> str:
    modes = dict.fromkeys((entry["title"], entry["guarantee"], entry["means"]) for entry in results)
    lines = [f"- **{title}**, {guarantee}: {means}." for title, guarantee, means in modes]
    return "### What each promises\n\n" + "\n".join(lines)


def _left_out(reasons: Mapping[str, str]) -> str:
    return "Not measured: " + "; ".join(f"{name}, which {reason}" for name, reason in reasons.items()) + "."


# -- any other benchmark


def of_benchmark(kept: Kept) -> Section:
    """Return all figures by name; each kind of further figure has a column."""
    found = kept.found
    section = Section(TITLES.get(kept.kind, kept.kind.capitalize()), [_about(found)])
    section.paragraphs += [ABOUT[kept.kind]] if kept.kind in ABOUT else []
    results = found["results"]
    often = Counter(key for entry in results for key in _more(entry))
    columns = [key for key, times in often.items() if 2 * times >= len(results)]  # other columns would be mostly dashes
    rows = [
        (
            f"`{entry['name']}`",
            number(entry.get("value")),
            str(entry.get("unit", "")),
            *(number(entry.get(key)) for key in columns),
            ", ".join(f"{_words(key)} {number(entry[key])}" for key in _more(entry) if key not in columns),
            str(entry.get("bar", "")),
        )
        for entry in results
    ]
    also, bar = (word if any(row[place] for row in rows) else "" for word, place in (("also", -2), ("bar", -1)))
    section.paragraphs.append(table(("", "value", "unit", *map(_words, columns), also, bar), rows))
    section.paragraphs += [UNMEASURED] if any(entry.get("value") is None for entry in results) else []
    for entry in results:
        if cases := entry.get("cases"):
            section.paragraphs.append(_cases(entry["name"], cases))
            _draw_cases(section, kept, cases)
    section.paragraphs.append(
        f"Again: `.venv/bin/python -m benchmarks.{kept.kind}`, whose docstring explains each figure."
    )
    return section


def _more(one: Mapping[str, Any]) -> list[str]:
    """Return the figures that a result has beside its value."""
    return [
        key for key, value in one.items() if key not in ("name", "value", "unit") and isinstance(value, int | float)
    ]


def _words(key: str) -> str:
    return PERCENTS.get(key, key.replace("_", " "))


def _draw_cases(section: Section, kept: Kept, cases: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw one panel for each case that has latencies around a kill."""
    panels = [
        (f"{name}: {number(one.get('rate'))} records/s", one["drawn"]) for name, one in cases.items() if "drawn" in one
    ]
    if panels:
        section.draw(kept.stem, f"{section.heading}: latency around it", svg(section.heading, "the kill", panels))


def _cases(name: str, cases: Mapping[str, Mapping[str, Any]]) -> str:
    keys = dict.fromkeys(
        key for case in cases.values() for key, value in case.items() if isinstance(value, int | float)
    )
    rows = [(f"`{case}`", *(number(found.get(key)) for key in keys)) for case, found in cases.items()]
    return f"`{name}`, case by case:\n\n{table(('', *map(_words, keys)), rows)}"


# -- shared parts


def _about(found: Mapping[str, Any]) -> str:
    """Return the machine of the measurement, and the versions."""
    machine = found.get("machine", {})
    facts = [
        str(machine.get("cpu") or machine.get("processor") or ""),
        f"{machine['cores']} cores" if machine.get("cores") else "",
    ]
    facts.append(str(machine.get("system", "")))
    if machine.get("load_before") is not None:
        busy = ", when the machine was not quiet" if machine.get("quiet_before") is False else ""
        facts.append(f"load {machine['load_before']:g} before{busy}")
    elif machine.get("load"):
        facts.append(f"load {machine['load'][0]:g} at the end")
    versions = ", ".join(f"{name} {entry}" for name, entry in found.get("versions", {}).items())
    return f"On {', '.join(entry for entry in facts if entry)}; {versions}."


def _settings(settings: Mapping[str, Any]) -> str:
    given = {key: value for key, value in settings.items() if value not in ("", None, [], False)}
    return ", ".join(f"`{key}` {_plain(value)}" for key, value in given.items())


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _is_ours(name: str) -> bool:
    return name.startswith(OURS)


def _ms(value: float | None) -> str:
    return NOTHING if value is None else number(value)


def number(value: float | None) -> str:
    """Return three significant digits, or all digits before the point."""
    if value is None:
        return NOTHING
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3}f}"


def table(heading: Cells, rows: Sequence[Cells]) -> str:
    """Return Markdown; columns that are empty in all rows are left out."""
    used = [place for place, name in enumerate(heading) if name or place == 0 or any(row[place] for row in rows)]
    lines = [[heading[place] for place in used], ["---"] * len(used)]
    lines += [[row[place].replace("|", "\\|").replace("\n", " ") for place in used] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)

"""`Print`: one line a record, nothing in it that a terminal obeys (S11), no complaint when the reader leaves (F55)."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sink_kit import Alert, Sample

from bolts import Print
from topology.records import Record
from topology.text import LINE_MAX, printable

ROOT = Path(__file__).parents[2]


def test_each_record_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    bolt = Print()
    bolt.process(Alert("192.0.2.1", 5))
    bolt.process(Sample("a\nb", 1.5))
    assert capsys.readouterr().out == (
        "Alert(source_ip='192.0.2.1', failures=5, at=None)\nSample(name='a\\nb', value=1.5)\n"
    )


def test_a_records_own_str_is_used_and_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    class Page(Record):
        text: str

        def __str__(self) -> str:
            return f"page: {self.text}"

    Print().process(Page("\x1b]0;pwn\x07 [red]größe\r\n2026-01-01 INFO fake \u202e\ud800"))
    assert capsys.readouterr().out == ("page: \\x1b]0;pwn\\x07 [red]größe\\r\\n2026-01-01 INFO fake \\u202e\\ud800\n")


@given(st.text())
def test_s11_whatever_a_text_holds_it_is_printed_as_one_printable_line(text: str) -> None:
    assert printable(text).isprintable()


def test_s11_a_giant_value_is_cut_and_says_so() -> None:
    assert printable("x" * (LINE_MAX + 5)) == "x" * LINE_MAX + "… (5 more characters)"


def test_what_stdouts_encoding_lacks_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    Print().process(Sample("größe", 1.0))
    assert raw.getvalue() == b"Sample(name='gr\\xf6\\xdfe', value=1.0)\n"


PRINT_MANY = """
from bolts import Print
from topology.records import Record
class Alert(Record):
    number: int
bolt = Print()
for number in range(100_000):
    bolt.process(Alert(number))
import sys
print("processed all", file=sys.stderr)
"""


def test_f55_when_the_reader_leaves_it_goes_on_without_a_word() -> None:
    printing = subprocess.Popen(
        [sys.executable, "-c", PRINT_MANY], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert printing.stdout is not None
    assert printing.stderr is not None
    assert printing.stdout.readline() == "Alert(number=0)\n"
    printing.stdout.close()
    assert printing.stderr.read() == "processed all\n"
    printing.stderr.close()
    assert printing.wait(30) == 0


def test_f55_a_closed_stdout_is_no_error() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" >&-', sys.executable, PRINT_MANY],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.stderr == "processed all\n"
    assert done.returncode == 0


def test_a_full_disk_under_stdout_fails_the_record() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    code = "\n".join(
        [
            "from bolts import Print",
            "from topology.records import Record",
            "import sys, os",
            "try:",
            "    Print().process(Record())",
            "except OSError as error:",
            "    print(error.strerror, file=sys.stderr, flush=True)",
            "    os._exit(0)",
        ]
    )
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.stderr == "No space left on device\n"

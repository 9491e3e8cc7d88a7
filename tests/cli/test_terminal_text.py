"""What people read is text, whatever data hold (S11)."""

import pytest

from topology.cli.output.terminal import block
from topology.text import LINE_MAX, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("größe 漢字", "größe 漢字"),
        ("\x1b]0;pwn\x07", "\\x1b]0;pwn\\x07"),
        ("a\r\nb", "a\\r\\nb"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\ud800", "\\ud800"),
        ("[red]x[/red]", "[red]x[/red]"),
        ("x" * (LINE_MAX + 3), "x" * LINE_MAX + "… (3 more characters)"),
    ],
)
def test_control_characters_are_escaped_and_long_lines_cut(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_line_in_a_text_can_not_pass_for_an_entry_of_its_own() -> None:
    assert block("it failed: \n12:00:00 [info] all is well") == "it failed: \n    12:00:00 [info] all is well"

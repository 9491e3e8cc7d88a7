"""Settings with which Sphinx builds these pages: `make docs`, without network. The reference comes from the code: no
second truth.

Docstrings are written as plain text with single backticks; `reference.py`, beside this file, makes of them what Sphinx
reads. `captions.py` shows names of files, `repository_files.py` makes pages of linked files, and `inline_svg.py` has
pictures follow the theme. Must not hold words that a reader sees, beyond the title.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
os.environ["KEDGE_CORE"] = "python"  # a compiled class does not have the types of its attributes

from topology.version import version as kedge_version  # noqa: E402 - found on the path above

project = "Kedge"
author = "the authors of Kedge"
project_copyright = "the authors of Kedge; Apache-2.0"
version = release = kedge_version()

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "reference",
    "captions",
    "repository_files",
    "inline_svg",
]
exclude_patterns = ["_build", "README.md"]
nitpicky = True
# What annotations name and no page describes: type variables, the standard library, and parts that are not public.
nitpick_ignore_regex = [
    (
        "py:.*",
        r"(collections|contextlib|datetime|decimal|pathlib|random|typing|typing_extensions|asyncio|os|enum|types)\..*",
    ),
    ("py:.*", r"(int|str|float|bool|bytes|object|type|tuple|list|dict|frozenset|None|optional|BaseException)"),
    ("py:.*", r"(AssertionError|Exception|ValueError)"),
    ("py:.*", r"(.*\.)?(RC?|A|B|C|S|T|IN|Out|During|MessageId|Outputs|Runs|Records|Polls|Place)"),
    ("py:.*", r"(msgspec|acker|topology\.(runtime|core\.source|subscriptions|signatures))\..*"),
    (
        "py:.*",
        r"topology\.components\.(Runs|Records|Polls|Processes|KeepsState|Executes|Clock|Component|Outputs|MessageId|MakesFolder)",
    ),
    ("py:.*", r"bolts\.alerts\.channel\.Sending"),  # the options of channels, which each of them names
    ("py:.*", r"topology\.clients\.registry\.(values|bodies)\..*"),  # what `SchemaRegistry` makes for others
    ("py:.*", r"topology\.testing\..*\.(During|START|LIMIT_S|Faults)"),
]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # pages that include a file of the repository begin with a deeper heading

default_role = "code"
smartquotes = False  # a quote in a docstring is one of code, most of the time
# Of the extras' packages only those that are here are imported: signatures and docstrings need none of them.
autodoc_mock_imports = [
    name for name in ("numpy", "pandas", "psycopg", "pyarrow", "pyspark") if find_spec(name) is None
]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
add_module_names = False
python_use_unqualified_type_names = True
maximum_signature_line_length = 88

# What is typed has a button that copies it; what a program prints, and a command's help, has none.
copybutton_selector = ":not(.highlight-output):not(.highlight-text) > div.highlight > pre"

html_theme = "furo"
html_title = "Kedge"
html_static_path = ["_static"]
html_css_files = ["kedge.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5c7a", "color-brand-content": "#0b5c7a"},
    "dark_css_variables": {"color-brand-primary": "#7cc4e0", "color-brand-content": "#7cc4e0"},
}

"""How the report's page looks, in the light and in the dark, on a wide screen, on a phone and on paper.

A style sheet and the frame around what the report says; knows nothing of what that is. Loads nothing from anywhere.
"""

import html
from typing import Final

from bridge.compare.plots import SERIES
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
# What the page may load: nothing. Its plots are in it, and there are no scripts.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(title: str, body: str) -> str:
    """A whole document. `body` is HTML; `title` is text."""
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{html.escape(printable(title))}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )

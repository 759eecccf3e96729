"""The style sheet of reports: light or dark as the system prefers, from 390 pixels wide, and for print."""

STYLE = """
:root { --text: #1c2330; --soft: #5c6675; --line: #dfe3ea; --head: #f3f5f8; --ground: #ffffff; --accent: #245a9c; --yes: #1a7a3f; --no: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e3e7ee; --soft: #9aa5b5; --line: #333c4a; --head: #1f2733; --ground: #141a22; --accent: #8ab8f0; --yes: #62c98a; --no: #f2897f; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 1.5rem 1rem 4rem; background: var(--ground); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
header { border-bottom: 2px solid var(--accent); padding-bottom: .8rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .6rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; } h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: 0; font-size: .85rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin: .8rem 0; } .wide:focus-visible { outline: 2px solid var(--accent); }
table { border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; vertical-align: top; }
th { background: var(--head); font-weight: 600; }
th:first-child, td:first-child, .text th, .text td { text-align: left; }
.wrap td { white-space: normal; overflow-wrap: anywhere; min-width: 5rem; } .wrap td:first-child, .wrap .number { white-space: nowrap; min-width: 0; }
.wrap ul { margin: 0; padding-left: 1.1rem; }
small { color: var(--soft); } .yes { color: var(--yes); } .no { color: var(--no); }
img, svg { display: block; max-width: 100%; height: auto; margin: .8rem 0; background: #fff; border-radius: 6px; }
pre { background: var(--head); padding: .8rem; overflow-x: auto; border-radius: 6px; font-size: .82rem; } code { font-size: .95em; }
p { overflow-wrap: anywhere; } a { color: var(--accent); }
summary { cursor: pointer; color: var(--accent); }
@media print { body { max-width: none; } .wide { overflow: visible; } }
"""

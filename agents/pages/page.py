"""A report as one self-contained HTML file; its content security policy forbids the browser to fetch anything."""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from serl.agents.pages.errors import ReportFileError
from serl.agents.pages.origin import Origin
from serl.agents.pages.style import STYLE
from serl.exchange.atomic_file import atomic_file, require_other_file

NUMBER = re.compile(r"[-+\d.,]{1,20}%?")
"""Cells that are not broken where long texts are."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(title: str, origin: Origin, parts: Sequence[str]) -> str:
    """The complete HTML file; `parts` are HTML."""
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title><style>{STYLE}</style>'
    )
    main = "\n".join(parts)
    body = f"<header><h1>{escape(title)}</h1>\n{_origin_list(origin)}</header>\n<main>\n{main}\n</main>"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def _origin_list(origin: Origin) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in origin.versions.items())
    rows = {"command": f"<code>{escape(origin.command)}</code>", "data": escape(origin.data)}
    rows |= {"seed": "none" if origin.seed is None else str(origin.seed), "versions": escape(versions)}
    rows["made"] = escape(origin.date)
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in rows.items()) + "</dl>"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, text: bool = False, wrap: bool = False) -> str:
    """A table of HTML cells. Columns after the first are aligned right, for numbers, or left if they are `text`; `wrap` is for long text.

    On a narrow screen the table scrolls instead of the page, also by keyboard.
    """
    if not rows:
        return "<p>None.</p>"
    head = "".join(f'<th scope="col">{cell}</th>' for cell in heads)
    body = "".join("<tr>" + "".join(_cell(cell, wrap) for cell in row) + "</tr>" for row in rows)
    kind = ' class="text wrap"' if wrap else ' class="text"' if text else ""
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="table"><table{kind}><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(html: str, wrap: bool) -> str:
    return f'<td class="number">{html}</td>' if wrap and NUMBER.fullmatch(html) else f"<td>{html}</td>"


def cell(value: Any) -> str:
    """A value with three digits if it is a float; empty for None. Not escaped."""
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)


def png(data: bytes, text: str) -> str:
    """An embedded picture; `text` is its alternative text."""
    return f'<img alt="{escape(text)}" src="data:image/png;base64,{base64.b64encode(data).decode()}">'


def check_path(path: Path, *sources: Path | str | None) -> None:
    """Raises what `write` would raise for a path, before the work that a report takes; ConfigError if a file of the report would replace one of the
    sources."""
    if path.suffix == ".json":
        raise ReportFileError(
            f"{path}: expected a name for the HTML, got that of the JSON next to it; give one that ends in .html"
        )
    for written in (path, path.with_suffix(".json"), path.with_suffix(".png")):
        require_other_file(written, *(Path(source) for source in sources if source is not None))


def write(path: Path, html: str, numbers: Mapping[str, Any]) -> tuple[Path, Path]:
    """Writes PATH (HTML) and the same name with .json. Raises ReportFileError if PATH ends in .json or cannot be written, UnwritableFileError if it is no
    file or its folder does not exist."""
    check_path(path)
    json_path = path.with_suffix(".json")
    try:
        with atomic_file(json_path) as file:
            file.write(f"{json.dumps(numbers, indent=1, allow_nan=False)}\n".encode())
        with atomic_file(path) as file:  # a page may be looked at while it is written anew
            file.write(html.encode())
    except OSError as error:
        raise ReportFileError(
            f"{path}: expected a writable file, got {error.strerror}; give a file in a folder that exists"
        ) from None
    return path, json_path


def write_with_picture(path: Path, html: str, numbers: Mapping[str, Any], picture: bytes) -> tuple[Path, Path, Path]:
    """Writes .html, .json and .png of PATH's name, whatever PATH ends in; ReportFileError as in `write`."""
    html_path, json_path = write(path.with_suffix(".html"), html, numbers)
    picture_path = path.with_suffix(".png")
    picture_path.write_bytes(picture)
    return html_path, json_path, picture_path

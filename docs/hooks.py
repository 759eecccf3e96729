"""Hooks of MkDocs: notebooks become pages, with the outputs that are stored in them. Nothing is executed."""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

LINK = re.compile(r"(\]\([^)#\s]*?)\.ipynb(?=[)#])")
"""A link to a notebook in a page; in the repository it leads to the notebook, on the site to its page."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds a page for every notebook and a file for each of its pictures; the notebook itself can be downloaded."""
    for file in [one for one in files if one.src_uri.endswith(".ipynb")]:
        stem = file.src_uri.removesuffix(".ipynb")
        pictures: list[bytes] = []
        text = "\n\n".join(parts(json.loads(file.content_string), stem.rpartition("/")[2], pictures))
        files.append(File.generated(config, f"{stem}.md", content=text))
        for number, picture in enumerate(pictures, 1):
            files.append(File.generated(config, f"{stem}-{number}.png", content=picture))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to notebooks lead to their pages."""
    return LINK.sub(r"\1.md", markdown)


def parts(notebook: dict[str, Any], name: str, pictures: list[bytes]) -> Iterator[str]:
    """The Markdown of a notebook's cells and outputs, and a link to the file; appends its pictures, PNG, to `pictures`."""
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        yield source if cell["cell_type"] == "markdown" else fenced("python", source)
        for output in cell.get("outputs", ()):
            yield shown(output, name, pictures)
    yield f'<p><a href="{name}.ipynb" download>Download this notebook</a></p>'


def shown(output: dict[str, Any], name: str, pictures: list[bytes]) -> str:
    """An output: its picture, else its HTML, else its text."""
    data = output.get("data", {"text/plain": output.get("text", "")})
    if "image/png" in data:
        pictures.append(base64.b64decode("".join(data["image/png"])))
        return f"![Output of the cell above]({name}-{len(pictures)}.png)"
    if "text/html" in data:
        html = re.sub(r"<style.*?</style>", "", "".join(data["text/html"]), flags=re.DOTALL)
        return f'<div class="output">\n{html}\n</div>'
    return fenced("text", "".join(data["text/plain"]))


def fenced(language: str, text: str) -> str:
    """A block of code."""
    return f"```{language}\n{text.strip()}\n```"

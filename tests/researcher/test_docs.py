"""What the docs of the researcher tell people to type works."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize(("page", "printed"), [("sandbox.md", "ok 42\n"), ("modules.md", "True \n")])
def test_pages_run(page: str, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert capsys.readouterr().out == printed

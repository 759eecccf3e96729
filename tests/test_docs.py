"""What the docs tell people to type works."""

import re
from pathlib import Path

from tests.served import start_exchange

DOCS = Path(__file__).parents[1] / "docs"


def test_the_bot_tutorial_runs() -> None:
    code = re.findall(r"```python\n(.*?)```", (DOCS / "tutorials" / "write-a-bot.md").read_text(), re.DOTALL)
    assert code
    with start_exchange(symbols="DEMO") as served:
        for block in code:
            exec(compile(block, "write-a-bot.md", "exec"), {"ENDPOINT": served.endpoint})

"""Answers that edit a text: blocks that name what to search and what to put in its place."""

import re

from serl.researcher.llm.answers import Answer
from serl.researcher.llm.errors import UnusableAnswerError

FORMAT = "<<<<<<< SEARCH\n(lines of the module, exactly)\n=======\n(what replaces them)\n>>>>>>> REPLACE"
_BLOCK = re.compile(r"^<{5,9} SEARCH[ \t]*\n(.*?)^={5,9}[ \t]*\n(.*?)^>{5,9} REPLACE", re.DOTALL | re.MULTILINE)


def has_edits(answer: Answer) -> bool:
    """Whether an answer contains an edit."""
    return _BLOCK.search(answer.text) is not None


def apply_edits(answer: Answer, text: str) -> str:
    """The text after the answer's edits, in order. UnusableAnswerError (`edit`) if one does not apply at exactly one place, or nothing changes."""
    before = text
    for search, replacement in _BLOCK.findall(answer.text):
        count = text.count(search) if search.strip() else 0
        if count != 1:
            raise UnusableAnswerError(
                "edit",
                f"expected the lines of a SEARCH block once in the module, got them {count} times: {search[:200]!r}; copy them exactly",
            )
        text = text.replace(search, replacement)
    if text == before:
        raise UnusableAnswerError(
            "edit", "expected an edit that changes the module, got none; change at least one line"
        )
    return text

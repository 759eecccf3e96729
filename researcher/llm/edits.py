"""Answers that edit a text: blocks with the lines to search for and the lines that replace them."""

import io
import re

from serl.researcher.llm.answers import Answer
from serl.researcher.llm.errors import UnusableAnswerError

FORMAT = "<<<<<<< SEARCH\n(lines of the module, exactly)\n=======\n(what replaces them)\n>>>>>>> REPLACE"
_SEARCH, _MIDDLE = re.compile(r"<{5,9} SEARCH[ \t]*\n"), re.compile(r"={5,9}[ \t]*\n")
_REPLACE = re.compile(r">{5,9} REPLACE")


def has_edits(answer: Answer) -> bool:
    """Whether an answer contains an edit."""
    return bool(_blocks(answer.text))


def _blocks(text: str) -> list[tuple[str, str]]:
    """(search, replacement) of each block. It takes one pass over the lines: for an answer that repeats its marks, the time of a regular expression
    for whole blocks grows with the cube of the length."""
    found, search, replacement = list[tuple[str, str]](), None, None
    for line in io.StringIO(text.replace("\r\n", "\n"), newline="\n"):
        if search is None:
            search = [] if _SEARCH.fullmatch(line) else None
        elif replacement is None:
            if _MIDDLE.fullmatch(line):
                replacement = list[str]()
            else:
                search.append(line)
        elif _REPLACE.match(line):
            found.append(("".join(search), "".join(replacement)))
            search = replacement = None
        else:
            replacement.append(line)
    return found


def apply_edits(answer: Answer, text: str) -> str:
    """The text after applying the answer's edits in order. UnusableAnswerError (`edit`) if an edit does not apply at exactly one place, or if
    nothing changes."""
    text = before = text if text.endswith("\n") else f"{text}\n"  # as the lines of a block end
    for search, replacement in _blocks(answer.text):
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

"""Edits of a text: applied where they fit exactly once, refused else."""

import time

import pytest

from serl.researcher.llm.answers import Answer
from serl.researcher.llm.edits import apply_edits, has_edits
from serl.researcher.llm.errors import UnusableAnswerError

TEXT = "a = 1\nb = 2\nc = 2\n"


def edit(search: str, replacement: str) -> str:
    return f"<<<<<<< SEARCH\n{search}=======\n{replacement}>>>>>>> REPLACE\n"


def test_edits_apply_in_order() -> None:
    answer = Answer("First:\n" + edit("a = 1\n", "a = 3\n") + "then\n" + edit("a = 3\nb = 2\n", ""), "stop")
    assert has_edits(answer)
    assert apply_edits(answer, TEXT) == "c = 2\n"


def test_line_ends_make_no_difference() -> None:
    last = edit("c = 2\n", "c = 3\n")
    for text, answer in ((TEXT.rstrip(), last), (TEXT, last.replace("\n", "\r\n"))):
        assert has_edits(Answer(answer, "stop"))
        assert apply_edits(Answer(answer, "stop"), text) == "a = 1\nb = 2\nc = 3\n"


@pytest.mark.parametrize(("block", "message"), [
    (edit("d = 4\n", "d = 5\n"), "got them 0 times"),
    (edit("= 2\n", "= 3\n"), "got them 2 times"),
    (edit("", "d = 5\n"), "got them 0 times"),
    (edit("a = 1\n", "a = 1\n"), "expected an edit that changes"),
])  # fmt: skip
def test_what_does_not_apply_is_said(block: str, message: str) -> None:
    with pytest.raises(UnusableAnswerError, match=message) as raised:
        apply_edits(Answer(block, "stop"), TEXT)
    assert raised.value.fault == "edit"


def test_other_answers_have_no_edits() -> None:
    assert not has_edits(Answer("```python\na = 1\n```", "stop"))


def test_an_answer_that_repeats_its_marks_is_read_at_once() -> None:
    marks = "<<<<< SEARCH\n" * 2000 + "=====\n" * 2000
    began = time.process_time()
    assert not has_edits(Answer(marks, "length"))
    assert time.process_time() - began < 1
    assert has_edits(Answer(marks + ">>>>> REPLACE", "stop"))

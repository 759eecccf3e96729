"""A page as people follow it: its console blocks typed one after the other, in one folder, each server in a terminal of its own."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from serl.exchange.ports import free_port
from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.example import example
from tests.doc_blocks import ROOT, Block, answers, commands
from tests.server_fixture import free_endpoint
from tests.test_help import ALL

BANNERS = {("exchange", "start"): "  journal", ("dashboard",): "operator", ("llm", "serve"): "Ctrl-C stops it"}
"""What servers say when they are ready."""
PROGRAMS = {"serl": [sys.executable, "-u", "-m", "serl"], "python": [sys.executable], "mkdir": ["mkdir"], "cp": ["cp"]}
OTHERS = ("ollama", "vllm", "pip")
"""Programs that the tests do without: an endpoint stands in for those that serve models, and what pip would install is here."""
PATIENCE_S = 240
MEASURED = r"[\d.,]+(?= s\b|/s)"
"""Times and rates, which differ each time."""


def calls(words: list[str]) -> tuple[str, ...]:
    """The command of serl that is called; () of anything else."""
    return next((tuple(words[1:end]) for end in (3, 2) if words[0] == "serl" and tuple(words[1:end]) in ALL), ())


def ends(words: list[str]) -> bool:
    """Whether a command ends by itself."""
    return calls(words) not in BANNERS and (calls(words) != ("agents", "start") or "--until" in words)


@dataclass
class Terminal:
    """A command under way."""

    line: str
    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def text(self) -> str:
        """What it has said."""
        return self.log.read_text()

    def wait_for(self, banner: str) -> None:
        """Returns when it has said that."""
        deadline = time.monotonic() + PATIENCE_S
        while banner not in self.text:
            assert self.process.poll() is None and time.monotonic() < deadline, f"{self.line}\n{self.text[-3000:]}"
            time.sleep(0.02)

    def finish(self, answer: list[str]) -> None:
        """Returns when it has ended well, and has answered as the page says."""
        status = self.process.wait(PATIENCE_S)
        assert status == 0, f"{self.line}: {status}\n{self.text[-3000:]}"
        for line in answer:
            assert re.sub(MEASURED, "#", line) in re.sub(MEASURED, "#", self.text), self.line

    def stop(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE_S)
        assert "Traceback" not in self.text, f"{self.line}\n{self.text[-3000:]}"


class Session:
    """Whoever follows a page, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._endpoint, self._model_port = free_endpoint(), free_port()
        self._environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        self._open = ExitStack()
        self._terminals: list[Terminal] = []
        self._servers: list[Terminal] = []

    def type(self, block: Block) -> None:
        """Types a block. From its first server on everything has a terminal of its own; it is over when all that ends has ended."""
        lines = [shlex.split(line) for line in commands(block)]
        for option, *_ in block.options:
            assert any(self._knows(words, option) for words in lines), f"no command of the block has {option}"
        waiting, alone = [], True
        if ("exchange", "start") in map(calls, lines):
            self.end()  # an exchange that a page starts again is a new one
        for words, answer in zip(lines, answers(block), strict=True):
            if words[0] == "export":
                name, _, value = words[1].partition("=")
                self._environment[name] = value
            if words[0] == "export" or words[0] in OTHERS:
                continue
            terminal = self._start(words, block)
            if not ends(words):
                alone = False
                self._servers.append(terminal)
                terminal.wait_for(BANNERS.get(calls(words), ""))
            elif alone:
                terminal.finish(answer)
            else:
                waiting.append((terminal, answer))
        for terminal, answer in waiting:
            terminal.finish(answer)

    def _with(self, words: list[str], options: list[tuple[str, ...]]) -> list[str]:
        return [*words, *(word for one in options if self._knows(words, one[0]) for word in one)]

    def _knows(self, words: list[str], option: str) -> bool:
        return words[0] == "python" or any(option in one.opts for one in ALL[calls(words)].params)

    @cached_property
    def _stand_in(self) -> str:
        """The address of an OpenAI-compatible endpoint in the place of Ollama, vLLM and OpenAI. It knows one reward."""
        # `openai`, which few pages need, takes a second
        from tests.researcher.llm.fake import (
            completion,
            fake_endpoint,
        )

        answer = completion(f"```python\n{example(Kind.REWARD, 'code')}\n```")
        return self._open.enter_context(fake_endpoint(answer)).url

    def _addresses(self, words: list[str]) -> list[tuple[str, ...]]:
        """Options that have a command serve where nobody else does, and ask there."""
        match calls(words):
            case ():
                return []
            case ("llm", "serve"):
                return [("--port", str(self._model_port))]
            case ("llm", "ask") if "--url" not in words:
                return [("--url", f"http://127.0.0.1:{self._model_port}/v1"), ("--dialect", "embedded")]
            case ("dashboard",):
                return [("--connect", self._endpoint), ("--port", "0")]
        others = [("--url", self._stand_in)] if "--url" in words else []
        return [("--endpoint", self._endpoint), ("--connect", self._endpoint), *others]

    def _start(self, words: list[str], block: Block) -> Terminal:
        words = self._with(words, block.options)
        words = self._with(words, self._addresses(words))
        log = self._folder / f"terminal-{len(self._terminals)}.log"
        with log.open("wb") as said:
            process = subprocess.Popen(
                [*PROGRAMS[words[0]], *words[1:]],
                cwd=self._folder, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, env=self._environment,
            )  # fmt: skip
        self._terminals.append(Terminal(shlex.join(words), process, log))
        return self._terminals[-1]

    def end(self) -> None:
        """Ctrl-C to what still runs, the last first; none of it may have ended before."""
        for terminal in reversed(self._servers):
            assert terminal.process.poll() in (None, 0), f"{terminal.line}\n{terminal.text[-3000:]}"
            terminal.stop()
        self._servers.clear()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_error: object) -> None:
        for terminal in self._terminals:
            terminal.process.kill()
            terminal.process.wait()
        self._open.close()

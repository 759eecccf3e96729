"""Follows a documentation page like a reader: runs its console blocks in order, in one folder, each server in its own terminal."""

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
from tests.doc_blocks import ROOT, Block, commands, outputs
from tests.server_fixture import free_endpoint
from tests.test_help import ALL

BANNERS: dict[tuple[str, ...], str] = {
    ("exchange", "start"): "  journal",
    ("dashboard",): "operator",
    ("binance", "start"): "  account",
    ("metrics",): "metrics of",
    ("fix", "start"): "  store",
    ("ouch", "start"): "ready",
    ("llm", "serve"): "Ctrl-C stops it",
}
"""The start of the line that each server prints when it is ready."""
PROGRAMS = {"serl": [sys.executable, "-u", "-m", "serl"], "python": [sys.executable], "mkdir": ["mkdir"], "cp": ["cp"]}
SKIPPED = ("ollama", "vllm", "pip")
"""Programs that the tests skip: a fake endpoint replaces model servers, and the packages are installed already."""
TIMEOUT_S = 240
MEASURED = r"[\d.,]+(?= s\b|/s)"
"""Times and rates, which differ in every run."""


def command_name(words: list[str]) -> tuple[str, ...]:
    """The serl command that a command line runs; () for other programs."""
    return next((tuple(words[1:end]) for end in (3, 2) if words[0] == "serl" and tuple(words[1:end]) in ALL), ())


def ends(words: list[str]) -> bool:
    """Whether a command ends by itself."""
    name = command_name(words)
    return name not in BANNERS and (name != ("agents", "start") or "--until" in words)


@dataclass
class Terminal:
    """A running command."""

    line: str
    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def text(self) -> str:
        """Its output so far."""
        return self.log.read_text()

    def wait_for(self, banner: str) -> None:
        """Waits until the output contains `banner`."""
        deadline = time.monotonic() + TIMEOUT_S
        while banner not in self.text:
            assert self.process.poll() is None and time.monotonic() < deadline, f"{self.line}\n{self.text[-3000:]}"
            time.sleep(0.02)

    def finish(self, expected: list[str]) -> None:
        """Waits for a successful exit, and asserts that the output contains the expected lines, apart from times and rates."""
        status = self.process.wait(TIMEOUT_S)
        assert status == 0, f"{self.line}: {status}\n{self.text[-3000:]}"
        for line in expected:
            assert re.sub(MEASURED, "#", line) in re.sub(MEASURED, "#", self.text), self.line

    def stop(self) -> None:
        """Sends Ctrl-C and waits for the exit."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(TIMEOUT_S)
        assert "Traceback" not in self.text, f"{self.line}\n{self.text[-3000:]}"


class Session:
    """A reader who follows a page in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._endpoint, self._model_port = free_endpoint(), free_port()
        self._environment = dict(os.environ)
        self._open = ExitStack()
        self._terminals: list[Terminal] = []
        self._servers: list[Terminal] = []

    def type(self, block: Block) -> None:
        """Runs a block. From its first server on every command has its own terminal. Waits for all commands that end by themselves."""
        lines = [shlex.split(line) for line in commands(block)]
        for option, *_ in block.options:
            assert any(self._has_option(words, option) for words in lines), f"no command of the block has {option}"
        waiting, in_foreground = [], True
        if ("exchange", "start") in map(command_name, lines):
            self.end()  # a page that starts another exchange has stopped the previous one
        for words, expected in zip(lines, outputs(block), strict=True):
            if words[0] == "export":
                name, _, value = words[1].partition("=")
                self._environment[name] = value
            if words[0] == "export" or words[0] in SKIPPED:
                continue
            terminal = self._start(words, block)
            if not ends(words):
                in_foreground = False
                self._servers.append(terminal)
                terminal.wait_for(BANNERS.get(command_name(words), ""))
            elif in_foreground:
                terminal.finish(expected)
            else:
                waiting.append((terminal, expected))
        for terminal, expected in waiting:
            terminal.finish(expected)

    def _add_options(self, words: list[str], options: list[tuple[str, ...]]) -> list[str]:
        return [*words, *(word for option in options if self._has_option(words, option[0]) for word in option)]

    def _has_option(self, words: list[str], option: str) -> bool:
        return words[0] == "python" or any(option in parameter.opts for parameter in ALL[command_name(words)].params)

    @cached_property
    def _fake_endpoint(self) -> str:
        """The URL of a fake OpenAI-compatible endpoint, instead of Ollama, vLLM or OpenAI. It always answers with the same reward."""
        # imports `openai`, which takes a second and which few pages need
        from tests.researcher.llm.fake import (
            completion,
            fake_endpoint,
        )

        answer = completion(f"```python\n{example(Kind.REWARD, 'code')}\n```")
        return self._open.enter_context(fake_endpoint(answer)).url

    def _addresses(self, words: list[str]) -> list[tuple[str, ...]]:
        """Options that make servers listen on free ports, and clients connect to them."""
        match command_name(words):
            case ():
                return []
            case ("llm", "serve"):
                return [("--port", str(self._model_port))]
            case ("llm", "ask") if "--url" not in words:
                return [("--url", f"http://127.0.0.1:{self._model_port}/v1"), ("--dialect", "embedded")]
            case ("dashboard",):
                return [("--connect", self._endpoint), ("--port", "0")]
            case ("fix", "start"):
                return [("--connect", self._endpoint), ("--listen", "127.0.0.1:0")]
            case ("binance", "start"):
                return [("--connect", self._endpoint), ("--listen", "127.0.0.1:0"), ("--orders", "orders")]
            case ("ouch", "start"):
                return [("--connect", self._endpoint), ("--listen", "127.0.0.1:0"), ("--itch", "127.0.0.1:0")]
        url = [("--url", self._fake_endpoint)] if "--url" in words else []
        return [("--endpoint", self._endpoint), ("--connect", self._endpoint), *url]

    def _start(self, words: list[str], block: Block) -> Terminal:
        words = self._add_options(words, block.options)
        words = self._add_options(words, self._addresses(words))
        log = self._folder / f"terminal-{len(self._terminals)}.log"
        environment = dict(self._environment)
        if words[0] == "python":  # a program of the repository
            environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*PROGRAMS[words[0]], *words[1:]],
                cwd=self._folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment,
            )  # fmt: skip
        self._terminals.append(Terminal(shlex.join(words), process, log))
        return self._terminals[-1]

    def end(self) -> None:
        """Stops the servers with Ctrl-C, the last one first, and asserts that none has failed before."""
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

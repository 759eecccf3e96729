"""Modules that attack by time, memory and disk; see hostile.py."""

import os
import signal
import stat
from typing import Any

from serl.researcher.sandbox.limits import MIB
from tests.researcher.sandbox.hostile import (
    CPU,
    FOLDER,
    MEMORY,
    OK,
    OUTPUT,
    RETURNED,
    SIGNALLED,
    TIMEOUT,
    Hostile,
    blocked,
)
from tests.researcher.sandbox.plain import Plain, Proof, died, ended, went_on

FOLDER_BYTES, FILE_BYTES, MEMORY_BYTES, OUTPUT_BYTES = 64 * MIB, 16 * MIB, 512 * MIB, 64 * 1024
"""Limits of the sandbox in these tests."""


def memory(plain: Plain) -> bool:
    """It took more memory than the sandbox gives."""
    return plain.memory_bytes > MEMORY_BYTES


def printed(plain: Plain) -> bool:
    """It printed more than the sandbox reads."""
    return plain.output_bytes > OUTPUT_BYTES


def sizes(plain: Plain) -> list[int]:
    """Sizes of the files that it left."""
    return [path.stat().st_size for path in plain.folder.iterdir() if path.is_file()]


def entries(plain: Plain) -> bool:
    """It left more files and folders than the sandbox lets it."""
    return sum(len(folders) + len(files) for _, folders, files in os.walk(plain.folder)) > 256


def deep(plain: Plain) -> bool:
    """Who walks its folders as the sandbox does has more files open than a tenth of the usual limit."""
    return max(path.count("/d") for path, _, _ in os.walk(plain.folder)) > 100


TIME = [
    Hostile("use of the processor", "import hashlib\nwhile True: hashlib.sha256(bytes(10**6))", lambda plain: plain.cpu_s > 1, CPU),
    Hostile("endless loop", "while True: pass", went_on, TIMEOUT),
    Hostile("endless sleep", "import time; time.sleep(1e6)", went_on, TIMEOUT),
    Hostile("endless loop that catches", "while True:\n try:\n  while True: pass\n except BaseException: pass", went_on, TIMEOUT),
    Hostile("endless loop deaf to signals", "import signal\nfor number in range(1, 32):\n try: signal.signal(number, signal.SIG_IGN)\n except OSError: pass\nwhile True: pass", went_on, TIMEOUT),
    Hostile("endless arithmetic in C", "answer = 10 ** 10 ** 8", went_on, TIMEOUT),
    Hostile("endless end", "import atexit\ndef late():\n while True: pass\natexit.register(late)", went_on, OK),
    Hostile("thread that stays", "import threading, time; threading.Thread(target=time.sleep, args=(1e6,)).start()", went_on, OK),
    Hostile("endless recursion", "import sys\nsys.setrecursionlimit(10**9)\nf = lambda n: f(n)\nwhile True:\n try: f(0)\n except BaseException: pass", went_on, TIMEOUT),
    Hostile("higher limits", "import resource; resource.setrlimit(resource.RLIMIT_AS, (-1, -1))", ended, text="not allowed"),
]  # fmt: skip

MEMORY_AND_DISK = [
    Hostile("memory bomb", "held = []\nwhile True: held.append(bytes(10**8))", memory, MEMORY),
    Hostile("memory bomb of numpy", "import numpy\nheld = []\nwhile True: held.append(numpy.empty(10**7))", memory, MEMORY),
    Hostile("memory bomb of torch", "import torch\nheld = []\nwhile True: held.append(torch.empty(10**7))", memory, MEMORY),
    Hostile("memory bomb by mmap", "import mmap; held = [mmap.mmap(-1, 2**28) for _ in range(8)]", memory, MEMORY),
    Hostile("memory outside the address space", "import os; os.memfd_create('x')", ended, text="not permitted"),
    blocked("memory of System V", "29, 0, 0, 0o1777"),
    Hostile("bad pointer", "import ctypes; ctypes.string_at(0)", died(signal.SIGSEGV), SIGNALLED, "SIGSEGV"),
    Hostile("print without end", "while True: print('x' * 10**4)", printed, OUTPUT),
    Hostile("complain without end", "import sys\nwhile True: sys.stderr.write('x' * 10**4)", printed, OUTPUT),
    Hostile("large file", "with open('large', 'wb') as file: file.write(bytes(3 * 10**7))", lambda plain: max(sizes(plain)) > FILE_BYTES, text="File too large"),
    Hostile("reserved file", "import os; os.posix_fallocate(os.open('large', os.O_CREAT | os.O_RDWR), 0, 3 * 10**7)", lambda plain: max(sizes(plain)) > FILE_BYTES, text="File too large"),
    Hostile("many large files", "for n in range(10): open(str(n), 'wb').write(bytes(10**7))", lambda plain: sum(sizes(plain)) > FOLDER_BYTES, FOLDER, "No space"),
    Hostile("files that are deleted but open", "import os\nfiles = [open('x', 'wb') and (file := open('x', 'wb'), os.unlink('x'), file.write(bytes(10**7)), file.flush())[0] for _ in range(10)]", ended, FOLDER, "No space"),
    Hostile("files that are deleted and closed but mapped", "import mmap, os\nheld = []\nfor _ in range(10):\n with open('x', 'wb+') as file:\n  os.unlink('x'); file.write(bytes(10**7)); file.flush(); held.append(mmap.mmap(file.fileno(), 4096))", ended, FOLDER, "No space"),
    Hostile("sparse files", "for n in range(10): open(str(n), 'wb').truncate(10**7)", lambda plain: sum(sizes(plain)) > FOLDER_BYTES, FOLDER, "longer than the limit"),
    Hostile("many files", "for n in range(1000): open(str(n), 'w')", entries, FOLDER),
    Hostile("deep folders", "import os\nfor _ in range(600):\n os.mkdir('d'); os.chdir('d')\nos._exit(0)", entries, FOLDER),
    Hostile("folders that use up our files", "import os\nfor _ in range(200):\n os.mkdir('d'); os.chdir('d')\nos._exit(0)", deep, FOLDER),
    Hostile("a folder that hides", "import os\nos.mkdir('d')\nfor n in range(300): open(f'd/{n}', 'w')\nos.chmod('d', 0)", lambda plain: stat.S_IMODE((plain.folder / "d").stat().st_mode) == 0, FOLDER),
]  # fmt: skip


def fools(lie: Any) -> Proof:
    """A reader who trusts the file takes this value for an answer."""
    return lambda plain: bool(plain.answer.get("value") == lie)


def breaks(error: type[Exception]) -> Proof:
    """A reader who trusts the file fails with this error."""

    def broken(plain: Plain) -> bool:
        try:
            value = plain.answer["value"]
            value.encode() if isinstance(value, str) else float(value)
        except error:
            return True
        return False

    return broken


def kind(check: Any) -> Proof:
    """The file is of a kind at which a reader waits, or which is not the job's own."""
    return lambda plain: check((plain.folder / "answer.json").lstat())


def written(text: str) -> str:
    """A module that writes its answer itself."""
    return f"import os; open('answer.json', 'w').write({text!r}); os._exit(0)"


ANSWERS = [
    Hostile("answer is a link", "import os; os.symlink('{canary}/answer', 'answer.json'); os._exit(0)", fools("secret"), RETURNED),
    Hostile("answer is a pipe", "import os; os.mkfifo('answer.json'); os._exit(0)", kind(lambda status: stat.S_ISFIFO(status.st_mode)), RETURNED),
    Hostile("answer is a folder", "import os; os.mkdir('answer.json'); os._exit(0)", kind(lambda status: stat.S_ISDIR(status.st_mode)), RETURNED),
    Hostile("answer has two names", "import os; open('a', 'w').write('{}'); os.link('a', 'answer.json'); os._exit(0)", kind(lambda status: status.st_nlink == 2), RETURNED),
    Hostile("answer is huge", "answer = 'x' * 10**7", kind(lambda status: status.st_size > 10**7), RETURNED),
    Hostile("answer is deep", written("[" * 10**5), breaks(RecursionError), RETURNED),
    Hostile("answer is NaN", written('{"outcome": "ok", "text": "", "value": NaN}'), lambda plain: plain.answer["value"] != plain.answer["value"], RETURNED, "NaN"),
    Hostile("answer is 1e999", written('{"outcome": "ok", "text": "", "value": 1e999}'), fools(float("inf")), RETURNED, "not finite"),
    Hostile("answer has 400 digits", written('{"outcome": "ok", "text": "", "value": 1' + "0" * 400 + "}"), breaks(OverflowError), RETURNED, "digits"),
    Hostile("answer is half a character", written('{"outcome": "ok", "text": "", "value": "\\ud800"}'), breaks(UnicodeEncodeError), RETURNED, "surrogates"),
    Hostile("text is half a character", written('{"outcome": "crashed", "text": "\\ud800", "value": 0}'), lambda plain: not plain.answer["text"].isprintable(), RETURNED, "surrogates"),
    Hostile("text is no text", written('{"outcome": "crashed", "text": [[[1]]], "value": 1}'), fools(1), RETURNED, "expected a text"),
    Hostile("answer is a pickle", "import os, pickle; open('answer.json', 'wb').write(pickle.dumps(print)); os._exit(0)", lambda plain: b"builtins" in (plain.folder / "answer.json").read_bytes(), RETURNED),
    Hostile("answer claims what only we say", written('{"outcome": "refused", "text": "", "value": 1}'), fools(1), RETURNED),
    Hostile("answer of a forger", written('{"outcome": "ok", "text": "", "value": 1}'), fools(1), OK),
    Hostile("answer is not a number", "answer = float('nan')", lambda plain: "JSON" in plain.text, text="not JSON compliant"),
    Hostile("no answer", "import os; os._exit(0)", lambda plain: not list(plain.folder.iterdir()), text="without an answer"),
    Hostile("other exit", "import os; os._exit(3)", lambda plain: plain.code == 3, text="exit status 3"),
    Hostile("leave", "raise SystemExit(0)", lambda plain: "SystemExit" in plain.text, text="SystemExit"),
    Hostile("change how answers are written", "import json; json.dumps = lambda *parts, **named: '{\"value\": 3}'", fools(3), RETURNED),
    Hostile("hostile exception", "class E(Exception):\n def __str__(self): raise self\nraise E", lambda plain: "str() failed" in plain.text, text="str() failed"),
    Hostile("pickle that runs", "import pickle; assert pickle.loads(b\"cposix\\nsystem\\n(S'touch {canary}/mine'\\ntR.\") != 0", lambda plain: plain.changed, OK),
    Hostile("import trick", "(lambda m: m.open('{canary}/secret', m.O_RDONLY))(__import__('o' + 's'))", ended, text="No such file"),
    Hostile("builtins by class", "f = [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == 'FileLoader'][0]\nf('x', '{canary}/secret').get_data('{canary}/secret')", ended, text="No such file"),
]  # fmt: skip

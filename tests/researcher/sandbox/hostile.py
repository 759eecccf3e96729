"""Modules that attack. {canary} is a folder outside with a secret and scores, {port} a TCP port that listens, {path} a Unix socket.

Each names the one outcome that it ends in. That is OK where the attack has no effect, or where a lie about oneself is the attack: an
answer is a claim.
"""

from dataclasses import dataclass

from serl.researcher.sandbox.job_result import Outcome

OK, CRASHED, TIMEOUT, CPU, MEMORY, THREADS, OUTPUT, FOLDER, SIGNALLED, RETURNED = list(Outcome)[:10]


@dataclass(frozen=True)
class Hostile:
    """An attack."""

    name: str
    source: str
    outcome: Outcome = CRASHED
    text: str = ""
    """Expected in the result's text. Every crash names its cause, or a typo in the source would pass for a defence."""


CALL = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    if libc.syscall(number, *arguments) != -1: return "done"
    return errno.errorcode[ctypes.get_errno()]
"""
"""System calls by number (x86_64)."""

FILES = [
    Hostile("read a secret", "answer = open('{canary}/secret').read()", text="No such file"),
    Hostile("read the scores", "import sqlite3; sqlite3.connect('file:{canary}/scores.db?mode=ro', uri=True).execute('select 1')", text="unable to open"),
    Hostile("read passwords", "open('/etc/passwd').read()", text="No such file"),
    Hostile("list the folder of the secret", "import os; os.listdir('{canary}')", text="No such file"),
    Hostile("list the machine", "import os; assert not [name for name in ('/boot', '/run', '/srv', '/var') if os.path.exists(name)]", OK),
    Hostile("write outside", "open('{canary}/secret', 'w').write('mine')", text="No such file"),
    Hostile("write beside the folder", "open('../mine', 'w')", text="Read-only"),
    Hostile("write to serl", "import serl; open(serl.__file__, 'a').write('#')", text="Read-only"),
    Hostile("write to the interpreter", "import os; open(os.__file__, 'a')", text="[Errno"),
    Hostile("write to shared memory", "open('/dev/shm/mine', 'w')", text="Read-only"),
    Hostile("remove everything", "import shutil; shutil.rmtree('/', ignore_errors=True)", OK),
    Hostile("remount", CALL + "answer = call(165, b'/', b'/', None, 32 | 4096, None); assert answer == 'EPERM'", OK),
    Hostile("leave by chroot", CALL + "answer = call(161, b'/job'); assert answer == 'EPERM'", OK),
    Hostile("open by handle", CALL + "answer = call(304, -100, None, 0); assert answer == 'EPERM'", OK),
    Hostile("link to outside", "import os; os.link('/etc/ld.so.cache', 'answer.json')", text="cross-device"),
    Hostile("open files without end", "files = [open('/dev/null') for _ in range(10**6)]", text="Too many open files"),
    Hostile("use what was inherited", "import os; assert sorted(os.listdir('/proc/self/fd')) == ['0', '1', '2', '3']", OK),
]  # fmt: skip

NETWORK = [
    Hostile(
        "connect by TCP", "import socket; socket.create_connection(('127.0.0.1', {port}), 2)", text="not permitted"
    ),
    Hostile(
        "send by UDP",
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))",
        text="not permitted",
    ),
    Hostile(
        "connect to a Unix socket",
        "import socket; socket.socket(socket.AF_UNIX).connect('{path}')",
        text="not permitted",
    ),
    Hostile(
        "connect to an abstract socket",
        "import socket; socket.socket(socket.AF_UNIX).connect('\\0serl-canary-{port}')",
        text="not permitted",
    ),
    Hostile("ask for a name", "import socket; socket.getaddrinfo('example.org', 80)", text="gaierror"),
    Hostile(
        "fetch",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:{port}/', timeout=2)",
        text="not permitted",
    ),
    Hostile("connect by io_uring", CALL + "answer = call(425, 8, None); assert answer == 'EPERM'", OK),
]

LEAK = Hostile(
    "secrets of the host",
    """
import os
found = []
def look(path, content):
    if b'yranac-ks'[::-1] in content: found.append(path)  # not as it stands here: a job can read its own request
look('os.environ', str(os.environ).encode())
for pid in filter(str.isdigit, os.listdir('/proc')):
    threads = [f'/proc/{pid}/task/{thread}' for thread in os.listdir(f'/proc/{pid}/task')]
    for path in [f'{at}/{name}' for at in (f'/proc/{pid}', *threads) for name in ('environ', 'cmdline')]:
        look(path, open(path, 'rb').read())
    for name in os.listdir(f'/proc/{pid}/fd'):
        path = f'/proc/{pid}/fd/{name}'
        if pid != str(os.getpid()) and os.path.isfile(path): look(path, open(path, 'rb').read())
for line in open('/proc/1/maps'):
    begin, end = (int(text, 16) for text in line.split()[0].split('-'))
    try:
        memory = open('/proc/1/mem', 'rb', buffering=0)
        memory.seek(begin)
        look('/proc/1/mem', memory.read(end - begin))
    except (OSError, OverflowError): continue
assert not found, found
""",
    OK,
)
"""Looks for what the host has in its environment, wherever a process shows what it was started with."""

PROCESSES = [
    Hostile("fork bomb", "import os\nwhile True: os.fork()", text="not permitted"),
    Hostile("fork bomb that goes on", "import os\nwhile True:\n try: os.fork()\n except OSError: pass", TIMEOUT),
    Hostile("start a program", "import subprocess, sys; subprocess.run([sys.executable, '-c', 'pass'])", text="not permitted"),
    Hostile("start a shell", "import os; assert os.system('echo x > {canary}/secret') != 0", OK),
    Hostile("start a pool", "import multiprocessing; multiprocessing.Pool(2)", text="Read-only"),
    Hostile("fork by number", CALL + "assert call(57) == call(58) == 'EPERM' and call(435, None, 0) == 'ENOSYS'", OK),
    Hostile("thread bomb", "import threading, time\nfor _ in range(5000): threading.Thread(target=time.sleep, args=(9,)).start()", THREADS),
    Hostile("thread bomb under a false name", "import ctypes, threading, time\nctypes.CDLL(None).prctl(15, b') R 1 (x')\nfor _ in range(5000): threading.Thread(target=time.sleep, args=(9,)).start()", THREADS),
    Hostile("stop itself", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", TIMEOUT),
    Hostile("become another program", "import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'while True: pass'])", TIMEOUT),
    Hostile("kill everybody", "import os; os.kill(-1, 9)", text="No such process"),
    Hostile("kill the first process", "import os; os.kill(1, 9)", OK),
    Hostile("kill itself", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", SIGNALLED, "SIGKILL"),
    Hostile("abort", "import os; os.abort()", SIGNALLED, "SIGABRT"),
    Hostile("look into others", CALL + "assert call(101, 16, 1, 0, 0) == call(310, 1, None, 0, None, 0, 0) == 'EPERM'", OK),
    Hostile("new namespaces", CALL + "assert call(272, 0x10000000) == call(308, 0, 0) == 'EPERM'", OK),
    Hostile("other processes", "import os; seen = [name for name in os.listdir('/proc') if name.isdigit()]; assert len(seen) == 2", OK),
    Hostile("the root of the first process", "open('/proc/1/root{canary}/secret')", text="No such file"),
    Hostile("settings of the kernel", "import os; os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)", text="[Errno"),
    Hostile("settings anywhere", "import os; found = [os.path.join(at, name) for at, _, names in os.walk('/proc/sys') for name in names]\nassert len(found) > 100 and not any(os.access(path, os.W_OK) for path in found)", OK),
    LEAK,
]  # fmt: skip

TIME = [
    Hostile("use of the processor", "import hashlib\nwhile True: hashlib.sha256(bytes(10**6))", CPU),
    Hostile("endless loop", "while True: pass", TIMEOUT),
    Hostile("endless sleep", "import time; time.sleep(1e6)", TIMEOUT),
    Hostile(
        "endless loop that catches", "while True:\n try:\n  while True: pass\n except BaseException: pass", TIMEOUT
    ),
    Hostile(
        "endless loop deaf to signals",
        "import signal\nfor number in range(1, 32):\n try: signal.signal(number, signal.SIG_IGN)\n except OSError: pass\nwhile True: pass",
        TIMEOUT,
    ),
    Hostile("endless arithmetic in C", "answer = 10 ** 10 ** 8", TIMEOUT),
    Hostile("endless end", "import atexit\ndef late():\n while True: pass\natexit.register(late)", OK),
    Hostile(
        "thread that stays", "import threading, time; threading.Thread(target=time.sleep, args=(1e6,)).start()", OK
    ),
    Hostile("higher limits", "import resource; resource.setrlimit(resource.RLIMIT_AS, (-1, -1))", text="not allowed"),
]

MEMORY_AND_DISK = [
    Hostile("memory bomb", "held = []\nwhile True: held.append(bytearray(10**8))", MEMORY),
    Hostile("memory bomb of numpy", "import numpy; numpy.ones(10**11)", MEMORY),
    Hostile("memory bomb of torch", "import torch; torch.ones(10**11)", MEMORY),
    Hostile("memory bomb by mmap", "import mmap; held = [mmap.mmap(-1, 2**30) for _ in range(100)]", MEMORY),
    Hostile("memory outside the address space", "import os; os.memfd_create('x')", text="not permitted"),
    Hostile("memory of System V", CALL + "assert call(29, 0, 2**30, 0o1777) == 'EPERM'", OK),
    Hostile(
        "deep recursion",
        "import sys\nsys.setrecursionlimit(10**9)\nf = lambda n: f(n + 1)\nf(0)",
        TIMEOUT,
    ),
    Hostile("bad pointer", "import ctypes; ctypes.string_at(0)", SIGNALLED, "SIGSEGV"),
    Hostile("print without end", "while True: print('x' * 10**4)", OUTPUT),
    Hostile("complain without end", "import sys\nwhile True: sys.stderr.write('x' * 10**4)", OUTPUT),
    Hostile("large file", "file = open('large', 'wb')\nwhile True: file.write(bytes(10**7))", text="File too large"),
    Hostile(
        "many large files",
        "for n in range(100): open(str(n), 'wb').write(bytes(10**7))\nimport time; time.sleep(9)",
        FOLDER,
    ),
    Hostile("many files", "for n in range(10**4): open(str(n), 'w')", FOLDER),
    Hostile("deep folders", "import os\nfor _ in range(5000):\n os.mkdir('d'); os.chdir('d')", FOLDER),
]

ANSWERS = [
    Hostile("answer is a link", "import os; os.symlink('/etc/passwd', 'answer.json'); os._exit(0)", RETURNED),
    Hostile("answer is a pipe", "import os; os.mkfifo('answer.json'); os._exit(0)", RETURNED),
    Hostile("answer is a folder", "import os; os.mkdir('answer.json'); os._exit(0)", RETURNED),
    Hostile("answer has two names", "import os; open('a', 'w').write('{}'); os.link('a', 'answer.json'); os._exit(0)", RETURNED),
    Hostile("answer is huge", "answer = 'x' * 10**7", RETURNED),
    Hostile("answer is deep", "import os; open('answer.json', 'w').write('[' * 10**5); os._exit(0)", RETURNED),
    Hostile("answer is not a number", "answer = float('nan')", text="not JSON compliant"),
    Hostile("answer is written NaN", "import os; open('answer.json', 'w').write('{\"outcome\": NaN}'); os._exit(0)", RETURNED),
    Hostile("answer is a pickle", "import os, pickle; open('answer.json', 'wb').write(pickle.dumps(print)); os._exit(0)", RETURNED),
    Hostile("answer claims what only we say", "import os; open('answer.json', 'w').write('{\"outcome\": \"refused\"}'); os._exit(0)", RETURNED),
    Hostile("answer of a forger", "import os; open('answer.json', 'w').write('{\"outcome\": \"ok\", \"text\": \"\"}'); os._exit(0)", OK),
    Hostile("no answer", "import os; os._exit(0)", text="without an answer"),
    Hostile("other exit", "import os; os._exit(3)", text="exit status 3"),
    Hostile("leave", "raise SystemExit(0)", text="SystemExit"),
    Hostile("change how answers are written", "import json; json.dumps = lambda *parts, **named: 'mine'", RETURNED),
    Hostile("hostile exception", "class E(Exception):\n def __str__(self): raise self\nraise E", text="str() failed"),
    Hostile("pickle that runs", "import pickle; assert pickle.loads(b\"cposix\\nsystem\\n(S'touch {canary}/mine'\\ntR.\") != 0", OK),
    Hostile("import trick", "(lambda m: m.open('{canary}/secret', m.O_RDONLY))(__import__('o' + 's'))", text="No such file"),
    Hostile("builtins by class", "f = [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == 'FileLoader'][0]\nf('x', '{canary}/secret').get_data('{canary}/secret')", text="No such file"),
    Hostile("frames", "import sys\nframe = sys._getframe()\nwhile frame.f_back: frame = frame.f_back\nassert 'sk-canary' not in str(frame.f_globals)", OK),
]  # fmt: skip

EVERY = [*FILES, *NETWORK, *PROCESSES, *TIME, *MEMORY_AND_DISK, *ANSWERS]

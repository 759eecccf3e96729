"""Modules that attack. Each names the one outcome that it ends in inside the sandbox, and the proof that it reaches its goal outside.

{canary} is a folder outside with a secret and scores, {port} a TCP port that listens, {path} a Unix socket, {victim} a process. The outcome is OK
where the attack has no effect, or where a lie about oneself is the attack: an answer is a claim.
"""

import signal
from dataclasses import dataclass

from serl.researcher.sandbox.job_result import Outcome
from tests.researcher.sandbox.plain import Plain, Proof, demanded, died, ended, went_on

OK, CRASHED, TIMEOUT, CPU, MEMORY, THREADS, OUTPUT, FOLDER, SIGNALLED, RETURNED = list(Outcome)[:10]


@dataclass(frozen=True)
class Hostile:
    """An attack."""

    name: str
    source: str
    proof: Proof | None
    """That it reaches its goal in an ordinary process; None if that would harm this machine."""
    outcome: Outcome = CRASHED
    text: str = ""
    """Expected in the result's text. Every crash names its cause, or a typo in the source would pass for a defence."""
    as_root: bool = False
    """Whether only user 0 reaches the goal outside."""


def changed(plain: Plain) -> bool:
    """It changed a file outside, or killed a process."""
    return plain.changed


def received(plain: Plain) -> bool:
    """It reached a socket."""
    return plain.received


CALL = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    if libc.syscall(number, *arguments) != -1: return "done"
    return errno.errorcode[ctypes.get_errno()]
"""
"""System calls by number (x86_64). The kernel looks at these arguments before it asks who calls, so an error other than EPERM shows that it
would serve the call."""


def blocked(name: str, call: str, error: str = "EPERM") -> Hostile:
    """A system call that must not reach the kernel."""
    return Hostile(name, CALL + f"answer = call({call}); assert answer == '{error}', answer", demanded, OK)


FILES = [
    Hostile("read a secret", "answer = open('{canary}/secret').read()", lambda plain: plain.answer["value"] == "secret", text="No such file"),
    Hostile("read the scores", "import sqlite3; answer = sqlite3.connect('file:{canary}/scores.db?mode=ro', uri=True).execute('select pa from scores').fetchone()[0]", lambda plain: plain.answer["value"] == 7, text="unable to open"),
    Hostile("read passwords", "answer = open('/etc/passwd').read()", lambda plain: "root" in plain.answer["value"], text="No such file"),
    Hostile("list the folder of the secret", "import os; os.listdir('{canary}')", ended, text="No such file"),
    Hostile("list the machine", "import os; assert not [name for name in ('/boot', '/run', '/srv', '/var') if os.path.exists(name)]", demanded, OK),
    Hostile("find the day that is scored", "import os; assert not [at for at, _, names in os.walk('{root}') if 'day' in names]", demanded, OK),
    Hostile("write outside", "open('{canary}/secret', 'w').write('mine')", changed, text="No such file"),
    Hostile("write beside the folder", "open('../mine', 'w')", lambda plain: (plain.folder.parent / "mine").exists(), text="Read-only"),
    Hostile("write to serl", "import serl; open(serl.__file__, 'a')", ended, text="Read-only"),
    Hostile("write to the interpreter", "import os; open(os.__file__, 'a')", ended, text="[Errno", as_root=True),
    Hostile("write to shared memory", "import os; os.close(os.open('/dev/shm/serl-canary-{port}', os.O_CREAT | os.O_RDWR))", ended, text="Read-only"),
    Hostile("remove everything", "import shutil; shutil.rmtree('/', ignore_errors=True)", None, OK),
    Hostile("remove the scores", "import shutil; shutil.rmtree('{canary}', ignore_errors=True)", changed, OK),
    blocked("remount", "165, 1, 1, 1, 32, 1"),
    blocked("leave by chroot", "161, 1"),
    blocked("name a file by its handle", "303, -100, 1, 1, 1, 0"),
    blocked("open a tree of mounts", "428, -100, 1, 0"),
    Hostile("link to outside", "import os; os.link('{canary}/secret', 'mine'); answer = open('mine').read()", lambda plain: plain.answer["value"] == "secret", text="No such file"),
    Hostile("keep files open", "files = [open('/dev/null') for _ in range(200)]", ended, text="Too many open files"),
    Hostile("use what was inherited", "import os; assert sorted(os.listdir('/proc/self/fd')) == ['0', '1', '2', '3']", demanded, OK),
]  # fmt: skip

NETWORK = [
    Hostile("connect by TCP", "import socket; socket.create_connection(('127.0.0.1', {port}), 2)", received, text="not permitted"),
    Hostile("send by UDP", "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))", received, text="not permitted"),
    Hostile("connect to a Unix socket", "import socket; socket.socket(socket.AF_UNIX).connect('{path}')", received, text="not permitted"),
    Hostile("connect to an abstract socket", "import socket; socket.socket(socket.AF_UNIX).connect('\\0serl-canary-{port}')", received, text="not permitted"),
    Hostile("ask for a name", "import socket; socket.getaddrinfo('localhost', 80)", ended, text="gaierror"),
    Hostile("fetch", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:{port}/', timeout=1)", received, text="not permitted"),
    Hostile("listen", "import socket; socket.create_server(('127.0.0.1', 0))", ended, text="not permitted"),
    blocked("connect by io_uring", "425, 8, 0"),
]  # fmt: skip

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
    for path in [f'{at}/{name}' for at in (f'/proc/{pid}', *threads) for name in ('environ', 'cmdline', 'mountinfo')]:
        look(path, open(path, 'rb').read())
    for name in os.listdir(f'/proc/{pid}/fd'):
        path = f'/proc/{pid}/fd/{name}'
        if pid != str(os.getpid()) and os.path.isfile(path): look(path, open(path, 'rb').read())
    for line in open(f'/proc/{pid}/maps') if pid != str(os.getpid()) else []:
        begin, end = (int(text, 16) for text in line.split()[0].split('-'))
        try:
            memory = open(f'/proc/{pid}/mem', 'rb', buffering=0)
            memory.seek(begin)
            look(f'/proc/{pid}/mem', memory.read(end - begin))
        except (OSError, OverflowError): continue
assert not found, found
""",
    None,  # it would search this machine; test_hostile.py shows in a weaker sandbox that it finds what it looks for
    OK,
)
"""Looks for what the host has in its environment, and for a path of the host, wherever a process shows what it was started with."""

PROCESSES = [
    Hostile("fork", "import os, time\nfor _ in range(8):\n if os.fork() == 0: time.sleep(5); os._exit(0)", ended, text="not permitted"),
    Hostile("fork and try again", "import os, time\nmade = 0\nwhile made < 8:\n try:\n  if os.fork() == 0: time.sleep(5); os._exit(0)\n  made += 1\n except OSError: pass", ended, TIMEOUT),
    Hostile("start a program", "import subprocess, sys; subprocess.run([sys.executable, '-c', 'pass'])", ended, text="not permitted"),
    Hostile("start a shell", "import os; assert os.system('echo x > {canary}/secret') != 0", changed, OK),
    Hostile("start a pool", "import multiprocessing; multiprocessing.get_context('fork').Pool(2)", ended, text="Read-only"),
    Hostile("fork by number", CALL + "assert call(57) == 'EPERM'; assert call(58) == 'EPERM'", demanded, OK),
    blocked("clone by its new call", "435, 0, 0", "ENOSYS"),
    Hostile("threads", "import threading, time\nfor _ in range(100): threading.Thread(target=time.sleep, args=(9,)).start()\ntime.sleep(2)", lambda plain: plain.threads > 32, THREADS),
    Hostile("threads under a false name", "import ctypes, threading, time\nctypes.CDLL(None).prctl(15, b') R 1 (x')\nfor _ in range(100): threading.Thread(target=time.sleep, args=(9,)).start()\ntime.sleep(2)", lambda plain: plain.threads > 32, THREADS),
    Hostile("stop itself", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", went_on, OK),
    Hostile("become another program", "import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'while True: pass'])", went_on, text="not permitted"),
    Hostile("kill a process of the host", "import os; os.kill({victim}, 9)", changed, text="No such process"),
    Hostile("kill everybody", "import os; os.kill(-1, 9)", None, text="No such process"),
    Hostile("kill the first process", "import os; os.kill(1, 9)", None, OK),
    Hostile("kill itself", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", died(signal.SIGKILL), OK),
    Hostile("abort", "import os; os.abort()", died(signal.SIGABRT), SIGNALLED, "killed by SIG"),
    Hostile("become another program in a thread", "import os, sys, threading\nthread = threading.Thread(target=os.execv, args=(sys.executable, [sys.executable, '-c', 'while True: pass']))\nthread.start(); thread.join()", went_on, OK),
    blocked("become another program by a descriptor", "322, -1, 1, 0, 0, 0"),
    blocked("outlive the host", "157, 1, 65"),
    blocked("be traced", "101, 0, 0, 0, 0"),
    blocked("read the memory of others", "310, {victim}, 0, 0, 0, 0, 0"),
    blocked("write the memory of others", "311, {victim}, 0, 0, 0, 0, 0"),
    blocked("take a descriptor of others", "438, -1, 0, 0"),
    blocked("new namespaces", "272, 0x10000000"),
    blocked("enter a namespace", "308, 0, 0"),
    blocked("another personality", "135, 0xffffffff"),
    blocked("keep a secret in the kernel", "250, 0, -3, 1"),
    Hostile("see other processes", "import os; seen = [name for name in os.listdir('/proc') if name.isdigit()]; assert seen == ['1'], seen", demanded, OK),
    Hostile("the root of a process", "open('/proc/self/root{canary}/secret')", ended, text="No such file"),
    Hostile("the root of another process", "open('/proc/{victim}/root{canary}/secret')", ended, text="No such file"),
    Hostile("settings of the kernel", "import os; os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)", ended, text="[Errno", as_root=True),
    Hostile("settings anywhere", "import os; found = [os.path.join(at, name) for at, _, names in os.walk('/proc/sys') for name in names]\nassert len(found) > 100 and not any(os.access(path, os.W_OK) for path in found)", demanded, OK, as_root=True),
    LEAK,
]  # fmt: skip

"""System calls that a job may not make, as a classic BPF program for seccomp(2).

Namespaces hide files and network. The filter blocks the rest: new processes (so that a job stays one process and its memory limit covers it),
sockets, memory outside the address space, and the parts of the kernel that exploits use most. A blocked call fails with EPERM. clone3 fails with
ENOSYS, because a filter cannot see its flags, so libc uses clone instead.

Another filter, `after_start`, blocks what bubblewrap needs to start the job: execve. A thread that calls execve takes over the process without its
death signal, and the job would outlive us. The same holds for a job that sets its death signal itself.
"""

import errno
import platform
import struct

from serl.researcher.sandbox.errors import SandboxUnavailableError

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""BPF_LD|W|ABS, BPF_JMP|JEQ, |JGE, |JSET, BPF_RET."""
ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
"""Offsets in struct seccomp_data (little-endian)."""
CLONE_THREAD = 0x00010000
PR_SET_PDEATHSIG = 1
"""A job that changes its death signal would outlive us."""
X32 = 0x40000000
"""Call numbers of at least this belong to the x32 ABI."""

COMMON = {
    "clone3": 435, "io_uring_setup": 425, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432,
    "fspick": 433, "pidfd_getfd": 438, "mount_setattr": 442, "memfd_secret": 447,
}  # fmt: skip
X86_64 = {
    "shmget": 29, "socket": 41, "clone": 56, "fork": 57, "vfork": 58, "semget": 64, "msgget": 68, "ptrace": 101,
    "personality": 135, "pivot_root": 155, "chroot": 161, "mount": 165, "prctl": 157, "umount2": 166, "init_module": 175, "delete_module": 176,
    "mq_open": 240, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272,
    "perf_event_open": 298, "name_to_handle_at": 303, "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "finit_module": 313, "memfd_create": 319, "bpf": 321, "userfaultfd": 323,
}  # fmt: skip
AARCH64 = {
    "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "personality": 92, "unshare": 97, "kexec_load": 104,
    "init_module": 105, "delete_module": 106, "ptrace": 117, "prctl": 167, "mq_open": 180, "msgget": 186, "semget": 190, "shmget": 194,
    "socket": 198, "add_key": 217, "request_key": 218, "keyctl": 219, "clone": 220, "perf_event_open": 241,
    "name_to_handle_at": 264, "open_by_handle_at": 265, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271,
    "finit_module": 273, "memfd_create": 279, "bpf": 280, "userfaultfd": 282,
}  # fmt: skip
EXEC = {"x86_64": (59, 322), "aarch64": (221, 281)}
"""execve and execveat."""
MACHINES = {"x86_64": (0xC000003E, X86_64), "aarch64": (0xC00000B7, AARCH64)}
"""AUDIT_ARCH and call numbers."""


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """One struct sock_filter; `yes` and `no` are the numbers of instructions to skip."""
    return struct.pack("<HBBI", code, yes, no, value)


def after_start() -> bytes:
    """The filter for this machine that a job installs before it runs anything else, in addition to `program`, which checks the architecture."""
    steps = [_step(LOAD, NUMBER)]
    for number in EXEC[platform.machine()]:
        steps += [_step(EQUAL, number, no=1), _step(RETURN, FAIL | errno.EPERM)]
    return b"".join([*steps, _step(RETURN, ALLOW)])


def program(machine: str | None = None) -> bytes:
    """The filter for a machine (default: this one). SandboxUnavailableError if its call numbers are unknown."""
    machine = machine or platform.machine()
    if machine not in MACHINES:
        known = " or ".join(MACHINES)
        raise SandboxUnavailableError(f"the sandbox supports {known}, got a machine of type {machine}")
    architecture, own = MACHINES[machine]
    calls = COMMON | own
    clone, clone3, prctl = (calls.pop(name) for name in ("clone", "clone3", "prctl"))
    fail = _step(RETURN, FAIL | errno.EPERM)
    steps = [_step(LOAD, ARCHITECTURE), _step(EQUAL, architecture, yes=1), _step(RETURN, KILL), _step(LOAD, NUMBER)]
    steps += [_step(AT_LEAST, X32, no=1), fail]
    steps += [_step(EQUAL, clone3, no=1), _step(RETURN, FAIL | errno.ENOSYS)]
    for number in sorted(calls.values()):
        steps += [_step(EQUAL, number, no=1), fail]
    steps += [
        _step(EQUAL, prctl, no=4),
        _step(LOAD, FIRST_ARGUMENT),
        _step(EQUAL, PR_SET_PDEATHSIG, no=1),
        fail,
        _step(RETURN, ALLOW),
    ]
    steps += [_step(EQUAL, clone, no=3), _step(LOAD, FIRST_ARGUMENT), _step(ANY_BIT, CLONE_THREAD, yes=1), fail]
    return b"".join([*steps, _step(RETURN, ALLOW)])

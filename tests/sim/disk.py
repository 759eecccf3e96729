"""A simulated disk under the real files of one folder: what is synced, what a crash leaves, and calls that fail.

The files are real and lie in memory: they are what the kernel has cached. Beside them stands what the disk has: of each file the bytes
of its last sync, of the folder the names of its last sync. The calls of `os` that change or sync files go through here.
"""

import errno
import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from tests.sim.threads import Current, Killed, check_alive, pause

SECTOR, PAGE = 512, 4096
"""Bytes that a disk writes at once, and that the kernel writes back at once."""
Image = dict[str, bytes]
"""Contents of the files of a folder by name."""
CALLS = (
    "fsync",
    "fdatasync",
    "posix_fallocate",
    "pwrite",
    "replace",
    "unlink",
    "truncate",
    "ftruncate",
    "open",
    "close",
    "pipe",
)
_REAL: dict[str, Any] = {name: getattr(os, name) for name in CALLS}
SYNCS = ("fsync", "fdatasync")
GROWING = ("posix_fallocate", "pwrite", "open", *SYNCS)


class Disk:
    """The disk of one machine, with one folder."""

    def __init__(self, folder: Path, random: Random) -> None:
        self.folder, self.random = folder, random
        self.counts: Counter[str] = Counter()
        self.is_full = False
        self.failing_syncs = 0
        self.kill_after = -1
        """Calls until the process that makes them is killed; -1: it is not."""
        self.killed_image: Image | None = None
        self.shown_syncs = True
        self._synced: dict[int, bytes] = {}
        self._names: dict[str, int] = {}
        self._unwritten: dict[int, bytes] = {}  # contents when a sync failed: the kernel takes these pages for written
        self._rewritten: dict[int, set[int]] = {}  # pages of them that were written again
        self._descriptors: set[int] = set()
        self._order, self._synced_order = 0, {}  # type: int, dict[int, int]
        self.on_sync: Any = lambda descriptor: None

    # -- calls of the process -------------------------------------------------------------------------------------------

    def call(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """A call of `os` by the simulated process."""
        check_alive()
        if name in ("pipe", "close") or (name == "open" and not arguments[1] & os.O_CREAT):
            return self._described(name, arguments, _REAL[name](*arguments, **options))
        if self.kill_after >= 0:
            self.kill_after -= 1
            if self.kill_after < 0:
                self._kill()
        if self.is_full and self._needs_room(name, arguments):
            self.counts["call without room"] += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if name in SYNCS:
            return self._sync(arguments[0])
        if name == "pwrite":
            return self._write(*arguments)
        return self._described(name, arguments, _REAL[name](*arguments, **options))

    def _described(self, name: str, arguments: tuple[Any, ...], result: Any) -> Any:
        """Notes which descriptors are open: a process that is killed closes none itself. Those of file objects close with them."""
        if name == "pipe":
            self._descriptors.update(result)
        elif name == "open" and not arguments[1] & os.O_EXCL:
            self._descriptors.add(result)
        elif name == "close":
            self._descriptors.discard(arguments[0])
        return result

    def close_descriptors(self) -> None:
        """Closes what a dead process has left open."""
        for descriptor in self._descriptors:
            _REAL["close"](descriptor)
        self._descriptors.clear()

    def _needs_room(self, name: str, arguments: tuple[Any, ...]) -> bool:
        """Whether a call needs blocks of the disk: not in files whose blocks are reserved. Of syncs, which may need some, a fifth."""
        if name not in GROWING or (name in SYNCS and (self._is_folder(arguments[0]) or self.random.random() > 0.2)):
            return False
        if name in ("posix_fallocate", "open"):
            return True
        return not os.path.basename(os.readlink(f"/proc/self/fd/{arguments[0]}")).startswith(("commands-", "events-"))

    def _kill(self) -> None:
        process = Current.process
        assert process is not None
        self.killed_image = self.cached()
        process.is_dead = True
        self.counts["process killed during a disk call"] += 1
        raise Killed

    @staticmethod
    def _is_folder(descriptor: int) -> bool:
        return os.path.isdir(f"/proc/self/fd/{descriptor}")

    def _write(self, descriptor: int, data: Any, offset: int) -> int:
        count = len(data)
        if count > 1 and self.random.random() < 0.1:
            count = self.random.randrange(1, count)
            self.counts["short write"] += 1
        written: int = _REAL["pwrite"](descriptor, bytes(data[:count]), offset)
        inode = os.fstat(descriptor).st_ino
        if inode in self._unwritten:
            self._rewritten.setdefault(inode, set()).update(range(offset // PAGE, (offset + written - 1) // PAGE + 1))
        return written

    def _sync(self, descriptor: int) -> None:
        self._order += 1
        order, inode = self._order, os.fstat(descriptor).st_ino
        if self._is_folder(descriptor):
            names = {entry.name: entry.inode() for entry in os.scandir(descriptor)}
            self._wait()
            if order > self._synced_order.get(inode, 0):
                self._names, self._synced_order[inode] = names, order
            return
        content = _content(descriptor)
        told = self.on_sync(descriptor)
        self._wait()
        if self.failing_syncs and self.random.random() < 0.5:
            self.failing_syncs -= 1
            self.counts["failing sync"] += 1
            self._unwritten[inode], self._rewritten[inode] = content, set()
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if order > self._synced_order.get(inode, 0):  # syncs of one file may overlap
            self._synced[inode], self._synced_order[inode] = self._without_unwritten(inode, content), order
        if told is not None:
            told()

    def _wait(self) -> None:
        """A sync takes its time, in which other threads run."""
        if Current.thread is not None and Current.thread.name.startswith("journal") and self.shown_syncs:
            pause()

    def _without_unwritten(self, inode: int, content: bytes) -> bytes:
        """What a sync writes after one that failed: the kernel took the pages of that one for written, and writes only what has changed since."""
        failed = self._unwritten.get(inode)
        if failed is None:
            return content
        old = self._synced.get(inode, b"").ljust(len(content), b"\0")
        rewritten = self._rewritten.get(inode, set())
        pages = []
        for number, at in enumerate(range(0, len(content), PAGE)):
            same = content[at : at + PAGE] == failed[at : at + PAGE] and number not in rewritten
            pages.append((old if same else content)[at : at + PAGE])
        return b"".join(pages)

    # -- crashes --------------------------------------------------------------------------------------------------------

    def cached(self) -> Image:
        """What the kernel has: what a killed process leaves."""
        return {path.name: path.read_bytes() for path in sorted(self.folder.iterdir()) if path.is_file()}

    def after_power_cut(self) -> Image:
        """What the disk has: of each name and each file what is synced, or any part of what came later."""
        now = {entry.name: entry.inode() for entry in os.scandir(self.folder) if entry.is_file()}
        contents = {now[name]: data for name, data in self.cached().items()}
        image = {}
        keeps = self.random.choice((0.0, 0.5, 1.0))
        for name in sorted(self._names.keys() | now.keys()):
            durable, cached = self._names.get(name), now.get(name)
            inode = cached if self.random.random() < keeps else durable
            if inode is None:
                continue
            old = self._synced.get(inode, b"")
            image[name] = self._mixed(old, contents.get(inode, old))
        return image

    def _mixed(self, old: bytes, new: bytes) -> bytes:
        if old == new:
            return new
        size = len(self.random.choice((old, new)))
        old, new = old.ljust(size, b"\0")[:size], new.ljust(size, b"\0")[:size]
        share = self.random.choice((0.0, 0.5, 1.0))
        in_order = self.random.random() < 0.6
        starts = [at for at in range(0, size, SECTOR) if old[at : at + SECTOR] != new[at : at + SECTOR]]
        stop = self.random.randrange(len(starts) + 1) if in_order else len(starts)
        data = bytearray(old)
        for at in starts[:stop]:
            if in_order or self.random.random() < share:
                data[at : at + SECTOR] = new[at : at + SECTOR]
        if (
            stop < len(starts) and starts[stop] >= PAGE and self.random.random() < 0.3
        ):  # being written; a header has one to itself
            at = starts[stop]
            count = self.random.randrange(SECTOR)
            data[at : at + count] = new[at : at + count]
            self.counts["torn sector"] += 1
        if bytes(data) != new:
            self.counts["unsynced writes lost"] += 1
        return bytes(data)

    def set_byte(self, path: Path, offset: int, value: int) -> None:
        """Changes a byte of a file, on the disk too."""
        with path.open("r+b") as file:
            file.seek(offset)
            file.write(bytes([value]))
        inode = path.stat().st_ino
        synced = self._synced.get(inode, b"")
        if len(synced) > offset:
            self._synced[inode] = synced[:offset] + bytes([value]) + synced[offset + 1 :]

    def restore(self, image: Image, *, durable: bool) -> None:
        """Rebuilds the folder from an image, in files of their own. durable: the image is what the disk has."""
        inodes = {entry.name: entry.inode() for entry in os.scandir(self.folder) if entry.is_file()}
        names, synced, unwritten, rewritten = self._names, self._synced, self._unwritten, self._rewritten
        self._names, self._synced, self._unwritten, self._rewritten = {}, {}, {}, {}
        for path in list(self.folder.iterdir()):
            _REAL["unlink"](path)
        for name, data in image.items():
            path = self.folder / name
            path.write_bytes(data)
            path.chmod(0o600)
            inode, before = path.stat().st_ino, inodes.get(name)
            if durable:
                self._names[name], self._synced[inode] = inode, data
            else:
                if before in synced:
                    self._synced[inode] = synced[before]
                if before in unwritten:
                    self._unwritten[inode], self._rewritten[inode] = unwritten[before], rewritten.get(before, set())
                if names.get(name) is not None and names[name] == before:
                    self._names[name] = inode
        if not durable:  # names that the disk still has for files that are gone here
            for name, old in names.items():
                if name not in self._names and old in synced:
                    self._names[name] = old
                    self._synced.setdefault(old, synced[old])


def _content(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


class Installed:
    """The disk that the calls of `os` go to, if any."""

    disk: Disk | None = None


def install() -> None:
    """Routes the calls of `os` through the disk while a simulated process makes them."""

    def route(name: str) -> Any:
        real = _REAL[name]

        def call(*arguments: Any, **options: Any) -> Any:
            if Current.process is None or Installed.disk is None:
                return real(*arguments, **options)
            return Installed.disk.call(name, arguments, options)

        return call

    for name in CALLS:
        setattr(os, name, route(name))

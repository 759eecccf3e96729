"""Half a row behind the last one, and flipped bits: what a start finds in its files."""

from pathlib import Path
from random import Random

import numpy as np

from serl.exchange.journal.segment import HEADER_BYTES
from serl.exchange.records import COMMAND
from tests.sim.disk import Disk, Image

ROW_BYTES = COMMAND.itemsize


def tear(image: Image, random: Random) -> bool:
    """Sometimes leaves half a row behind the last one, as a process that is killed may. Returns whether it did."""
    files = sorted(name for name in image if name.startswith("commands-") and name.endswith(".rows"))
    if not files or random.random() < 0.7:
        return False
    data = bytearray(image[files[-1]])
    rows = np.frombuffer(image[files[-1]][HEADER_BYTES:], COMMAND)
    used = np.flatnonzero(rows["sequence"])
    if not len(used) or used[-1] + 1 >= len(rows):
        return False
    at, count = HEADER_BYTES + (int(used[-1]) + 1) * ROW_BYTES, random.randrange(1, ROW_BYTES - 8)
    data[at : at + count] = data[at - ROW_BYTES : at - ROW_BYTES + count]
    if count > 8 and random.random() < 0.5:
        data[at + 8 : at + 16] = bytes(8)  # its sequence is not there yet
    image[files[-1]] = bytes(data)
    return True


class FlippedBit:
    """A bit of a file that is another one, on the disk too, until the file is restored from a copy."""

    def __init__(self, disk: Disk, image: Image, random: Random) -> None:
        self._disk = disk
        names = [name for name in sorted(image) if image[name] and not name.startswith((".", "lock", "events-"))]
        commands = [name for name in names if name.startswith("commands-") and name.endswith(".rows")]
        name = random.choice(commands if commands and random.random() < 0.5 else names)
        first, stop = 0, len(image[name])
        if name in commands:
            # the last row cannot be told from one that was being written: docs/journal.md
            sequence = np.frombuffer(image[name][HEADER_BYTES:], COMMAND)["sequence"]
            is_whole = (sequence > 0) & (sequence == sequence[:1] + np.arange(len(sequence)))  # half a row is not
            stop = HEADER_BYTES + ROW_BYTES * max(0, int(is_whole.sum()) - 1)
            first = HEADER_BYTES if stop > HEADER_BYTES and random.random() < 0.8 else 0
        self.path: Path = disk.folder / name
        self.kind = name.partition("-0")[0]
        self._inode, self._at = self.path.stat().st_ino, random.randrange(first, stop)
        self._byte = image[name][self._at]
        disk.set_byte(self.path, self._at, self._byte ^ 1 << random.randrange(8))

    @property
    def _is_there(self) -> bool:
        """Whether the file is still that one, and not one that the exchange has written in its place."""
        return self.path.exists() and self.path.stat().st_ino == self._inode

    def restore(self) -> None:
        """The file is restored from a copy."""
        if self._is_there:
            self._disk.set_byte(self.path, self._at, self._byte)

    def restored(self, image: Image) -> Image:
        """The image with the restored file."""
        name = self.path.name
        if self._is_there and len(image.get(name, b"")) > self._at:
            image[name] = image[name][: self._at] + bytes([self._byte]) + image[name][self._at + 1 :]
        self.restore()
        return image

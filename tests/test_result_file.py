"""The results of a long command on disk."""

import resource
from pathlib import Path

import pytest

from serl.result_file import ResultFile, ResultFileError


def test_a_full_disk_is_told_once_and_the_file_can_be_continued(tmp_path: Path) -> None:
    """Closing the file tried to write the row again: that error, which advised to repeat the command, took the place of the one of the row."""
    path, limits = tmp_path / "runs.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    file = ResultFile(path, {"arms": 1}, dict, resume=False)
    file.append({"seed": 1})
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5, limits[1]))
    try:
        with pytest.raises(ResultFileError, match="free disk space, then continue with --resume"):
            file.append({"seed": 2})
        file.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    again = ResultFile(path, {"arms": 1}, dict, resume=True)
    again.append({"seed": 2})
    again.close()
    assert again.results == [{"seed": 1}]
    assert path.read_text().splitlines() == ['{"arms": 1}', '{"seed": 1}', '{"seed": 2}']

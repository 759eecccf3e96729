"""The wheel, outside of a checkout."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("agents", "clients", "configs", "demo", "exchange", "gateways", "history", "minds", "researcher")
UV = Path(sys.executable).with_name("uv")


def files_of_packages() -> set[str]:
    """The files in version control that belong into the wheel."""
    listed = subprocess.check_output(["git", "ls-files", *PACKAGES, "src/serl"], cwd=ROOT, text=True).splitlines()
    files = [Path(name) for name in listed if (ROOT / name).is_file()]
    return {f"serl/{file.relative_to('src/serl') if file.parts[0] == 'src' else file}" for file in files}


@pytest.mark.long
def test_the_wheel_has_every_file_and_runs_elsewhere(tmp_path: Path) -> None:
    subprocess.run([UV, "build", "--quiet", "--out-dir", tmp_path, ROOT], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert files_of_packages() - set(zipfile.ZipFile(wheel).namelist()) == set()
    assert len(list(tmp_path.glob("*.tar.gz"))) == 1
    installed, elsewhere = tmp_path / "installed", tmp_path / "elsewhere"
    elsewhere.mkdir()
    subprocess.run(
        [UV, "pip", "install", "--quiet", "--no-deps", "--python", sys.executable, "--target", installed, wheel],
        check=True,
    )

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "PYTHONPATH": str(installed)}
        return subprocess.run(
            [sys.executable, "-m", "serl", *words], capture_output=True, text=True, cwd=elsewhere, env=environment
        )

    checks = {check["name"]: check for check in json.loads(run("doctor", "--json").stdout)["checks"]}
    assert checks["packages"]["state"] == "ok"
    assert str(installed) in checks["numba cache"]["found"], "the wheel's own code"
    unknown = run("simulate", "unknown", "-o", "simulated.day")  # a known one would compile for long
    assert unknown.returncode == 2 and "rmsc04, small, spoofed" in unknown.stderr

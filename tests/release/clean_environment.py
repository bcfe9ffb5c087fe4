"""An environment with what `pip install saddlescope` installs, and no extra."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement


class CleanEnvironment:
    """A virtual environment with the wheel, its requirements, and nothing else.

    pip installs the wheel. Its requirements are linked, file by file, from the environment that
    runs the tests, which already has them: no download, and seconds instead of minutes. `pip check`
    then says whether anything required is missing.
    """

    def __init__(self, folder: Path, wheel: Path) -> None:
        venv.create(folder, symlinks=True)
        self.folder = folder
        self._bin = folder / "bin"
        packages = next((folder / "lib").glob("python*")) / "site-packages"
        self.distributions = sorted(_required(_runtime_requirements(wheel)))
        for name in self.distributions:
            _link(distribution(name), packages)
        self._pip("install", "--no-deps", "--no-index", "--no-compile", str(wheel))

    def check(self) -> str:
        """What pip says about requirements that are not met."""
        return self._pip("check").stdout.strip()

    def run(
        self, program: str, *words: str, code: int = 0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of this environment, isolated from others, and check its exit code."""
        done = self._call([str(self._bin / program), *words], environment)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def _pip(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self._call([sys.executable, "-m", "pip", "--python", self._bin / "python", *words])

    def _call(
        self, command: Sequence[str | Path], environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        alone = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env={**alone, **(environment or {})},
        )


def _runtime_requirements(wheel: Path) -> Sequence[str]:
    with ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
    return re.findall(r"^Requires-Dist: (.+)$", metadata, flags=re.MULTILINE)


def _required(requirements: Sequence[str]) -> set[str]:
    """The names of all distributions that these require, directly or indirectly."""
    found: dict[str, set[str]] = {}
    waiting = list(_applying(requirements, {""}))
    while waiting:
        name, extras = waiting.pop()
        if name in found and extras <= found[name]:
            continue
        found[name] = found.get(name, set()) | extras
        waiting += _applying(distribution(name).requires or (), found[name])
    return set(found)


def _applying(requirements: Sequence[str], extras: set[str]) -> Iterator[tuple[str, set[str]]]:
    for requirement in map(Requirement, requirements):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras):
            name = re.sub(r"[-_.]+", "-", requirement.name).lower()
            yield name, {"", *requirement.extras}


def _link(source: Distribution, packages: Path) -> None:
    for file in source.files or ():
        # Scripts are outside the package folder, and nothing here calls them.
        if ".." in file.parts:
            continue
        target = packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            target.symlink_to(Path(str(source.locate_file(file))).resolve())

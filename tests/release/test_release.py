"""The release: one version, a source archive that builds the wheel, and all licences."""

import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from tests.links import ROOT, has_test
from tests.release.clean_environment import CleanEnvironment

import saddlescope as ss

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def build(source: Path, target: str, folder: Path) -> Path:
    """An archive, built as an installer would build it."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the unpacked source archive, which must therefore be complete."""
    folder = tmp_path_factory.mktemp("release")
    archive = build(ROOT, "sdist", folder / "sdist")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return build(folder / archive.name.removesuffix(".tar.gz"), "wheel", folder / "wheel")


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> CleanEnvironment:
    return CleanEnvironment(tmp_path_factory.mktemp("clean"), wheel)


def test_one_version_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert ss.__version__ == PROJECT["version"]
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [ss.__version__]
    assert re.findall(r"^## (\d\S+)", changes, re.MULTILINE)[0] == ss.__version__


def test_the_wheel_holds_types_pages_records_and_licences(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        licences = {n: archive.read(n).decode() for n in names if "/licenses/" in n}
    kept = {str(file.relative_to(ROOT / "src")) for file in (ROOT / "src").rglob("*.*")}
    missing = {name for name in kept - set(names) if "__pycache__" not in name}
    assert not {name for name in missing if (ROOT / "src" / name).is_file()}
    assert "saddlescope/py.typed" in names
    assert any("Apache License" in text for text in licences.values())


def test_every_vendored_library_has_its_licence_in_the_wheel(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        vendored = {Path(name).name.partition(".")[0] for name in names if ".min." in name}
        assert vendored >= {"uPlot"}
        for library in vendored:
            (name,) = (n for n in names if "/licenses/" in n and n.endswith(f"/{library}.LICENSE"))
            assert "Permission is hereby granted" in archive.read(name).decode()
            assert any(n.endswith(f"/{library}.LICENSE") for n in names if "dist-info" not in n)


def test_a_clean_environment_has_what_is_required_and_no_extra(clean: CleanEnvironment) -> None:
    assert clean.check() == "No broken requirements found."
    extras = {"dask", "distributed", "fastapi", "lightning", "torch", "transformers", "uvicorn"}
    assert not extras & set(clean.distributions)
    code = (
        "import importlib.util as i, saddlescope as ss\n"
        f"assert not [n for n in {sorted(extras)} if i.find_spec(n)]\n"
        "for name in ss.__all__: getattr(ss, name)\n"
        "print(ss.__version__, ss.__file__)"
    )
    shown = clean.run("python", "-c", code).stdout
    assert shown.startswith(ss.__version__)
    assert "site-packages" in shown


def test_a_figure_is_reproduced_without_extras(clean: CleanEnvironment, tmp_path: Path) -> None:
    words = ("reproduce", "fig3", "--quick", "--no-film", "--out", str(tmp_path))
    shown = clean.run("saddlescope", *words, HOME=str(tmp_path)).stdout
    assert "as published" in shown.lower()
    assert "UNEXPECTED" not in shown
    assert (tmp_path / "index.html").is_file()


def test_the_help_of_the_lab_names_the_extra_that_it_needs(clean: CleanEnvironment) -> None:
    shown = clean.run("saddlescope", "lab", "--help").stdout
    assert "pip install 'saddlescope[lab]'" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["lab", "--no-browser"], "lab"),
        (["observe", "weights.pt"], "observe"),
        (["sweep", str(ROOT / "examples/sweeps/drop_times.toml"), "--out", "swept"], "cluster"),
    ],
    ids=["lab", "observe", "sweep"],
)
def test_a_verb_names_the_extra_that_it_needs(
    words: list[str], extra: str, clean: CleanEnvironment
) -> None:
    install = f"pip install 'saddlescope[{extra}]'"
    (clean.folder / "weights.pt").write_bytes(b"PK")
    refused = clean.run("saddlescope", *words, code=2).stderr
    assert install in refused
    assert len(refused.splitlines()) == 1
    # The page of error messages quotes it.
    said = refused.strip().removeprefix("saddlescope: ")
    assert f"`{said}`" in (ROOT / "docs/errors.md").read_text("utf-8")


def test_every_promise_names_tests_that_are_there() -> None:
    promises = [
        line for line in (ROOT / "SECURITY.md").read_text("utf-8").splitlines() if "::" in line
    ]
    assert len(promises) > 10
    for line in promises:
        nodes = re.findall(r"`(tests/\S+::\w+)`", line)
        assert nodes, line
        assert [node for node in nodes if not has_test(node)] == []


def test_the_workflow_calls_what_is_called_on_a_desk() -> None:
    workflow = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    tested = re.search(r"python: \[(.+)\]", workflow)
    assert tested is not None
    named = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if "Python :: 3." in c]
    assert re.findall(r"[\d.]+", tested[1]) == named
    assert "- run: .ci/run" in workflow

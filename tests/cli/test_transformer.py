"""`saddlescope transformer`: what it trains, writes and refuses."""

import json
from pathlib import Path

import pytest
import xarray as xr

from saddlescope.cli import main

TINY = {
    "induction": ("--preset", "quick", "--steps", "6", "--record", "3", "--vocabulary=8"),
    "grokking": ("--preset", "quick", "--p=7", "--steps", "6", "--record", "3", "--d-model=8"),
}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    monkeypatch.setenv("EQX_ON_ERROR", "nan")


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["transformer", *words])
    code = end.value.code
    assert isinstance(code, int)
    return code, *capsys.readouterr()


@pytest.mark.parametrize("name", TINY)
def test_a_tiny_experiment_is_trained_judged_and_kept(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = answer(capsys, name, *TINY[name], "--json")
    # So short a training shows nothing of what is claimed.
    assert (code, err) == (1, "")
    (figure,) = json.loads(out)["figures"]
    assert figure["id"] == name
    assert figure["command"].startswith(f"saddlescope transformer {name} --")
    folder = Path("out") / name
    assert (folder / "index.html").is_file()
    data = xr.load_dataset(folder / name / "data.nc", engine="scipy")
    assert data.sizes["step"] == 3
    assert answer(capsys, name, *TINY[name], "--json")[1] == out


def test_text_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    Path("text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 200)
    words = ("induction", "--corpus", "text", "--text-path", "text.txt", "--layers", "1")
    small = ("--context=16", "--d-model=8", "--heads=2", "--steps=4", "--record=3", "--json")
    code, out, err = answer(capsys, *words, *small)
    assert (code, err) == (1, "")
    assert json.loads(out)["figures"][0]["problem"] == ""
    data = Path("out/induction/induction/data.nc")
    first = xr.load_dataset(data, engine="scipy")["loss"]
    Path("text.txt").write_text("another text, which must be read anew. " * 200)
    answer(capsys, *words, *small)
    assert not first.equals(xr.load_dataset(data, engine="scipy")["loss"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["induction", "--colour", "red"], "colour = 'red': no such option; there are"),
        (["induction", "deep"], "words = 'deep': fields are given as --field value"),
        (["induction", "--layers", "0"], "layers = 0: must be"),
        (["induction", "--corpus", "novels"], "corpus = 'novels': must be 'repeated' or"),
        (["induction", "--preset", "huge"], "preset = 'huge': must be 'default' or 'large'"),
        (["induction", "--layer-norm", "maybe"], "layer-norm = 'maybe': must be true or false"),
        (["induction", "--text-path", "x"], "text_path = 'x': is for the corpus text"),
        (["grokking", "--p", "4"], "p = 4: must be"),
        (["grokking", "--share", "2"], "share = 2: must leave pairs"),
    ],
)
def test_nonsense_gets_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = answer(capsys, *words)
    assert code == 2
    assert err.startswith(f"saddlescope: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", TINY)
def test_help_names_every_field(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from saddlescope.figures import EXPERIMENTS
    from saddlescope.setting.nested import flat_fields

    code, out, _ = answer(capsys, name, "--help")
    assert code == 0
    # The help is wrapped, at hyphens too.
    words = "".join(out.split())
    figure = next(kind for kind in EXPERIMENTS if kind.id == name)()
    for field in flat_fields(figure):
        assert field.replace("_", "-") in words

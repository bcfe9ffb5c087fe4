"""`saddlescope reproduce`: what it prints, writes and refuses."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from saddlescope.cli import main
from saddlescope.comparison import _compare
from saddlescope.errors import Interrupted
from saddlescope.figures import FIGURES
from saddlescope.figures.kit import reproduction

# Two eigenvectors and few points: a figure that is made in a second once it is compiled.
SMALL = ("fig3", "--spectrum", ".6,.3", "--heads=3", "--seeds", "3", "--until", "8000")
SMALL += ("--init-scale", ".02", "--points=400", "--no-film")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    monkeypatch.setenv("EQX_ON_ERROR", "nan")


class Answer:
    """What a command printed and with which code it ended."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *words: str) -> None:
        with pytest.raises(SystemExit) as end:
            main(["reproduce", *words])
        self.code = end.value.code
        self.out, self.err = capsys.readouterr()


def test_the_list_names_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer(capsys, "--list")
    assert answer.code == 0
    for kind in FIGURES:
        assert f"{kind.id} " in answer.out
    assert len(answer.out.splitlines()) == len(FIGURES) + 1
    assert "--" not in answer.out.splitlines()[0]
    listed = json.loads(Answer(capsys, "--list", "--json").out)["figures"]
    assert [figure["id"] for figure in listed] == [kind.id for kind in FIGURES]


def test_a_figure_in_another_setting(capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer(capsys, *SMALL)
    assert (answer.code, answer.err) == (0, "")
    assert "holds: Z 24, 59: each plateau lies at the loss of its fixed point (T7)" in answer.out
    assert "9 claims about 1 figure, 9 as expected" in answer.out
    folder = Path("out/reproduction")
    assert (folder / "index.html").is_file()
    kept = json.loads((folder / "reproduction.json").read_text())
    # Not where the standard figure stands.
    own = kept["figures"][0]["folder"]
    assert re.fullmatch("fig3-[0-9a-f]{8}", own)
    data = xr.load_dataset(folder / own / "data.nc", engine="scipy")
    assert data.sizes["time"] == 400
    again = Answer(capsys, *SMALL, "--json")
    assert json.loads(again.out) == kept
    (figure,) = kept["figures"]
    assert figure["setting"]["spectrum"] == [0.6, 0.3]
    for claim in figure["claims"]:
        assert {"name", "expected", "verdict", "measured", "predicted", "tolerance"} <= set(claim)


def test_an_unexpected_verdict_ends_with_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    true_levels = _compare.plateau_losses
    wrong = lambda task, model: 1.05 * true_levels(task, model=model)  # noqa: E731
    monkeypatch.setattr(_compare, "plateau_losses", wrong)
    answer = Answer(capsys, *SMALL, "--json")
    assert answer.code == 1
    assert json.loads(answer.out)["as_expected"] is False


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fig99"], "figure = 'fig99': must be one of fig1, fig3"),
        (["fig3", "--colour", "red"], "colour = 'red': no such option; there are"),
        (["fig4", "--rank", "2"], "rank = '2': no such option; there are"),
        (["fig3", "--seeds"], "seeds = '': needs a value"),
        (["fig3", "--seeds", "x"], "seeds = 'x': must be a whole number, at least 1"),
        (["fig3", "--seeds", "0"], "seeds = 0: must be"),
        (["fig3", "--spectrum", ".4,-1"], "spectrum = "),
        (["fig3", "--jobs", "0"], "jobs = 0: must be a whole number, at least 1"),
        (["--jobs", "x"], "jobs = 'x': must be a whole number, at least 1"),
        (["fig3", "--out", "file/folder"], "out = 'file/folder': cannot be used"),
        (["grokking-recorded", "--seeds", "9"], "seeds = 9: must be at most 3"),
    ],
)
def test_nonsense_gets_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    Path("file").write_text("")
    answer = Answer(capsys, *words)
    assert answer.code == 2
    assert answer.err.startswith(f"saddlescope: {message}")
    assert answer.err.count("\n") == 1


def test_a_folder_that_cannot_be_written_to_is_refused_before_any_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("taken/index.html").mkdir(parents=True)
    answer = Answer(capsys, "grokking-recorded", "--out", "taken")
    assert answer.code == 2
    assert answer.err == (
        "saddlescope: out = 'taken': cannot be used: its index.html is a folder\n"
    )
    assert not Path("taken/grokking-recorded").exists()


def test_the_list_can_be_of_some_figures(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Answer(capsys, "fig3", "--list").out
    assert "--init-scale 0.01\n" in shown
    assert "fig4" not in shown
    listed = json.loads(Answer(capsys, "fig3", "--quick", "--list", "--json").out)["figures"]
    assert [(figure["id"], figure["setting"]["seeds"]) for figure in listed] == [("fig3", [3, 8])]


def test_an_odd_setting_does_not_spoil_the_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert Answer(capsys, "fig5", "--quick", "--shares", ".5", "--out", "out").code in (0, 1)
    answer = Answer(capsys, "grokking-recorded", "--out", "out")
    assert answer.code == 0
    kept = json.loads(Path("out/reproduction.json").read_text())["figures"]
    assert [figure["id"] for figure in kept] == ["fig5", "grokking-recorded"]


def test_an_interruption_says_how_to_go_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any, **options: Any) -> None:
        raise Interrupted(None)  # type: ignore[arg-type]

    monkeypatch.setattr(reproduction, "reproduce", interrupted)
    answer = Answer(capsys, "fig3")
    assert answer.code == 130
    assert answer.err == ("saddlescope: interrupted; run the same command again to resume\n")


def test_one_figure_after_another_share_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    Answer(capsys, *SMALL)
    assert Answer(capsys, "grokking-recorded", "--out", "out/reproduction").code == 0
    kept = json.loads(Path("out/reproduction/reproduction.json").read_text())
    assert [figure["id"] for figure in kept["figures"]] == ["fig3", "grokking-recorded"]


def test_two_at_once_give_the_same_bits_as_one_after_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The claims too; and the verdicts stand in the order of the figures, whichever ends first."""
    names, files = ("fig3", "fig5", "grokking-recorded"), ("data.nc", "claims.json")
    answers = [
        Answer(capsys, *names, "--quick", "--no-film", "--jobs", jobs, "--out", jobs)
        for jobs in ("1", "2")
    ]
    assert {answer.err for answer in answers} == {""}
    first, second = (re.sub(r"\(\d+\.\d s\)|wrote .*", "", answer.out) for answer in answers)
    assert first == second
    for name in names:
        for file in files:
            assert Path("1", name, file).read_bytes() == Path("2", name, file).read_bytes()
    kept = json.loads(Path("2/reproduction.json").read_text())["figures"]
    assert [figure["id"] for figure in kept] == list(names)

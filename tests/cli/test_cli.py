"""The command line: tables, JSON, exit codes, and one line for everything that is wrong."""

import json
import math
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

import saddlescope as ss
from saddlescope import dynamics
from saddlescope.cli import main
from saddlescope.report import _run_page

# The shape that other tests train too: compiled once in a process.
SMALL = shlex.split("--spectrum .6,.3 --heads 3 --seeds 3 --init-scale .1 --points 200")
DESCENT = shlex.split("--steps 5000 --learning-rate .2")


@pytest.fixture(autouse=True)
def _own_folder_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    monkeypatch.setenv("EQX_ON_ERROR", "nan")


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave pictures empty; for a run that another test draws."""

    def empty(*_: Any, **__: Any) -> Figure:
        return Figure()

    monkeypatch.setattr(ss.Trajectory, "plot", empty)
    monkeypatch.setattr(_run_page, "plot", empty)


class Answer:
    """What a command printed and with which code it ended."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *words: str) -> None:
        with pytest.raises(SystemExit) as end:
            main(list(words))
        self.code = end.value.code
        self.out, self.err = capsys.readouterr()


def strict_json(text: str) -> Any:
    """Parse JSON; NaN and infinities, which JSON does not have, are an error."""

    def refuse(word: str) -> None:
        raise AssertionError(f"JSON holds {word}")

    return json.loads(text, parse_constant=refuse)


def test_predict_prints_the_theory(capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer(capsys, "predict", *SMALL[:-2], "--until", "2000")
    assert answer.code == 0
    assert answer.err == ""
    assert "plateaus     0.90000  0.34478  0.07906" in answer.out
    assert answer.out.count("{") == 4
    assert [line.split()[0] for line in answer.out.splitlines()[-3:]] == ["0", "1", "2"]


def test_predict_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer(capsys, "predict", *SMALL[:-2], "--until", "300", "--json")
    values = strict_json(answer.out)
    assert answer.code == 0
    assert values["plateau_losses"] == pytest.approx([0.9, 0.34478, 0.07906], abs=1e-5)
    assert len(values["fixed_points"]) == 4
    assert values["seeds"][2]["drop_times"][1] is None, "not by 300"


def test_predict_says_what_the_theory_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer(capsys, "predict", *SMALL[:4], "--init-scale", "3")
    assert answer.code == 0
    assert "small starts" in answer.out


def test_many_dimensions_are_predicted_too(capsys: pytest.CaptureFixture[str]) -> None:
    # The levels of T7 need no list of the 2^D fixed points.
    words = "predict --spectrum power:20 --heads 1 --until 1 --json"
    answer = Answer(capsys, *shlex.split(words))
    assert answer.code == 0
    assert len(strict_json(answer.out)["plateau_losses"]) == 2


def test_train_prints_a_table_and_writes_a_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["train", *SMALL, *DESCENT, "--out", "out"]
    monkeypatch.setattr(sys, "argv", ["saddlescope", *words])
    answer = Answer(capsys, *words)
    assert answer.code == 0
    assert answer.err == "", "no progress bar where nobody is looking"
    lines = answer.out.splitlines()
    assert lines[0].split()[:2] == ["seed", "drop"]
    assert len([line for line in lines if line.strip()[:1].isdigit()]) == 6
    assert "wrote out/index.html" in lines[-1]
    written = {path.name for path in Path("out").iterdir()}
    assert {"comparison.json", "index.html", "run"} <= written
    assert "checkpoint" not in written
    run = ss.load("out/run")
    assert run.setting.seeds == (0, 1, 2)
    assert strict_json(Path("out/comparison.json").read_text()) == json.loads(
        json.dumps(run.compare().to_dict())
    )
    assert "saddlescope train --spectrum .6,.3" in Path("out/index.html").read_text()


@pytest.mark.usefixtures("undrawn")
def test_train_as_json_keeps_the_contract_and_a_finished_run_is_not_trained_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["train", *SMALL, *DESCENT, "--json", "--out", "out"]
    answer = Answer(capsys, *words)
    assert answer.code == 0
    values = strict_json(answer.out)
    assert values["plateau_losses"] == pytest.approx([0.9, 0.34478, 0.07906], abs=1e-5)
    assert [seed["seed"] for seed in values["seeds"]] == [0, 1, 2]
    for seed in values["seeds"]:
        assert seed["result"] == "finished"
        assert seed["final_loss"] == pytest.approx(0.07906, abs=1e-4)
        assert len(seed["drops"]) == 2
        for drop in seed["drops"]:
            assert {"time", "predicted_time", "loss_before", "loss_after"} <= set(drop)
            assert all(value is None or math.isfinite(value) for value in drop.values())
    assert strict_json(Path("out/comparison.json").read_text()) == values

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(dynamics, "train", refuse)
    assert Answer(capsys, *words).out == answer.out


def test_a_drop_that_does_not_come_is_null_and_a_folder_is_named_by_the_digest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    short = shlex.split("--steps 100 --learning-rate .2")
    answer = Answer(capsys, "train", *SMALL, *short, "--json")
    assert answer.code == 0
    drop = strict_json(answer.out)["seeds"][0]["drops"][1]
    assert drop["time"] is None
    assert drop["predicted_time"] is None
    assert drop["loss_after"] is None
    (folder,) = Path("runs").iterdir()
    assert ss.load(folder / "run").setting.digest == folder.name


def test_flow_stops_where_told_and_rests_when_converged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["train", *SMALL, "--until", "2000", "--converged", ".001", "--json", "--out", "out"]
    answer = Answer(capsys, *words)
    assert answer.code == 0
    assert {seed["result"] for seed in strict_json(answer.out)["seeds"]} == {"converged"}
    # The records end when all seeds rest.
    assert ss.load("out/run").time[-1] < 2000.0


@pytest.mark.parametrize("as_json", [[], ["--json"]], ids=["table", "json"])
def test_a_run_that_diverges_ends_with_1_and_the_cure(
    as_json: list[str], capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    if as_json:
        request.getfixturevalue("undrawn")
    words = ["train", *SMALL, "--steps", "500", "--learning-rate", "3", "--out", "out", *as_json]
    answer = Answer(capsys, *words)
    assert answer.code == 1
    assert "try learning_rate" in answer.out
    if as_json:
        assert {seed["result"] for seed in strict_json(answer.out)["seeds"]} == {"diverged"}


@pytest.mark.usefixtures("undrawn")
def test_another_run_is_replaced_only_when_told_to(capsys: pytest.CaptureFixture[str]) -> None:
    first = ["train", *SMALL, "--steps", "200", "--learning-rate", ".2", "--out", "out"]
    assert Answer(capsys, *first).code == 0
    other = ["train", *SMALL, "--steps", "100", "--learning-rate", ".2", "--out", "out"]
    answer = Answer(capsys, *other)
    assert answer.code == 2
    assert answer.err == "saddlescope: out = 'out': holds another run; --overwrite replaces it\n"
    assert ss.load("out/run").setting.method.steps == 200
    assert Answer(capsys, *other, "--overwrite").code == 0
    assert ss.load("out/run").setting.method.steps == 100


BAD = [
    ("train --spectrum .4,-.1", "spectrum", "-0.1"),
    ("train --spectrum nan,.1", "spectrum", "nan"),
    ("train --spectrum words", "spectrum", "words"),
    ("train --spectrum 0,0", "spectrum", "(0, 0)"),
    ("train --spectrum white:1000000", "spectrum", "1000000"),
    ("train --context-length 0", "context_length", "0"),
    ("train --context-length uniform:9:3", "context_length", "9"),
    ("train --heads 0", "heads", "0"),
    ("train --heads two", "heads", "two"),
    ("train --heads=two", "heads", "two"),
    ("train --heads", "heads", "needs a value"),
    ("train --rank -1", "rank", "-1"),
    ("train --init-scale 0", "init_scale", "0"),
    ("train --init-scale nan", "init_scale", "nan"),
    ("train --seeds 0", "seeds", "0"),
    ("train --seeds 1.5", "seeds", "1.5"),
    ("train --until -5", "until", "-5"),
    ("train --until inf", "until", "inf"),
    ("train --until soon", "until", "soon"),
    ("train --until 5 --steps 10 --learning-rate .1", "steps", "10"),
    ("train --method flow --steps 10", "steps", "10"),
    ("train --init balanced --subset 0", "subset", "is for init fixed_point"),
    ("train --task somewhere.py:Mine", "task", "no such file"),
    ("train --covariance somewhere.npy", "covariance", "cannot be read"),
    ("train --setting somewhere.toml", "setting", "cannot be read"),
    ("train --spectrum 1,2 --covariance 1,2", "spectrum", "one of the two"),
    ("train --steps 10", "learning-rate", "None"),
    ("train --learning-rate .1", "steps", "None"),
    ("train --learning-rate -1 --steps 10", "learning_rate", "-1"),
    ("train --converged 0", "converged", "0"),
    ("train --points 1", "points", "1"),
    ("train --points 100000000000", "points", "100000000000"),
    ("train --spacing cubic", "spacing", "cubic"),
    ("train --model softmax", "model", "softmax"),
    ("train --model merged --rank 2", "rank", "2"),
    ("train --normalisation some", "normalisation", "some"),
    ("train --normalisation none --context-length uniform:2:4", "normalisation", "none"),
    ("train --label-noise -1", "label_noise", "-1"),
    ("train --task-covariance 1,2,3", "task_covariance", "3"),
    ("train --task-covariance -1,2,3,4", "task_covariance", "-1"),
    ("train --query-covariance words", "query_covariance", "words"),
    ("train --until 1 --out /dev/null/run", "out", "/dev/null"),
    ("train --colour red", "colour", "no such option"),
    ("train extra", "extra", "--field value"),
    ("predict --seeds -1", "seeds", "-1"),
    ("predict --until 0", "until", "0"),
    ("predict --json --heads x", "heads", "x"),
    ("predict --out somewhere", "out", "no such option"),
    ("frain", "frain", "No such command"),
    ("frain", "frain", "There are predict, train, reproduce"),
    ("--heads 3", "--heads", "No such option"),
    ("measure log.csv --smooth 1", "--smooth", "there are --column, --step-column"),
    ("sweep plan.toml --workers two", "workers", "'two': must be a whole number, at least 0"),
    ("train --init words", "init", "of an init imported here"),
    ("predict --softmax-scale 3", "softmax_scale", "needs activation='softmax'"),
    ("predict --spectrum -.4", "spectrum", "eigenvalues must not be negative"),
]


@pytest.mark.parametrize(("command", "field", "value"), BAD, ids=[words for words, _, _ in BAD])
def test_bad_input_is_one_line_that_names_field_and_value(
    command: str, field: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = Answer(capsys, *shlex.split(command))
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("saddlescope: ")
    assert answer.err.count("\n") == 1
    assert answer.err.endswith("\n")
    # A number may be spelt 5 or 5.0, and a flag with hyphens or underscores.
    assert field.strip("-").replace("_", "-") in answer.err.replace("_", "-")
    assert value in answer.err
    assert list(Path().iterdir()) == [], "nothing was written"


def test_one_number_is_a_spectrum_of_one_eigenvalue(capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer(capsys, "predict", "--spectrum", ".4", "--heads", "1", "--json")
    assert answer.code == 0
    task = ss.InContextRegression([0.4], context_length=31)
    levels = ss.theory.plateau_losses(task).tolist()
    assert json.loads(answer.out)["plateau_losses"] == pytest.approx(levels)


@pytest.mark.parametrize("verb", ["predict", "train"])
def test_help_shows_an_example_that_works(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer(capsys, verb, "--help")
    assert answer.code == 0
    text = " ".join(answer.out.split())
    assert f"Examples: saddlescope {verb} --" in text
    for flag in ("--spectrum", "--context-length", "--heads", "--rank", "--seeds", "--json"):
        assert flag in answer.out


def test_without_a_verb_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer(capsys)
    assert answer.code == 0
    assert "predict" in answer.out
    assert "train" in answer.out


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "words", [None, [], ["--help"], ["train", "--help"], ["predict", "--help"]], ids=str
)
def test_import_and_help_load_no_jax(words: list[str] | None) -> None:
    code = "import sys, saddlescope\n"
    if words is not None:
        code += f"from saddlescope.cli import main\ntry: main({words!r})\nexcept SystemExit: pass\n"
    code += (
        "heavy = {'jax', 'jaxlib', 'diffrax', 'equinox', 'xarray', 'matplotlib', 'scipy', 'zarr'}\n"
        "loaded = sorted(heavy & set(sys.modules))\n"
        "assert not loaded, loaded\n"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", ["--help", "predict --help", "reproduce --list"])
def test_a_reader_who_leaves_early_is_no_error(words: str) -> None:
    code = f"from saddlescope.cli import main; main({words.split()!r})"
    command = [sys.executable, "-c", f"import sys; sys.stdin.read(); {code}"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        process.stdout.close()
        process.stdin.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_cannot_be_written_is_said_in_one_line() -> None:
    code = "from saddlescope.cli import main; main(['reproduce', '--list'])"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "saddlescope: the output cannot be written: No space left on device\n"


def test_what_cannot_be_replaced_is_not_said_to_be(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = tmp_path / "out" / "run"
    run.mkdir(parents=True)
    (run / "notes.txt").write_text("not a run")
    answer = Answer(capsys, "train", *SMALL, *DESCENT, "--out", str(tmp_path / "out"))
    assert answer.code == 2
    assert answer.err.endswith("(it has no manifest); remove it, or name another folder\n")
    assert (run / "notes.txt").read_text() == "not a run"


def test_a_user_without_a_home_has_commands_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)

    def nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", nobody)
    with pytest.raises(SystemExit) as end:
        main(["predict", *SMALL, "--json"])
    assert end.value.code == 0
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ

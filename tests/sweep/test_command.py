"""`saddlescope sweep` from the command line, and the examples."""

import json
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.cli import main, sweep
from saddlescope.sweep import kernel
from saddlescope.sweep.axes import Values
from saddlescope.sweep.pools import pool_of

EXAMPLES = Path(__file__).parents[2] / "examples" / "sweeps"
TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
DESCENT = ss.GradientDescent(learning_rate=0.1, steps=20_000)
PLAN = """
keep = ["final_loss", "drops"]

[base]
seeds = 2
model = { kind = "separate", heads = 3 }
task = { kind = "in_context_regression", spectrum = [0.6, 0.3], context_length = 31 }
method = { kind = "descent", learning_rate = 0.2, steps = 400 }

[axes]
init_scale = [0.05, 0.1]
"""


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("EQX_ON_ERROR", "nan")
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


def command(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    return end.value.code, *capsys.readouterr()


def test_a_plan_is_tried_run_extended_drawn_and_shown(
    plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = command(capsys, "sweep", plan, "--dry-run", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["points"] == 4
    assert not Path("runs").exists()
    code, out, err = command(capsys, "sweep", plan, "--workers", 0)
    assert (code, out, err) == (0, "4 points: 4 finished\nwrote runs/plan\n", "")
    plan.write_text(PLAN.replace("[0.05, 0.1]", "[0.05, 0.1, 0.2]"))
    code, out, err = command(capsys, "sweep", plan, "--workers", 0)
    assert (code, out) == (2, "")
    assert (
        "axes.init_scale was [0.05, 0.1] and is [0.05, 0.1, 0.2]; --extend adds new values" in err
    )
    assert err.count("\n") == 1
    code, out, err = command(capsys, "sweep", plan, "--workers", 0, "--extend", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["status"]["finished"] == 6
    shown = ("--x", "init_scale", "--y", "final_loss")
    code, out, _ = command(capsys, "sweep", "plot", "runs/plan", *shown, "--out", "a/b.svg")
    assert (code, out) == (0, "wrote a/b.svg\n")
    assert Path("a/b.svg").read_text().startswith("<?xml")
    code, out, _ = command(capsys, "sweep", "page", "runs/plan")
    assert (code, out) == (0, "wrote runs/plan.html\n")


def test_a_point_that_diverges_is_said_and_the_exit_code_is_one(
    plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan.write_text(PLAN.replace("init_scale = [0.05, 0.1]", "learning_rate = [0.2, 50.0]"))
    code, out, err = command(capsys, "sweep", plan, "--out", "store", "--workers", 0)
    assert (code, err) == (1, "")
    assert out.startswith("4 points: 2 finished, 2 diverged\n  ")
    assert "learning_rate" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.toml"], "plan = 'none.toml': cannot be read"),
        (["plan.toml", "--cluster", "nonsense"], "cluster = 'nonsense': must be an address"),
        (["plan.toml", "--workers", "-1"], "workers = -1: must be a whole number"),
        (
            ["plan.toml", "--workers", "2", "--cluster", "tcp://host:1"],
            "workers = 2: a cluster has",
        ),
        (["plan.toml", "--out", "n" * 300], "cannot be read: File name too long"),
        (["page", "n" * 300], "there is no sweep"),
        (["plan.toml", "--out", "plan.toml"], "out = 'plan.toml': exists and is not a sweep"),
        (["plot", "none", "--x", "a", "--y", "b"], "store = 'none': there is no sweep"),
        (["plot", "none", "--x", "a", "--y", "b", "--out", "a.gif"], "out = 'a.gif': must end in"),
        (["page", "plan.toml"], "there is no sweep"),
    ],
)
@pytest.mark.usefixtures("plan")
def test_nonsense_is_answered_in_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = command(capsys, "sweep", *words)
    assert code in (1, 2)
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_the_kernel_runs_batches_by_itself(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel.main([str(plan), "--out", "batches"])
    assert "batch-000000.npz: 4 rows in" in capsys.readouterr().out
    with np.load("batches/batch-000000.npz") as stored:
        array = ss.Sweep.load(plan).run(workers=0)
        expected = array["final_loss"].to_numpy()[stored["point"], stored["seed"]]
        np.testing.assert_array_equal(stored["final_loss"], expected)
    with pytest.raises(SystemExit) as end:
        kernel.main([str(plan), "--batch", "7"])
    assert end.value.code == 2
    assert capsys.readouterr().err == "saddlescope: batch = 7: must be from 0 to 0\n"


def small(name: str, **changes: object) -> ss.Sweep:
    """A plan of the examples with the ends of its axes, in two dimensions and by descent."""
    plan = ss.Sweep.load(EXAMPLES / f"{name}.toml").plan
    axes = {
        field: [axis.values[0], axis.values[-1]]
        for field, axis in plan.axes.items()
        if isinstance(axis, Values)
    }
    base = plan.base.replace(method=DESCENT, seeds=2)  # type: ignore[attr-defined]
    for part in ("task", "model"):
        base = base.replace(**{part: changes.pop(part, getattr(base, part))})
    keep: list[str] = [*plan.keep]  # type: ignore[list-item]
    return ss.Sweep(base, keep=keep, modules=plan.modules, **{**axes, **changes})  # type: ignore[arg-type]


def test_the_examples_are_of_the_size_that_they_say() -> None:
    assert ss.Sweep.load(EXAMPLES / "drop_times.toml").plan.rows == 10_000
    for path in EXAMPLES.glob("*.toml"):
        assert ss.Sweep.load(path).plan.rows > 50


def test_drop_times_are_those_of_t18() -> None:
    sweep = small(
        "drop_times",
        model=ss.SeparateAttention(heads=3),
        task=TASK,
        spectrum=["power:2:0.5", "power:2:1"],
        init_scale=[0.01, 0.1],
    )
    array = sweep.run(workers=0)
    errors = np.abs(array["predicted_drop_time"] / array["drop_time"] - 1).sel({"drop": 1})
    # A step of .1 errs by about 1e-3 of a drop's time, T18 by w of it.
    assert float(errors.sel(init_scale=0.01).max()) < 5e-3
    assert float(errors.sel(init_scale=0.1).max()) < 0.05


def test_large_starts_are_lazy() -> None:
    model = ss.SeparateAttention(heads=3)
    sweep = small("rich_to_lazy", model=model, task=TASK, heads=[3], init_scale=[0.02, 2.0])
    change = sweep.run(workers=0)["relative_change"].mean("seed").squeeze()
    assert change[0] > 10 * change[1]


def test_a_small_pool_is_remembered_and_a_large_one_learned_from() -> None:
    pool = ss.TaskPool("white:2:0.5", 16, tasks=2)
    model = ss.MergedAttention(heads=3, blocks="full")
    sweep = small("memory_or_context", model=model, task=pool, context_length=[16])
    array = sweep.run(workers=0)
    few, many = array["final_loss_in_context"].mean("seed").to_numpy().ravel()
    assert few > 1.5 * many


def test_the_dashboard_of_local_workers_shows_its_pages() -> None:
    with pool_of(None, 1, ()) as pool, urllib.request.urlopen(str(pool.address)) as page:
        assert "bokeh.min.js" in page.read().decode()


@pytest.mark.parametrize(("found", "said"), [(None, "needs bokeh: pip install bokeh"), ("x", "")])
def test_the_dashboards_address_comes_with_what_it_needs(monkeypatch, found, said):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found)
    line = sweep._dashboard("http://127.0.0.1:8787/status")
    assert line.startswith("Dask's dashboard: http://127.0.0.1:8787/status")
    assert said in line
    assert ("bokeh" in line) == (found is None)

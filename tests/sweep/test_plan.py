"""Plans: what points there are, from Python and from files, and what is refused."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.sweep.conftest import BASE, TASK, make_sweep

import saddlescope as ss
from saddlescope.sweep.batches import Batches, cells_of
from saddlescope.sweep.plan import Plan, load_plan

PLAN = """
keep = ["final_loss", "drops"]

[base]
seeds = 2
model = { kind = "separate", heads = 3 }
task = { kind = "in_context_regression", spectrum = [0.6, 0.3], context_length = 31 }
method = { kind = "descent", learning_rate = 0.2, steps = 400 }
"""


def write(tmp_path: Path, axes: str, text: str = PLAN) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(f"{text}\n[axes]\n{axes}\n")
    return path


def test_every_combination_of_crossed_axes_is_a_point() -> None:
    plan = Plan(BASE, {"heads": [2, 4], "init_scale": ss.log_range(0.01, 1, 3), "seeds": [5, 7, 9]})
    assert plan.dimensions == {"heads": 2, "init_scale": 3, "seed": 3}
    points = plan.subject.points(plan)
    found = [(p.model.heads, p.init.init_scale, p.seeds) for p in points]
    assert found == [(h, s, (5, 7, 9)) for h in (2, 4) for s in (0.01, 0.1, 1.0)]
    assert points[0].task is points[5].task, "what is not varied is made once"


def test_zipped_and_random_values_share_one_dimension() -> None:
    axes = {
        "rank": ss.zipped([1, 2, 2]),
        "init_scale": ss.log_uniform(0.01, 1),
        "heads": ss.integers(2, 4),
        "context_length": [10, 31],
    }
    plan = Plan(BASE, axes)
    assert plan.dimensions == {"context_length": 2, "point": 3, "seed": 2}
    points = plan.subject.points(plan)
    assert [p.model.rank for p in points] == [1, 2, 2] * 2
    scales = [p.init.init_scale for p in points]
    assert scales[:3] == scales[3:]
    assert all(0.01 <= scale <= 1 for scale in scales)
    assert len(set(scales)) == 3
    assert {p.model.heads for p in points} <= {2, 3, 4}
    # A field's draws hang on nothing but its name and the seed.
    alone = Plan(BASE, {"init_scale": ss.log_uniform(0.01, 1)}, draws=5)
    assert [p.init.init_scale for p in alone.subject.points(alone)][:3] == scales[:3]
    other = Plan(BASE, {"init_scale": ss.log_uniform(0.01, 1)}, draws=5, draw_seed=1)
    assert other.shared["init_scale"] != alone.shared["init_scale"]


def test_zipped_seeds_give_each_point_its_own() -> None:
    plan = Plan(BASE, {"seeds": ss.zipped([4, 8]), "init_scale": ss.zipped([0.1, 0.2])})
    assert plan.dimensions == {"point": 2}
    assert [p.seeds for p in plan.subject.points(plan)] == [(4,), (8,)]


def test_whole_parts_are_swept_too() -> None:
    models = [{"kind": "merged", "heads": 2}, ss.SeparateAttention(heads=3)]
    plan = Plan(BASE, {"model": models, "heads": [2, 4]})
    found = [(type(p.model).__name__, p.model.heads) for p in plan.subject.points(plan)]
    kinds = ("MergedAttention", "SeparateAttention")
    assert found == [(kind, heads) for kind in kinds for heads in (2, 4)]


def test_a_file_and_python_give_the_same_plan(tmp_path: Path) -> None:
    path = write(tmp_path, "init_scale = { log_range = [0.01, 1, 3] }\nheads = [2, 4]")
    axes = {"init_scale": ss.log_range(0.01, 1, 3), "heads": [2, 4]}
    assert load_plan(path).digest == Plan(BASE, axes, ("final_loss", "drops")).digest
    random = write(tmp_path, "rank = { zipped = [1, 2] }\nlabel_noise = { uniform = [0, 1] }")
    axes = {"rank": ss.zipped([1, 2]), "label_noise": ss.uniform(0, 1)}
    assert load_plan(random).digest == Plan(BASE, axes, ("final_loss", "drops")).digest


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ("heads = [2, 0]", r"heads = 0: .*at least 1 \(at heads = 0\)"),
        ("heads = 3", r"axes\.heads = 3: must be a list of values"),
        ("heads = []", r"axes\.heads = \[\]: must hold at least one value"),
        ("heads = [2, 2]", r"axes\.heads = .*each value once"),
        ("hds = [2]", r"axes\.hds = 'hds': is no field of the base; there are model, task, "),
        ("points = [5]", r"axes\.points = 'points': is no field"),
        ("heads = { log = [1, 2] }", r"axes\.heads = .*must be a list, or a table with one of"),
        ("init_scale = { log_range = [0, 1, 3] }", r"axes\.init_scale = 0: .*above 0"),
        ("init_scale = { log_range = [1, 3] }", r"axes\.init_scale = .*takes 3 numbers"),
        (
            "init_scale = { uniform = [0.1, 1] }",
            r"draws = None: must say how many init_scale to draw",
        ),
        (
            "rank = { zipped = [1, 2] }\nheads = { zipped = [1] }",
            r"axes = .*must have the same length",
        ),
        ("seeds = [1, 1]", r"seeds = .*each once"),
        ("heads = { range = [1, 1e9, 100000001] }", r"axes\.heads = .*at most"),
        (
            "init_scale = { uniform = [-1.7e308, 1.7e308] }",
            r"axes\.init_scale = .*is too wide a range",
        ),
        (
            "init_scale = { range = [-1.7e308, 1.7e308, 3] }",
            r"axes\.init_scale = .*is too wide a range",
        ),
        ("seeds = 1000000000000", r"axes\.seeds = 1000000000000: must be at most"),
        ("heads = [1979-05-27]", r"axes\.heads = datetime.*cannot be written down"),
        ('method = ["flow"]', r"axes\.method = 'flow': must be a table with a kind: flow, descent"),
        ("model = [{ heads = 3 }]", r"axes\.model = \{'heads': 3\}: must be a table with a kind"),
        ('blocks = ["reduced", "full"]', r"keep = 'drops': .* \(at blocks = full\)"),
        (
            'activation = ["softmax"]',
            r"task = .*has no exact moments.* \(at activation = softmax\)",
        ),
    ],
)
def test_what_is_wrong_with_axes_is_said(axes: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ss.InvalidInput, match=said) as refusal:
        ss.Sweep.load(write(tmp_path, axes)).estimate()
    assert "\n" not in str(refusal.value)


def test_too_many_values_are_refused_before_they_fill_the_memory() -> None:
    with pytest.raises(ss.InvalidInput, match=r"axes\.heads = 'range\(.*at most 10000000 values"):
        Plan(BASE, {"heads": range(1, 10**9)})
    with pytest.raises(ss.InvalidInput, match=r"draws = 1000000000000: .*at most 10000000"):
        Plan(BASE, {"init_scale": ss.uniform(0.1, 1)}, draws=10**12)
    with pytest.raises(ss.InvalidInput, match=r"uniform = .*is too wide a range"):
        ss.uniform(-1.7e308, 1.7e308)


def test_kept_quantities_and_axes_have_names_of_their_own() -> None:
    def named(name: str) -> Callable[..., object]:
        def measure(run: ss.Trajectory) -> object:
            return run.loss[:, -1]

        measure.__name__ = name
        return measure

    for name, others in (("loss", []), ("time", ["loss"]), ("mine", [named("mine")])):
        with pytest.raises(ss.InvalidInput, match=f"keep = '{name}': names two things"):
            Plan(BASE, keep=[*others, named(name)])
    for name in ("status", "heads", "seed", "drop"):
        with pytest.raises(ss.InvalidInput, match=f"keep = '{name}': names two things"):
            Batches(Plan(BASE, {"heads": [2, 3]}, keep=["drop_time", named(name)]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"plan\.base = None: is missing"),
        ("[base]", r"base\.model = None: is missing"),
        ("x = [", r"plan = .*is no TOML"),
        ("base = 3", r"base = 3: must be a table"),
        ("base = { kind = 'inducton' }", r"base\.kind = 'inducton': must be grokking, induction"),
        (PLAN.replace("heads = 3", "heads = -3"), r"heads = -3: must be a whole number"),
        (PLAN.replace('"drops"', '"dropz"'), r"keep = 'dropz': must be among final_loss, drops"),
        (PLAN.replace("[base]", "extra = 1\n[base]"), r"plan\.extra = 1: unknown field"),
        (f"batch_rows = 0\n{PLAN}", r"batch_rows = 0: must be a whole number, at least 1"),
        (f"draws = [3]\n{PLAN}", r"draws = \[3\]: must be a whole number"),
        (f"draws = 1000000000000\n{PLAN}", r"draws = 1000000000000: must be .* at most"),
        (f"draws = 3\n{PLAN}", r"draws = 3: there is no random axis"),
        (f"modules = ['none.py']\n{PLAN}", r"modules = '.*none.py': there is no such file"),
        (f"modules = ['plan.toml']\n{PLAN}", r"modules = .*: must be a Python file"),
    ],
)
def test_what_is_wrong_with_a_plan_is_said(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(ss.InvalidInput, match=said) as refusal:
        ss.Sweep.load(path)
    assert "\n" not in str(refusal.value)
    with pytest.raises(ss.InvalidInput, match=r"plan = .*cannot be read"):
        ss.Sweep.load(tmp_path / "none.toml")


@pytest.mark.parametrize("modules", ["measures.py", 3, np.array(3)])
def test_modules_are_a_list(modules: object) -> None:
    with pytest.raises(ss.InvalidInput, match=r"modules = .*: must be a list of files"):
        ss.Sweep(BASE, modules=modules)  # type: ignore[arg-type]


def test_a_number_in_an_array_is_no_list_of_values() -> None:
    with pytest.raises(ss.InvalidInput, match=r"axes\.heads = .*: must be a list of values"):
        ss.Sweep(BASE, heads=np.array(3))


def test_a_range_of_large_whole_numbers_does_not_wrap_around() -> None:
    assert ss.linear_range(0, 10**19, 2).values == (0, 10**19)


def test_the_estimate_counts_points_and_their_size() -> None:
    estimate = make_sweep(keep=["final_loss", "drop_time"]).estimate()
    assert (estimate.points, estimate.batches) == (12, 3)
    # A loss, two drops, the status and the reason.
    assert estimate.bytes == 12 * 8 * 5
    assert 0 < estimate.seconds < 10
    assert re.match(r"12 points \(3 init_scale × 2 context_length × 2 seed\) in 3 ", str(estimate))


def test_every_row_is_in_one_batch_and_longer_ones_come_later() -> None:
    base = ss.Setting(ss.SeparateAttention(heads=3), TASK, ss.GradientDescent(0.2, 400), seeds=2)
    plan = Plan(base, {"steps": [400, 100, 200], "heads": [3, 9]})
    batches = Batches(plan)
    rows = [
        (int(p), int(s))
        for n in range(len(batches))
        for p, s in zip(*batches.labels(n), strict=True)
    ]
    assert sorted(rows) == [(point, seed) for point in range(6) for seed in (0, 1)]
    cells = np.concatenate([batches.cells(n, plan) for n in range(len(batches))])
    assert sorted(cells) == list(range(12))
    frames = {batch.frame.sizes: [] for batch in batches}  # type: ignore[union-attr]
    for batch in batches:
        frames[batch.frame.sizes] += [item.method.steps for item in batch.items]  # type: ignore[union-attr]
    assert {dict(sizes)["heads"] for sizes in frames} == {3, 9}
    assert all(steps == sorted(steps) for steps in frames.values())


def test_a_plan_can_say_how_many_rows_run_together(tmp_path: Path) -> None:
    written = write(tmp_path, "init_scale = [0.05, 0.1]", f"batch_rows = 2\n{PLAN}")
    assert load_plan(written).batch_rows == 2
    axes = {"init_scale": [0.05, 0.1, 0.2], "seeds": [0, 1]}
    assert list(Batches(Plan(BASE, axes)).counts) == [4, 2]
    plan = Plan(BASE, axes, batch_rows=2)
    assert list(Batches(plan).counts) == [2, 2, 2]
    assert plan.digest != Plan(BASE, axes).digest


def test_a_larger_plan_holds_the_cells_of_a_smaller_one() -> None:
    small = Plan(BASE, {"heads": [2, 4], "init_scale": [0.1, 0.2]})
    large = Plan(BASE, {"heads": [1, 2, 4], "init_scale": [0.1, 0.2, 0.3], "seeds": 3})
    cells = cells_of(small, large)
    assert cells.tolist() == [[9, 10], [12, 13], [18, 19], [21, 22]]
    assert Batches(large, small).rows == large.rows - small.rows
    with pytest.raises(ss.InvalidInput, match="must still have every value that was there"):
        cells_of(large, small)


def test_drops_are_kept_by_default_where_their_levels_are_known() -> None:
    assert Plan(BASE, {}).subject.names == (
        "final_loss",
        "drop_time",
        "predicted_drop_time",
        "drops",
    )
    model = ss.SeparateAttention(heads=3, activation="softmax")
    softmax = BASE.replace(model=model, task=TASK.sample(16, seed=0))
    assert Plan(softmax, {}).subject.names == ("final_loss",)
    with pytest.raises(
        ss.InvalidInput, match=r"keep = 'drops': the plateau levels are not known: keep"
    ):
        ss.Sweep(softmax, keep=["drops"]).estimate()

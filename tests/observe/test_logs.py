"""Logs of every form, tidy and messy: what is read, and what is said."""

from __future__ import annotations

import json

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from saddlescope.errors import InvalidInput
from saddlescope.observe import read_log

STEPS = list(range(0, 100, 10))
LOSSES = [round(3.0 - 0.2 * n, 1) for n in range(10)]
TIDY = "step,loss\n" + "".join(f"{s},{x}\n" for s, x in zip(STEPS, LOSSES, strict=True))


@pytest.fixture
def written(tmp_path):
    def write(text, name="log"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


FORMS = {
    "comma": TIDY,
    "semicolon": TIDY.replace(",", ";"),
    "tab": TIDY.replace(",", "\t"),
    "spaces": TIDY.replace(",", "  "),
    "byte order mark": "\ufeff" + TIDY,
    "comments and blank lines": "# a run\n\n" + TIDY,
    "carriage returns": TIDY.replace("\n", "\r\n"),
    "header again": TIDY.replace("50,", "step,loss\n50,"),
    "no names": TIDY.partition("\n")[2],
    "other names": TIDY.replace("step,loss", "Iteration,Train/Loss"),
    "more columns": "lr," + TIDY.replace("\n", "\n0.1,", 10),
    "lines": "\n".join(
        json.dumps({"step": s, "train": {"loss": x}, "lr": 1})
        for s, x in zip(STEPS, LOSSES, strict=True)
    ),
    "list": json.dumps([{"step": s, "loss": x} for s, x in zip(STEPS, LOSSES, strict=True)]),
    "lists by name": json.dumps({"step": STEPS, "loss": LOSSES}),
    "the Trainer's state": json.dumps(
        {
            "global_step": 90,
            "log_history": [
                *({"step": s, "loss": x} for s, x in zip(STEPS, LOSSES, strict=True)),
                {"step": 90, "eval_loss": 0.5},
            ],
        }
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_holds_the_curve(form, written):
    curve = read_log(written(FORMS[form])).only
    assert curve.steps.tolist() == STEPS
    np.testing.assert_allclose(curve.losses, LOSSES)
    assert curve.notes == ()


def test_rows_without_a_finite_loss_are_left_out_and_said(written):
    text = TIDY.replace("30,2.4", "30,nan").replace("40,2.2", "40,").replace("60,1.8", "60,oops")
    log = read_log(written(text.replace("80,1.4", "80,inf")))
    assert log.only.steps.tolist() == [0, 10, 20, 50, 70, 90]
    assert log.only.notes == ("rows 5, 6, 8, 10: no finite loss, left out",)
    assert log.notes == ("loss is 'loss', step is 'step'",)


def test_a_torn_last_line_is_left_out_and_said(written):
    lines = FORMS["lines"]
    log = read_log(written(lines[:-9] + "\n"))
    assert log.only.steps.tolist() == STEPS[:-1]
    assert "row 10: no JSON object, left out" in log.notes


def test_a_restart_takes_the_place_of_what_it_does_again(written):
    again = "".join(f"{s},9\n" for s in (50, 60, 70))
    curve = read_log(written(TIDY + again)).only
    assert curve.steps.tolist() == [0, 10, 20, 30, 40, 50, 60, 70]
    assert curve.losses.tolist()[-3:] == [9, 9, 9]
    assert curve.notes == (
        "row 12: a restart at step 50; 5 earlier rows from there on are replaced by what follows",
    )


def test_rows_out_of_order_are_sorted_and_said(written):
    lines = TIDY.splitlines()
    lines[4], lines[5] = lines[5], lines[4]
    curve = read_log(written("\n".join(lines))).only
    assert curve.steps.tolist() == STEPS
    np.testing.assert_allclose(curve.losses, LOSSES)
    assert curve.notes == ("row 6: out of order, sorted by step",)


@given(st.permutations(range(10)), st.data())
def test_any_order_gives_the_same_curve(order, data):
    from saddlescope.observe.logs._columns import Row
    from saddlescope.observe.logs._tidy import tidied

    rows = [Row(n, "", float(STEPS[k]), LOSSES[k]) for n, k in enumerate(order)]
    steps, losses, notes = tidied(rows)
    assert steps == STEPS
    assert losses == LOSSES
    assert bool(notes) == (list(order) != sorted(order))


def test_several_runs_by_a_column_by_columns_and_one_after_the_other(written):
    both = "run,step,loss\n" + "".join(
        f"{run},{s},{x + n}\n"
        for s, x in zip(STEPS, LOSSES, strict=True)
        for n, run in enumerate("ab")
    )
    log = read_log(written(both))
    assert [curve.name for curve in log.curves] == ["a", "b"]
    np.testing.assert_allclose(log.curves[1].losses, np.array(LOSSES) + 1)
    with pytest.raises(InvalidInput, match="must hold one run, and holds a, b"):
        _ = log.only
    exported = "Step,a - train/loss,a - train/loss__MIN,b - train/loss\n1,3,3,\n2,2,2,4\n3,1,1,3\n"
    log = read_log(written(exported))
    assert {curve.name: curve.losses.tolist() for curve in log.curves} == {
        "a": [3, 2, 1],
        "b": [4, 3],
    }
    log = read_log(written(TIDY + TIDY.partition("\n")[2]))
    assert [curve.name for curve in log.curves] == ["run 1", "run 2"]
    assert log.notes[-1] == "row 12: the steps begin again, which is read as another run"


def test_steps_that_nobody_tells_are_counted(written):
    log = read_log(written("loss\n3\n2\nnan\n1\n"))
    assert log.only.steps.tolist() == [0, 1, 2]
    assert "steps are counted by rows" in log.notes[0]


def test_columns_are_chosen(written):
    path = written("t,train,val_loss\n1,3,9\n2,2,8\n")
    with pytest.raises(InvalidInput, match="must name the column of the loss, one of 't', 'train'"):
        read_log(path)
    curve = read_log(path, column="val_loss", step_column="t").only
    assert curve.losses.tolist() == [9, 8]
    assert read_log(path, column="t").notes == ("loss is 't', steps are counted by rows",)
    for same in ({"step_column": "t"}, {"run_column": "t"}):
        with pytest.raises(InvalidInput, match=r"_column = 't': is the column of the loss"):
            read_log(path, column="t", **same)
    with pytest.raises(InvalidInput, match="step_column = 'x': must be one of 't'"):
        read_log(path, column="train", step_column="x")


def test_tensorboards_event_files(tmp_path):
    from tensorboardX import SummaryWriter

    for run, shift in (("a", 0.0), ("b", 1.0)):
        with SummaryWriter(str(tmp_path / run)) as writer:
            for step, loss in zip(STEPS, LOSSES, strict=True):
                writer.add_scalar("train/loss", loss + shift, step)
                writer.add_scalar("lr", 0.1, step)
    log = read_log(tmp_path)
    assert [curve.name for curve in log.curves] == ["a", "b"]
    np.testing.assert_allclose(log.curves[1].losses, np.array(LOSSES) + 1, rtol=1e-6)
    (file,) = (tmp_path / "a").iterdir()
    np.testing.assert_allclose(read_log(file).only.losses, LOSSES, rtol=1e-6)
    np.testing.assert_allclose(read_log(file, column="lr").only.losses, 0.1, rtol=1e-6)
    # Half written: what stands before the tear is read.
    file.write_bytes(file.read_bytes()[:-30])
    assert len(read_log(file).only.steps) == 10
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert 0 < len(read_log(file).only.steps) < 10
    file.write_bytes(b"no events")
    with pytest.raises(InvalidInput, match="holds no scalars"):
        read_log(file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no rows"),
        (b"\n\n# nothing\n", "holds no rows"),
        (b"\x00\x01\x02", "must be text"),
        (b"step,loss\n1,nan\n", "holds no finite loss"),
        (b"step,loss\n", "holds no finite loss"),
        (b"1,2,3\n4,5,6\n", "must begin with the names of its columns"),
        (b"{}", "holds no rows"),
        (b"[[1, 2]]", "holds no rows"),
        (b"[" * 100_000, "must name the column of the loss"),
        (b"step,loss,image\n1,2," + b"A" * 200_000, "is no table: field larger than"),
    ],
)
def test_what_is_no_log_is_refused_in_one_line(content, message, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=message) as caught:
        read_log(path)
    assert "\n" not in str(caught.value)


def test_places_without_a_log(tmp_path):
    with pytest.raises(InvalidInput, match="there is no such file"):
        read_log(tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match="must be a file, or hold TensorBoard's event files"):
        read_log(tmp_path)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(content)
        try:
            log = read_log(path)
        except InvalidInput:
            return
        for curve in log.curves:
            assert np.isfinite(curve.losses).all()
            assert (np.diff(curve.steps) > 0).all()

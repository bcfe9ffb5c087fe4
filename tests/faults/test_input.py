"""Input of the wrong kind, as users without our type checks give it: one line that names it.

The tests of this repository run with types checked at every call, which would catch these first. A
process of its own has no such checks.
"""

import json
import subprocess
import sys

import pytest

PREPARE = """
import json, sys
import numpy as np
import saddlescope as ss
from saddlescope.setting import Setting

task = ss.InContextRegression([.6, .3], context_length=31)
model = ss.SeparateAttention(2)
method = ss.GradientDescent(.1, 3)
good = dict(task=task, model=model, method=method, init=ss.RandomStart(), seeds=(0,))
good["record"] = ss.Record()
values = Setting(**good).to_dict()

def train(**changes):
    arguments = dict(model=model, task=task, method=method, record=3)
    return ss.train(**{**arguments, **changes})

def setting(**changes):
    return Setting(**{**good, **changes})

def read(**changes):
    return Setting.from_dict({**values, **changes})

def answer(code):
    try:
        eval(code)
    except Exception as error:
        return [type(error).__name__, str(error), getattr(error, 'field', None)]
    return ['accepted', '', None]

json.dump([answer(code) for code in json.load(sys.stdin)], sys.stdout)
"""

# What is asked for, and the field that the one line must name.
REFUSED = {
    "ss.SeparateAttention('two')": "heads",
    "ss.SeparateAttention(2.5)": "heads",
    "ss.SeparateAttention(None)": "heads",
    "ss.SeparateAttention(2, [1])": "rank",
    "ss.MergedAttention(2, 3)": "normalisation",
    "ss.GradientFlow(until='soon')": "until",
    "ss.GradientFlow(until=None)": "until",
    "ss.GradientFlow(until=1j)": "until",
    "ss.GradientFlow(1, rtol='small')": "rtol",
    "ss.GradientDescent('fast', 10)": "learning_rate",
    "ss.GradientDescent(.1, 2.5)": "steps",
    "ss.RandomStart('small')": "init_scale",
    "ss.RandomStart(None)": "init_scale",
    "ss.FixedPointStart(0)": "subset",
    "ss.FixedPointStart((.5,))": "subset",
    "ss.EigenvectorStart(.5)": "direction",
    "ss.BalancedStart(.1, 3)": "direction",
    "ss.GivenStart([1, 2])": "weights",
    "ss.Record(points='many')": "record.points",
    "ss.Record(weights='yes')": "record.weights",
    "ss.Record(at='soon')": "record.at",
    "ss.InContextRegression([.6, .3], 31, label_noise='loud')": "label_noise",
    "ss.InContextRegression(None, 31)": "spectrum",
    "ss.InContextRegression({'a': 1}, 31)": "spectrum",
    "ss.InContextRegression([.6, .3], {31: 'x'})": "probabilities",
    "ss.Spectrum.white('three')": "dimension",
    "ss.Prompts('words', 'words')": "x",
    "task.sample(2.5)": "prompts",
    "task.sample(3, seed='a')": "seed",
    "train(model='separate')": "model",
    "train(task=[.6, .3])": "task",
    "train(method='flow')": "method",
    "train(init=3)": "init",
    "train(weights=3)": "weights",
    "train(weights={'v': 'x', 'k': 1, 'q': 2})": "weights['v']",
    "train(start='run')": "start",
    "train(seeds='three')": "seeds",
    "train(seeds=2.5)": "seeds",
    "train(seeds=[.5])": "seeds",
    "train(seeds=['a'])": "seeds",
    "train(init_scale='small')": "init_scale",
    "train(record='cubic')": "record.spacing",
    "train(record={'a': 1})": "record",
    "ss.resume(3)": "interrupted",
    "ss.solver_error(3)": "trajectory",
    "ss.predict(model, 3)": "task",
    "ss.predict(task, 3)": "model",
    "ss.predict(model, task, seeds='three')": "seeds",
    "ss.predict(model, task, method=3)": "method",
    "setting(task=3)": "task",
    "setting(model=3)": "model",
    "setting(method=3)": "method",
    "setting(init=3)": "init",
    "setting(record=3)": "record",
    "setting(seeds='3')": "seeds",
    "setting(seeds=(.5,))": "seeds",
    "read(seeds={})": "seeds",
    "read(seeds=[.5])": "seeds",
    "read(model={**values['model'], 'heads': 'x'})": "heads",
    "read(record={**values['record'], 'points': 'x'})": "record.points",
    "read(init={'kind': 'given', 'arrays': {'v': 'x'}})": "weights['v']",
    "Setting.from_dict([1])": "setting",
    "Setting.from_dict('words')": "setting",
}

# Numbers that are whole in value count as whole numbers, whatever their type.
ACCEPTED = [
    "train(model=ss.SeparateAttention(2.0))",
    "train(model=ss.SeparateAttention(np.int64(2), np.float64(1)))",
    "train(record=ss.Record(points=3.0))",
    "train(method=ss.GradientDescent(np.float32(.1), 5.0))",
    "train(init=ss.EigenvectorStart(1.0))",
    "train(seeds=np.int64(2))",
    "train(seeds=np.arange(2))",
    "train(seeds=2.0)",
    "setting(seeds=(np.int64(0), np.int32(1))).digest",
    "read(model={**values['model'], 'heads': 2.0}).digest",
    "task.sample(np.int64(3))",
    "ss.predict(model, task, seeds=np.arange(2))",
]


@pytest.fixture(scope="module")
def answers() -> dict[str, list]:
    """What each expression raises, all in one process."""
    codes = [*REFUSED, *ACCEPTED]
    done = subprocess.run(
        [sys.executable, "-c", PREPARE],
        input=json.dumps(codes),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(codes, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize(("code", "field"), REFUSED.items(), ids=list(REFUSED))
def test_input_of_the_wrong_kind_is_refused(
    code: str, field: str, answers: dict[str, list]
) -> None:
    kind, message, named = answers[code]
    assert kind == "InvalidInput", message
    assert named == field
    assert "\n" not in message


@pytest.mark.parametrize("code", ACCEPTED)
def test_whole_numbers_of_any_type_are_accepted(code: str, answers: dict[str, list]) -> None:
    kind, message, _ = answers[code]
    assert kind == "accepted", message


def test_one_value_of_any_type_is_one_setting() -> None:
    code = (
        PREPARE.rpartition("json.dump(")[0]
        + "one = setting(model=ss.SeparateAttention(2), record=ss.Record(points=9))\n"
        + "same = setting(model=ss.SeparateAttention(2.0), record=ss.Record(points=9.0))\n"
        + "assert one.digest == same.digest\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

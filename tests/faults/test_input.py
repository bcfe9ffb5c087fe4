"""Input of the wrong kind, as users without our type checks give it: one line that names it.

The tests of this repository run with types checked at every call, which would catch these first. A
process of its own has no such checks.
"""

import json
import subprocess
import sys

import pytest

PREPARE = """
import json, os, pathlib, sys, tempfile
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

run = train()
folder = pathlib.Path(tempfile.mkdtemp())
file = folder / "file"
file.write_text("no folder")
os.environ["MPLBACKEND"] = "Agg"

def given(value):
    return {"v": value, "k": np.ones((2, 1, 2)), "q": np.ones((2, 1, 2))}

def nested(depth):
    return [nested(depth - 1)] if depth else 1.0

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
    "ss.FixedPointStart(np.array(2))": "subset",
    "ss.FixedPointStart('')": "subset",
    "ss.EigenvectorStart(.5)": "direction",
    "ss.BalancedStart(.1, 3)": "direction",
    "ss.GivenStart([1, 2])": "weights",
    "ss.Record(points='many')": "record.points",
    "ss.Record(weights='yes')": "record.weights",
    "ss.Record(at='soon')": "record.at",
    "ss.InContextRegression([.6, .3], 31, label_noise='loud')": "label_noise",
    "ss.InContextRegression(None, 31)": "spectrum",
    "ss.InContextRegression({'a': 1}, 31)": "spectrum",
    "ss.InContextRegression(np.ma.array([.6, .3], mask=[0, 1]), 31)": "spectrum",
    "ss.ContextLengths(b'ab')": "context_length",
    "ss.ContextLengths({8: .5, 31: .6})": "probabilities",
    "ss.InContextRegression([.6, .3], {31: 'x'})": "probabilities",
    "ss.Spectrum.white('three')": "dimension",
    "ss.Prompts('words', 'words')": "x",
    "task.sample(2.5)": "prompts",
    "task.sample(3, seed='a')": "seed",
    "train(model='separate')": "model",
    "train(task=[.6, .3])": "task",
    "train(method='flow')": "method",
    "train(init=3)": "init",
    "train(observers=np.array(2))": "observers",
    "run.weights(0, True)": "index",
    "ss.compare(3)": "trajectory",
    "ss.theory.alignment(task, {'v': [[1], [1, 2]], 'U': 1})": "weights['v']",
    "ss.theory.batch_spread(ss.AlignedRegression([1, .5], 9), 1e70, [.1], 5, 4)": "start",
    "ss.theory.conserved_quantities(3, {})": "model",
    "ss.theory.coupled_modes([1, .5], 9, 1e80, .1, [1])": "p",
    "ss.theory.descent_drift(model, task, given([1, 1]), 1e200)": "learning_rate",
    "ss.theory.escape_direction(model, task, 1)": "subset",
    "ss.theory.fixed_points(task).at(np.array(1))": "subset",
    "ss.theory.head_time_course(task, 0, 1e308, [1])": "start",
    "ss.theory.one_head(ss.TaskPool([.6, .3], 8), 3)": "weights",
    "ss.theory.time_course(task, 1e308)": "init_scale",
    "ss.theory.unbalanced_modes([1, .5], 9, 1e308, 0, [1])": "p",
    "ss.measure.first_crossing([2., 1.], None)": "level",
    "ss.measure.norm_curvature([0., 1., 2.], smoothing=1e-320)": "smoothing",
    "train(weights=3)": "weights",
    "train(weights={'v': 'x', 'k': 1, 'q': 2})": "weights['v']",
    "train(start='run')": "start",
    "ss.train_many(3)": "settings",
    "ss.train_many(setting())": "settings",
    "ss.train_many([setting(), None])": "settings[1]",
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
    # Numbers that no array holds.
    "ss.SeparateAttention(2**63)": "heads",
    "ss.SeparateAttention(10**400)": "heads",
    "ss.SeparateAttention(10**5000)": "heads",
    "ss.SeparateAttention(float('inf'))": "heads",
    "ss.SeparateAttention(2, 10**400)": "rank",
    "ss.DeepAttention(10**400, 2)": "layers",
    "ss.DeepAttention(2, 2, 10**400)": "rank",
    "ss.SeparateAttention(2, softmax_scale=10**400)": "softmax_scale",
    "ss.InContextRegression([.6, .3], 10**400)": "context_length",
    "ss.InContextRegression([.6, .3], [3, 2**63])": "context_length",
    "ss.InContextRegression([.6, .3], 'uniform:1:99999999999')": "context_length",
    "ss.InContextRegression([.6, .3], 31, label_noise=10**400)": "label_noise",
    "ss.InContextRegression([.6, 10**400], 31)": "spectrum",
    "ss.InContextRegression([.6, .3], 31, task_covariance=[1, 10**400])": "task_covariance",
    "ss.RandomStart(10**400)": "init_scale",
    "ss.FixedPointStart((10**400,))": "subset",
    "ss.FixedPointStart((0,), 10**400)": "init_scale",
    "ss.EigenvectorStart(2**63)": "direction",
    "ss.GradientFlow(10**400)": "until",
    "ss.GradientFlow(1, rtol=10**400)": "rtol",
    "ss.GradientDescent(10**400, 3)": "learning_rate",
    "ss.GradientDescent(.1, 10**400)": "steps",
    "ss.StochasticGradientDescent(.1, 3, 10**400)": "batch_size",
    "ss.StochasticGradientDescent(.1, 3, 2, key=2**63)": "key",
    "ss.Optimiser('adam', 3, .1, options={'b1': 10**400})": "options['b1']",
    "ss.Optimiser('global_norm', 3, .1)": "optimiser",
    "ss.Optimiser('adam', 3, .1, options=3)": "options",
    "ss.Record(points=10**400)": "record.points",
    "ss.Record(at=[0, 10**400])": "record.at",
    "train(record=10**400)": "record",
    "train(seeds=10**400)": "seeds",
    "train(seeds=[0, 10**400])": "seeds",
    "train(seeds=2**63)": "seeds",
    "train(init_scale=10**400)": "init_scale",
    "train(init_scale=-10**400)": "init_scale",
    "train(weights=given([10**400, 1]))": "weights['v']",
    "task.sample(2**63)": "prompts",
    "task.sample(2, seed=10**400)": "seed",
    "run.index_of(10**400)": "seed",
    "run.weights(0, 10**400)": "index",
    "run.weights(0, 99)": "index",
    "ss.predict(model, task, seeds=10**400)": "seeds",
    # Numbers whose products no float64 holds.
    "train(task=ss.InContextRegression([.6, .3], 31, label_noise=1e300))": "label_noise",
    "train(task=ss.InContextRegression([.6, 1e300], 31))": "spectrum",
    "train(task=ss.InContextRegression([.6, 30], 31, task_covariance=[1, 1e308]))": (
        "task_covariance"
    ),
    "train(init=ss.EigenvectorStart(0, 1e300))": "init_scale",
    # Sizes that no memory holds.
    "ss.Spectrum.make('power:99999999:1')": "spectrum",
    "ss.InContextRegression('white:99999999', 31)": "spectrum",
    "ss.Spectrum.white(10**12)": "dimension",
    "train(record=10**12)": "record.points",
    "train(record=10**12, method=ss.GradientFlow(3))": "record.points",
    "train(model=ss.SeparateAttention(10**12))": "heads",
    "train(model=ss.SeparateAttention(2, 2**62))": "rank",
    "train(method=ss.StochasticGradientDescent(.1, 3, 10**12))": "batch_size",
    "train(method=ss.StochasticGradientDescent(.1, 3, 2**62))": "batch_size",
    "train(task=ss.InContextRegression([.6], 2**62),"
    " method=ss.StochasticGradientDescent(.1, 3, 2))": "context_length",
    "task.sample(10**12)": "prompts",
    "ss.AlignedRegression([.6, .3], 31).sample(10**12)": "prompts",
    "ss.TaskPool([.6, .3], 31, tasks=10**12)": "tasks",
    "run.animate(folder / 'film.gif', frames=10**12)": "frames",
    # Arrays of other things than real numbers.
    "ss.InContextRegression([1j, 1], 31)": "spectrum",
    "ss.InContextRegression(np.array([1 + 0j, 1]), 31)": "spectrum",
    "ss.InContextRegression([True, False], 31)": "spectrum",
    "ss.InContextRegression(['.6', '.3'], 31)": "spectrum",
    "ss.InContextRegression([.6, .3], 31, query_covariance=np.eye(2) * 1j)": "query_covariance",
    "ss.Prompts(np.ones((2, 3, 2)) * 1j, np.ones((2, 3)))": "x",
    "ss.Prompts(np.ones((2, 3, 2)), np.ones((2, 3), dtype=bool))": "y",
    "train(weights=given(np.ones(2) * 1j))": "weights['v']",
    "train(weights=given(np.ones(2) > 0))": "weights['v']",
    "train(record=[0, 1j])": "record",
    "train(record=[False, True])": "record",
    "train(seeds=[1j])": "seeds",
    "train(seeds=[False, True])": "seeds",
    # Values within one another.
    "read(task={**values['task'], 'spectrum': {'array': []}})": "task.spectrum",
    "read(task={**values['task'], 'spectrum': {'array': 'unknown'}})": "task.spectrum",
    "read(task={**values['task'], 'spectrum': nested(500)})": "task.spectrum",
    "read(seeds=nested(500))": "seeds",
    "ss.InContextRegression(nested(500), 31)": "spectrum",
    "ss.TaskPool([.6, .3], 31, tasks=nested(500))": "tasks",
    "ss.Prompts(np.ones((2, 3, 2)), nested(500))": "y",
    "train(record=nested(500))": "record",
    "train(seeds=nested(500))": "seeds",
    "train(weights=given(nested(500)))": "weights['v']",
    # What does not belong together, or is of another kind.
    "ss.evaluate(run, ss.InContextRegression([1, 1, 1], 31))": "task.dimension",
    "ss.evaluate(run, 3)": "task",
    "train(observers=3)": "observers",
    "train(observers=[3])": "observers",
    "train(observers=ss.ProgressBar())": "observers",
    "train(observers=[ss.ProgressBar])": "observers",
    "ss.Checkpoint(3)": "checkpoint",
    "ss.Checkpoint(folder, every='day')": "every",
    "ss.Checkpoint(folder, every=-1)": "every",
    "ss.Optimiser('adam', 3, .1, options={'b1': 'x'})": "options['b1']",
    "ss.trace_algorithms(3)": "trajectory",
    "ss.trace_algorithms(run, candidates=[1])": "candidates",
    "ss.identify_algorithm(lambda prompts: prompts.y[:, 0], task, candidates=[])": "candidates",
    "ss.Sweep(setting(), heads=[2, 3], draws=[1])": "draws",
    "ss.Sweep(setting(), heads=[2, 3], modules=3)": "modules",
    "ss.Sweep(setting(), heads=[2, 3], modules='measures.py')": "modules",
    "ss.make_setting(model, task, method=method, start='run')": "start",
    "ss.regression_moments([1, 2], np.eye(2), np.eye(2), 0, .1)": "covariance.shape",
    "ss.regression_moments(np.eye(2), 'x', np.eye(2), 0, .1)": "task_covariance",
    "ss.regression_moments(np.eye(2), np.eye(2), np.eye(2), None, .1)": "label_noise",
    "ss.sandwich(np.ones((2, 3)), np.eye(2), .1)": "covariance.shape",
    "ss.sandwich(np.eye(2), np.eye(3), .1)": "inner.shape",
    "ss.measure.prefix_matching(np.ones((1, 2, 2)), [[1, 2], [3]])": "tokens",
    "ss.open_lab(3)": "setting",
    "ss.observe.observe_checkpoints([], folder / 'observed')": "checkpoints",
    "run.save(3)": "path",
    "run.save('')": "path",
    "run.save(file)": "path",
    "run.save(file, overwrite=True)": "path",
    "ss.load(None)": "path",
    "run.animate(3)": "path",
    "run.animate(folder / 'film.txt')": "path",
    "train(observers=[ss.Checkpoint(file / 'below')])": "checkpoint",
    "train(observers=[ss.Checkpoint('/proc/below')])": "checkpoint",
}

# Where the system forbids it, and what is raised then.
FORBIDDEN = {
    "run.save(file / 'below')": "CannotWrite",
    "run.save('/proc/below')": "CannotWrite",
    "run.animate(file / 'below.gif')": "CannotWrite",
    "run.animate('/proc/below.gif')": "CannotWrite",
    "ss.load(file)": "CannotRead",
    "ss.load(file / 'below')": "CannotRead",
    "ss.load(folder)": "CannotRead",
    "ss.load('/proc/self/mem')": "CannotRead",
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
    codes = [*REFUSED, *FORBIDDEN, *ACCEPTED]
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


@pytest.mark.parametrize(("code", "error"), FORBIDDEN.items(), ids=list(FORBIDDEN))
def test_a_forbidden_path_is_one_line(code: str, error: str, answers: dict[str, list]) -> None:
    kind, message, _ = answers[code]
    assert kind == error, message
    assert message.startswith("path = '")
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

"""Flags made from fields: which kind they choose, what they give, and what is said of nonsense."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.cli import main
from saddlescope.cli.flags import PARTS, only_fields, read_setting, setting_help, split_words
from saddlescope.errors import InvalidInput
from saddlescope.setting.fields import fields_of
from saddlescope.setting.kinds import kind_name, kinds_of
from saddlescope.setting.toml import save_toml

COVARIANCE = np.array([[0.5, 0.1], [0.1, 0.3]])

OWN = """
from dataclasses import dataclass
import numpy as np
import saddlescope as ss

print("run", __name__)

@dataclass(frozen=True)
class Plain(ss.AbstractTask):
    \"\"\"White inputs.

    - `size`: how many numbers an input has.
    - `power`: their variance.
    \"\"\"

    size: int
    power: float = 1.0

    @property
    def context_length(self):
        return ss.ContextLengths.make(5)

    @property
    def dimension(self):
        return self.size

    def moments(self):
        covariance = self.power * np.eye(self.size)
        return ss.regression_moments(covariance, np.eye(self.size), covariance, 0.0, 1 / 5)

@dataclass(frozen=True)
class Quarter(ss.MergedAttention):
    heads: int = 4

class NoDataclass(ss.AbstractTask):
    pass
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of its own; what was imported from it is forgotten again."""
    monkeypatch.chdir(tmp_path)
    yield
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def read(words: str) -> ss.Setting:
    return read_setting(only_fields(shlex.split(words)), until=100.0)


def chosen(words: str) -> dict[str, str]:
    """The kind of each part."""
    setting = read(words)
    return {part: kind_name(type(getattr(setting, part))) for part in PARTS}


def write_file(name: str) -> None:
    """A file of the covariance, by the ending of its name."""
    path = Path(name)
    if path.suffix == ".npy":
        np.save(path, COVARIANCE)
    elif path.suffix == ".npz":
        np.savez(path, anything=COVARIANCE)
    else:
        np.savetxt(path, COVARIANCE, delimiter="," if path.suffix == ".csv" else " ")


def test_words_are_fields_with_values() -> None:
    names, texts = split_words(["fig3", "--heads", "3", "--init-scale=.1", "mt1", "--rank", "-1"])
    assert names == ["fig3", "mt1"]
    assert texts == {"heads": "3", "init_scale": ".1", "rank": "-1"}
    with pytest.raises(InvalidInput, match="heads = '': needs a value"):
        split_words(["--heads"])
    with pytest.raises(InvalidInput, match="words = 'fig3': fields are given as --field value"):
        only_fields(["fig3"])
    assert only_fields(None) == {}


def test_without_words_a_setting_is_the_usual_one() -> None:
    task = ss.InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=31)
    assert read("") == ss.Setting(ss.SeparateAttention(5), task, ss.GradientFlow(until=100.0))


@pytest.mark.parametrize(
    ("words", "part", "kind"),
    [
        # By name, with hyphens or underscores.
        ("--model merged", "model", "merged"),
        ("--model linear-transformer", "model", "linear_transformer"),
        (
            "--method stochastic-descent --steps 3 --learning-rate .1",
            "method",
            "stochastic_descent",
        ),
        ("--init fixed_point --subset 0", "init", "fixed_point"),
        # By the fields that are given.
        ("--steps 3 --learning-rate .1", "method", "descent"),
        ("--steps 3 --learning-rate .1 --converged .1", "method", "descent"),
        ("--steps 3 --learning-rate .1 --batch-size 8", "method", "stochastic_descent"),
        ("--steps 3 --learning-rate .1 --optimiser adam", "method", "optimiser"),
        ("--share .5", "task", "task_pool"),
        ("--subset 0", "init", "fixed_point"),
        # Two kinds have a field of that name: one takes words, the other numbers.
        ("--direction aligned --model merged", "init", "balanced"),
        ("--direction 1", "init", "eigenvector"),
        ("--tasks independent", "task", "aligned_regression"),
        ("--tasks 3", "task", "task_pool"),
        # By default.
        ("--heads 3 --init-scale .1 --until 5", "method", "flow"),
    ],
)
def test_a_kind_is_chosen_by_name_or_by_its_fields(words: str, part: str, kind: str) -> None:
    assert chosen(words)[part] == kind


def test_inputs_are_laws_or_a_file_of_samples() -> None:
    laws = read("--inputs laplace,rademacher --spectrum .4,.3 --context-length 8").task
    assert str(laws.inputs) == "laplace,rademacher"  # type: ignore[attr-defined]
    assert "inputs" not in read("--inputs gaussian").to_dict()["task"]  # type: ignore[operator]
    samples = np.random.default_rng(0).normal(size=(60, 3))
    np.save("inputs.npy", samples)
    setting = read("--inputs inputs.npy")
    # They take the place of the usual spectrum.
    np.testing.assert_array_equal(setting.task.inputs.samples, samples)  # type: ignore[attr-defined]
    assert (setting.task.dimension, setting.task.fixed_length) == (3, 31)
    save_toml(setting, Path("samples.toml"))
    assert read("--setting samples.toml") == setting
    assert read("--setting samples.toml --context-length 5").task.fixed_length == 5
    with pytest.raises(InvalidInput, match="inputs = 'laplace': in place of the file's samples"):
        read("--setting samples.toml --inputs laplace")
    changed = read("--setting samples.toml --inputs laplace --spectrum .4,.3")
    assert changed.task.dimension == 2
    for words in ("--inputs laplace --share .5", "--inputs laplace --tasks independent"):
        with pytest.raises(InvalidInput, match="inputs = 'laplace': must be gaussian"):
            read(words)


def test_fields_arrive_where_they_belong() -> None:
    setting = read(
        "--spectrum .6,.3 --context-length uniform:2:4 --label-noise .5 --heads 2 --rank 2 "
        "--until 7 --rtol 1e-6 --init-scale .3 --points 9 --spacing log --seeds 3,7"
    )
    assert setting.task.context_length.lengths == (2, 3, 4)
    assert setting.task.label_noise == 0.5
    assert setting.model == ss.SeparateAttention(2, 2)
    assert setting.method == ss.GradientFlow(until=7.0, rtol=1e-6)
    assert setting.init == ss.RandomStart(0.3)
    assert (setting.record.points, setting.record.spacing) == (9, "log")
    assert setting.seeds == (3, 7)


@pytest.mark.parametrize(
    ("words", "seeds"), [("", (0,)), ("--seeds 3", (0, 1, 2)), ("--seeds 3,", (3,))]
)
def test_seeds_are_how_many_or_which(words: str, seeds: tuple[int, ...]) -> None:
    assert read(words).seeds == seeds


@pytest.mark.parametrize("name", ["c.npy", "c.npz", "c.csv", "c.txt"])
def test_an_array_comes_from_a_file(name: str) -> None:
    write_file(name)
    for words in (f"--covariance {name}", f"--spectrum {name}"):
        np.testing.assert_allclose(read(words).task.covariance, COVARIANCE, atol=1e-15)
    pool = read(f"--spectrum .6,.3 --tasks {name}").task
    assert isinstance(pool, ss.TaskPool)
    np.testing.assert_array_equal(pool.tasks, COVARIANCE)


def test_weights_come_from_an_archive() -> None:
    weights = {"v": np.ones(3), "k": np.full((3, 1, 2), 2.0), "q": np.full((3, 1, 2), 3.0)}
    np.savez("start.npz", **weights)
    setting = read("--arrays start.npz --spectrum .6,.3 --heads 3")
    assert isinstance(setting.init, ss.GivenStart)
    for name, array in setting.init.weights(setting.model, setting.task, 0).items():
        np.testing.assert_array_equal(array, weights[name])


def test_prompts_come_from_files() -> None:
    prompts = ss.InContextRegression([0.6, 0.3], context_length=5).sample(10)
    np.save("x.npy", prompts.x)
    np.save("y.npy", prompts.y)
    task = read("--x x.npy --y y.npy --heads 3").task
    assert isinstance(task, ss.Prompts)
    np.testing.assert_array_equal(task.x, prompts.x)
    assert task.fixed_length == 5


def test_options_are_names_with_numbers() -> None:
    words = "--optimiser adam --learning-rate .01 --steps 5 --options b1=.8,b2=.99"
    method = read(words).method
    assert isinstance(method, ss.Optimiser)
    assert method.options == {"b1": 0.8, "b2": 0.99}


def test_flags_change_a_setting_that_lies_in_a_file() -> None:
    task = ss.InContextRegression([0.6, 0.3], context_length=31, label_noise=0.2)
    stored = ss.Setting(ss.MergedAttention(3), task, ss.GradientFlow(until=5.0), seeds=[4, 2])
    save_toml(stored, Path("run.toml"))
    assert read("--setting run.toml") == stored
    assert read("--setting run.toml --heads 6 --label-noise 0") == stored.replace(
        heads=6, label_noise=0.0
    )
    assert read("--setting run.toml --seeds 2").seeds == (0, 1)
    # Another kind has nothing of what the file says of the old one.
    other = read(
        "--setting run.toml --model separate --method descent --steps 3 --learning-rate .1"
    )
    assert other.model == ss.SeparateAttention(5)
    assert other.method == ss.GradientDescent(0.1, 3)
    assert other.seeds == (4, 2)
    np.testing.assert_array_equal(other.task.covariance, task.covariance)
    # A covariance takes the place of the file's spectrum, and of nothing else.
    write_file("c.npy")
    covered = read("--setting run.toml --covariance c.npy").task
    np.testing.assert_allclose(covered.covariance, COVARIANCE, atol=1e-15)
    assert covered.label_noise == 0.2


def test_large_arrays_of_a_setting_lie_beside_its_file() -> None:
    prompts = ss.InContextRegression([0.6, 0.3], context_length=31).sample(10)
    stored = ss.Setting(ss.MergedAttention(3), prompts, ss.GradientFlow(until=5.0))
    save_toml(stored, Path("run.toml"))
    assert read("--setting run.toml") == stored
    assert read("--setting run.toml --heads 4") == stored.replace(heads=4)
    Path("run.npz").write_bytes(b"nothing")
    with pytest.raises(InvalidInput, match=r"run\.npz.*is no archive of arrays"):
        read("--setting run.toml")


NONSENSE = [
    ("--seeds ''", "seeds = '': must not be empty"),
    ("--seeds x", "seeds = 'x': must be a whole number"),
    ("--weights maybe", "weights = 'maybe': must be true or false"),
    ("--direction sideways", "direction = 'sideways': must be 'random' or 'aligned'"),
    ("--rank 2 --model merged", "rank = '2': is for model deep or separate; merged has heads"),
    ("--density .3", "density = '.3': no such option; there are task, model"),
    ("--until 5 --steps 3", "steps = '3': is for method descent"),
    ("--method descent --steps 3", "method.learning_rate = None: is missing"),
    ("--init given", "init.arrays = None: is missing"),
    ("--x c.npy", "task.y = None: is missing"),
    ("--covariance c.npy --spectrum 1,2", "give spectrum or covariance, one of the two"),
    ("--covariance nowhere.npy", "covariance = 'nowhere.npy': cannot be read: No such file"),
    ("--covariance nowhere.npz", "covariance = 'nowhere.npz': cannot be read: No such file"),
    ("--covariance words.csv", "must hold one array of real numbers"),
    ("--covariance empty.csv", "must hold one array of real numbers"),
    ("--covariance empty.npy", "must hold one array of real numbers"),
    ("--covariance words.npy", "must hold one array of real numbers"),
    ("--covariance complex.npy", "must hold one array of real numbers"),
    ("--covariance objects.npy", "must hold one array of real numbers"),
    ("--covariance two.npz", "must hold one array of real numbers"),
    ("--covariance words.npz", "covariance = 'words.npz': is no archive of arrays, or damaged"),
    ("--arrays words.npz", "arrays = 'words.npz': is no archive of arrays, or damaged"),
    ("--arrays nowhere.npz", "arrays = 'nowhere.npz': cannot be read: No such file"),
    ("--arrays c.npy", "arrays = 'c.npy': must be name=number,… or a file of arrays, .npz"),
    ("--arrays two.npz", "must name v, k, q"),
    ("--optimiser adam --steps 3 --learning-rate .1 --options b1", "options = 'b1': must be name="),
    (
        "--optimiser adam --steps 3 --learning-rate .1 --options b1=x",
        "options = 'x': must be a num",
    ),
    (
        "--optimiser adam --steps 3 --learning-rate .1 --options beta=1",
        "options = {'beta': 1}: adam",
    ),
    ("--optimiser nothing --steps 3 --learning-rate .1", "optimiser = 'nothing': is not a name in"),
    ("--setting nowhere.toml", "setting = 'nowhere.toml': cannot be read: No such file"),
    ("--setting words.csv", "setting = 'words.csv': is no TOML"),
    ("--setting c.npy", "setting = 'c.npy': is no TOML"),
    ("--setting old.toml", "format = 1: this version reads format 2"),
    ("--setting number.toml", "model = 5: must be a table of fields, with its kind"),
    ("--setting kindless.toml", "model = {'heads': 3}: must be a table of fields, with its kind"),
    ("--setting kindless.toml --model merged", "must be a table of fields, with its kind"),
    ("--setting unknown.toml", "setting.colour = 'red': unknown field"),
    ("--setting own.toml", "task.kind = 'own:Plain': must be "),
    ("--task nowhere.py:Mine", "task = 'nowhere.py': there is no such file"),
    ("--task own.py", "task = 'own.py': must name a class in the file, as FILE.py:Class"),
    ("--task own.py:Nothing", "task = 'own.py:Nothing': must be a dataclass that can be a task"),
    ("--task own.py:NoDataclass", "must be a dataclass that can be a task"),
    ("--model own.py:Plain", "model = 'own.py:Plain': must be a dataclass that can be a model"),
    ("--task own:Plain", "task = 'own:Plain': must be "),
    ("--task broken.py:Mine", "task = 'broken.py': SyntaxError"),
    ("--task raises.py:Mine", "task = 'raises.py': ZeroDivisionError: division by zero"),
    ("--task exits.py:Mine", "task = 'exits.py': SystemExit: 3"),
    ("--task random.py:Mine", "task = 'random.py': another module has that name; rename the file"),
    ("--task own.py:Plain", "task.size = None: is missing"),
    ("--task own.py:Plain --size 2 --spectrum 1,2", "spectrum = '1,2': is for task "),
]


@pytest.mark.parametrize(("words", "message"), NONSENSE, ids=[words for words, _ in NONSENSE])
def test_nonsense_is_one_line(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_file("c.npy")
    for name in ("words.csv", "words.npy", "words.npz"):
        Path(name).write_text("neither,here\n")
    Path("empty.csv").touch()
    Path("empty.npy").touch()
    np.save("complex.npy", 1j * COVARIANCE)
    np.save("objects.npy", np.array([{}], dtype=object))
    np.savez("two.npz", one=COVARIANCE, two=COVARIANCE)
    Path("old.toml").write_text("format = 1\n")
    Path("number.toml").write_text("model = 5\n")
    Path("kindless.toml").write_text("[model]\nheads = 3\n")
    Path("unknown.toml").write_text('colour = "red"\n')
    Path("own.toml").write_text('[task]\nkind = "own:Plain"\nsize = 2\n')
    Path("own.py").write_text(OWN.replace('print("run", __name__)', ""))
    Path("broken.py").write_text("def half(:\n")
    Path("raises.py").write_text("1 / 0\n")
    Path("exits.py").write_text("raise SystemExit(3)\n")
    Path("random.py").write_text(OWN)
    with pytest.raises(SystemExit) as end:
        main(["predict", *shlex.split(words)])
    out, err = capsys.readouterr()
    assert end.value.code == 2
    assert out == ""
    assert err.startswith("saddlescope: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_class_of_ones_own_comes_from_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("own.py").write_text(OWN)
    setting = read("--task own.py:Plain --size 3 --model own.py:Quarter")
    # The file is run once, though it holds two parts.
    assert capsys.readouterr().out == "run own\n"
    assert (setting.task.dimension, setting.task.power) == (3, 1.0)
    assert setting.model.heads == 4
    assert setting.to_dict()["task"] == {"kind": "own:Plain", "size": 3, "power": 1.0}
    save_toml(setting, Path("run.toml"))
    assert read("--setting run.toml") == setting, "the classes are at hand now"


def test_a_setting_file_imports_nothing() -> None:
    Path("own.py").write_text(OWN)
    save_toml(read("--task own.py:Plain --size 3"), Path("run.toml"))
    del sys.modules["own"]
    with pytest.raises(InvalidInput, match=r"task\.kind = 'own:Plain': must be .*imported here"):
        read("--setting run.toml")
    assert "own" not in sys.modules
    again = read("--setting run.toml --task own.py:Plain --power 2")
    assert (again.task.size, again.task.power) == (3, 2.0), "what the file says is kept"


def test_a_file_that_fails_leaves_no_module_behind() -> None:
    Path("raises.py").write_text("1 / 0\n")
    for _ in range(2):
        with pytest.raises(InvalidInput, match="ZeroDivisionError"):
            read("--task raises.py:Mine")
        assert "raises" not in sys.modules


@pytest.mark.parametrize(
    ("part", "name"), [(part, name) for part in PARTS for name in kinds_of(part)]
)
def test_the_help_of_every_kind_says_what_its_fields_are(part: str, name: str) -> None:
    text = setting_help(["--help", f"--{part}", name])
    section = text.partition(f"\n  {name}:\n")[2].partition("\n\n")[0]
    lines = [line.split() for line in section.splitlines()]
    for field in fields_of(kinds_of(part)[name]).values():
        (line,) = [words for words in lines if words[0] == field.flag]
        assert len(line) > 1, f"{field.flag} says nothing"
    assert max(map(len, text.splitlines())) <= 100
    assert not set("`$") & set(text)


def test_help_follows_the_fields_that_are_given() -> None:
    assert "\n  descent:\n" in setting_help(["--steps", "3", "--learning-rate", ".1"])
    assert "\n  flow:\n" in setting_help([])

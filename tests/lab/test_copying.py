"""A setting as address, Python and command: all three give it back."""

import shlex

import pytest

import saddlescope as ss
from saddlescope.cli.flags import only_fields, read_setting
from saddlescope.lab._copying import as_address, as_command, as_python

TASK = ss.InContextRegression([0.4, 0.3, 0.1], context_length=31)
SETTINGS = {
    "descent": ss.Setting(
        ss.SeparateAttention(5), TASK, ss.GradientDescent(0.5, 20_000), ss.RandomStart(0.02),
        ss.Record(401), 6,
    ),
    "flow": ss.Setting(
        ss.MergedAttention(3), ss.InContextRegression([0.5], 8, label_noise=0.5, inputs="laplace"),
        ss.GradientFlow(300.0), ss.RandomStart(1e-4), ss.Record(101, "log"), (3, 7),
    ),
    "pool": ss.Setting(
        ss.SeparateAttention(2, rank=1, blocks="full"),
        ss.TaskPool([0.5, 0.5], 31, tasks=1, share=0.4),
        ss.Optimiser("adam", 100, learning_rate=0.01), record=ss.Record(50),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_the_command_gives_the_setting(name: str) -> None:
    words = shlex.split(as_command(SETTINGS[name]))
    assert words[:2] == ["saddlescope", "train"]
    assert read_setting(only_fields(words[2:]), until=1.0) == SETTINGS[name]


@pytest.mark.parametrize("name", SETTINGS)
def test_the_address_gives_the_setting(name: str) -> None:
    pairs = dict(pair.split("=") for pair in as_address(SETTINGS[name]).split("&"))
    assert read_setting(pairs, until=1.0) == SETTINGS[name]


@pytest.mark.parametrize("name", SETTINGS)
def test_the_code_gives_the_setting(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ss.Setting] = []

    class Run:
        def compare(self) -> str:
            return ""

    def train(*given: object, **options: object) -> Run:
        made.append(ss.make_setting(*given, **options))  # type: ignore[arg-type]
        return Run()

    monkeypatch.setattr(ss, "train", train, raising=False)
    exec(as_python(SETTINGS[name]), {})
    assert made == [SETTINGS[name]]

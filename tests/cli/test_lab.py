"""`saddlescope lab`: its help, what it refuses, and how it ends."""

import os
import re
import shlex
import signal
import subprocess
import urllib.request
from collections.abc import Iterator

import pytest
from tests.shell import AS_A_SHELL

from saddlescope.cli import main

REFUSED = [
    ("lab --heads 40", "model.heads = 40", "the lab takes 1 to 9"),
    ("lab --model two-layer-network", "model.kind = ", "the lab takes separate, merged"),
    ("lab --seeds 100", "seeds = 100", "the lab takes 1 to 8"),
    ("lab --covariance x", "covariance", ""),
    ("lab --host 0.0.0.0", "host = '0.0.0.0'", "give a token"),
    ("lab --token abc", "token = 'abc'", "8 ASCII characters"),
    ("lab --port 99999", "port = 99999", "at most 65535"),
    ("lab --port five", "port = 'five'", "whole number"),
    ("lab --port 1.5", "port = '1.5'", "whole number"),
    ("lab everything", "words = 'everything'", "--field value"),
]


@pytest.mark.parametrize(("command", "named", "reason"), REFUSED, ids=[one[0] for one in REFUSED])
def test_bad_input_is_one_line(
    command: str, named: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main([*shlex.split(command), "--no-browser"])
    shown = capsys.readouterr()
    assert left.value.code == 2
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert named in shown.err
    assert reason in shown.err


def test_the_help_has_examples_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["lab", "--help"])
    shown = capsys.readouterr().out
    assert left.value.code == 0
    for word in ("saddlescope lab --port 9000 --no-browser", "--token", "--init-scale"):
        assert word in shown


@pytest.fixture
def served() -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = ["-m", "saddlescope", "lab", "--port", "0", "--no-browser", "--heads", "3"]
    with subprocess.Popen(
        [*AS_A_SHELL, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/#\S+", line)
        assert found is not None, line
        yield process, found[0]
        process.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_serves_until_a_signal_and_leaves_in_one_line(
    served: tuple[subprocess.Popen[str], str], number: signal.Signals, code: int
) -> None:
    process, address = served
    assert "heads=3" in address
    page = urllib.request.urlopen(address.partition("#")[0], timeout=20).read()
    assert b"Saddlescope" in page
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert errors == "saddlescope: the lab is closed\n"

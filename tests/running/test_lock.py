"""A folder that is held is refused to everybody else, with who holds it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from saddlescope.errors import InvalidInput
from saddlescope.running.lock import hold

HOLDER = """
import sys
from pathlib import Path
from saddlescope.running.lock import hold

with hold(Path(sys.argv[1]), "out"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_one_is_refused_and_a_later_one_is_not(tmp_path: Path) -> None:
    with (
        hold(tmp_path, "out"),
        pytest.raises(InvalidInput, match=f"in use by process {os.getpid()}"),
        hold(tmp_path, "out"),
    ):
        pass
    with hold(tmp_path, "out"):
        pass


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with (
            pytest.raises(InvalidInput, match=f"process {other.pid} of .* on "),
            hold(tmp_path, "out"),
        ):
            pass
        other.kill()
        other.wait()
        with hold(tmp_path, "out"):
            pass


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be used"), hold(tmp_path / "none", "out"):
        pass

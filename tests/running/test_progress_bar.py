"""The bar: on a terminal only, for work that lasts, one at a time."""

import io
import sys
from types import ModuleType

import pytest

from saddlescope.running import ProgressBar, progress_bar
from saddlescope.running.loop import run_job
from saddlescope.running.progress_bar import shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def make_screen(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Set up in the test itself: pytest puts its own stream in place after fixtures."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is worth a bar."""
    monkeypatch.setattr(progress_bar, "_WORTH_A_BAR", -1.0)


def test_work_that_is_soon_done_shows_none(counting, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = make_screen(monkeypatch)
    run_job(counting(), [ProgressBar()])
    assert screen.getvalue() == ""


@pytest.mark.usefixtures("at_once")
def test_work_that_lasts_shows_how_far_it_is(counting, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = make_screen(monkeypatch)
    run_job(counting(), [ProgressBar("counting")])
    assert "counting" in screen.getvalue()
    assert "100 %" in screen.getvalue()


@pytest.mark.usefixtures("at_once")
def test_nothing_is_shown_where_nobody_looks(counting, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    run_job(counting(), [ProgressBar()])
    assert stream.getvalue() == ""


@pytest.mark.usefixtures("at_once")
def test_a_notebook_in_which_no_bar_can_move_shows_none(
    counting, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    monkeypatch.setattr(progress_bar, "find_spec", lambda name: None)
    run_job(counting(), [ProgressBar()])
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("at_once")
def test_work_within_work_shows_no_bar_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = make_screen(monkeypatch)
    for _ in shown("ab", "outer"):
        assert list(shown("cd", "inner")) == ["c", "d"]
    assert "outer" in screen.getvalue()
    assert "inner" not in screen.getvalue()
    list(shown("ab", "after"))
    assert "after" in screen.getvalue()

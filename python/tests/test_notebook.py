"""Progress in a notebook: one bar that moves, instead of lines."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any, Optional

import pytest

import resemblance
from resemblance.log import Log
from resemblance.notebook import Bar

from .conftest import DOCUMENTS


class Display:
    """What a notebook shows."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []
        self.handles = 0

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Display:
        assert raw and display_id
        self.handles += 1
        self.shown.append(data)
        return self

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(data)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Display:
    """A stand-in for IPython with a kernel, as Jupyter has it."""
    display = Display()
    ipython: Any = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    of_display: Any = types.ModuleType("IPython.display")
    of_display.display = display.display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", of_display)
    return display


def test_a_run_moves_one_bar(notebook: Display, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = resemblance.run("jobs/quickstart.toml", output__url=tmp_path / "out", progress=True)
    assert capsys.readouterr().err == ""
    assert notebook.handles == 1
    texts = [shown["text/plain"] for shown in notebook.shown]
    stages = [stage["name"] for stage in run.manifest["stages"]]
    for number, stage in enumerate(stages, 1):
        assert any(text.startswith(f"[stage {number} of ") and f"] {stage}: " in text for text in texts), texts
    assert any("% of" in text for text in texts), texts
    assert all("<progress" in shown["text/html"] for shown in notebook.shown)
    # Warnings are lines there too. A bar is only shown if it is asked for.
    before = len(notebook.shown)
    resemblance.find(DOCUMENTS / "garden.txt", DOCUMENTS / "tram.txt")
    assert len(notebook.shown) == before


def test_the_bar_has_the_share_and_the_time_left(notebook: Display, monkeypatch: pytest.MonkeyPatch) -> None:
    now: Optional[float] = 100.0
    monkeypatch.setattr("resemblance.notebook.time.monotonic", lambda: now)
    bar = Bar()
    stage = {"stage": "sketches", "number": 2, "stages": 7}
    bar.update("begins", stage)
    now = 110.0
    bar.update("reached", {**stage, "done": 250, "all": 1000, "unit": "rows", "left_seconds": 130.2})
    assert [shown["text/plain"] for shown in notebook.shown] == [
        "[stage 2 of 7] sketches: begins",
        "[stage 2 of 7, 2 min to go] sketches: 25% of 1,000 rows, 30 s left",
    ]
    assert 'value="0.2500"' in notebook.shown[-1]["text/html"]


def test_without_a_notebook_there_is_no_bar() -> None:
    assert Log(progress=True).bar is None

"""The page in a notebook: the same questions as messages, and one module of JavaScript."""

import threading

import pytest

from anyreward.certificates import intervals
from anyreward.kernels import robust
from anyreward.studio.desk import Desk
from anyreward.studio.exporting import MODULES, STATIC, script

from .conftest import EVIL, painted

pytest.importorskip("anywidget")


@pytest.fixture
def widget(grid, monkeypatch):
    from anyreward.studio.widget import StudioWidget

    widget = StudioWidget(Desk({"grid": grid}))
    widget.sent = []
    monkeypatch.setattr(type(widget), "send", lambda self, content, buffers=None: self.sent.append(content))
    return widget


def answered(widget):
    """The answers by their numbers, once there are all."""
    for thread in threading.enumerate():
        if thread.name == "studio question":
            thread.join()
    return {each["number"]: each["answer"] for each in widget.sent}


def test_questions_are_answered_by_their_number(widget, grid):
    widget._asked(widget, {"number": 3, "name": "plan", "asked": {"reward": painted(([29], 1))}}, [])
    widget._asked(widget, {"number": 4, "name": "plan", "asked": {"reward": EVIL}}, [])
    widget._asked(widget, "nonsense", [])
    found = answered(widget)
    assert len(widget.sent) == 3
    assert found[3]["lower"] == grid.plan([float(s == 29) for s in range(30)]).lower
    assert "error" in found[4]
    assert "error" in found[None]


def test_a_stroke_ends_the_plan_that_is_being_made(widget, monkeypatch):
    monkeypatch.setattr(intervals, "BLOCK", 0)  # a pass is made step by step, as in large problems
    begun, goes_on, real = threading.Event(), threading.Event(), robust.values

    def slow(*arguments):
        begun.set()
        goes_on.wait(20)
        return real(*arguments)

    monkeypatch.setattr(robust, "values", slow)
    for turn in (1, 2):
        asked = {"reward": painted(([turn], 1)), "tab": "cell", "turn": turn, "stroke": True}
        widget._asked(widget, {"number": turn, "name": "plan", "asked": asked}, [])
        assert begun.wait(20)  # the kernel is free while the first plan is being made
    while widget._desk._turns.get("cell plan", 0) < 2:
        pass
    goes_on.set()
    found = answered(widget)
    assert found[1] == {"superseded": True}
    assert found[2]["value"] >= 0


def test_all_modules_are_one_without_imports():
    code = script()
    assert [line for line in code.splitlines() if line.startswith(("import ", "export "))] == ["export default { render };"]
    assert sum((STATIC / name).stat().st_size for name in MODULES) < 10**6
    assert {path.name for path in STATIC.glob("*.js")} == {*MODULES, "page.js"}


def test_a_cell_shows_it(grid, monkeypatch):
    from anyreward.studio import opening
    from anyreward.studio.widget import StudioWidget

    monkeypatch.setattr(opening, "in_notebook", lambda: True)
    shown = opening.studio(grid, out=None)
    assert isinstance(shown, StudioWidget)
    assert "render" in shown._esm

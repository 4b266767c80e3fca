"""The page in a notebook: the same questions as messages, and one module of JavaScript."""

import pytest

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


def test_questions_are_answered_by_their_number(widget, grid):
    widget._asked(widget, {"number": 3, "name": "plan", "asked": {"reward": painted(([29], 1))}}, [])
    widget._asked(widget, {"number": 4, "name": "plan", "asked": {"reward": EVIL}}, [])
    widget._asked(widget, "nonsense", [])
    assert [each["number"] for each in widget.sent] == [3, 4, None]
    assert widget.sent[0]["answer"]["lower"] == grid.plan([float(s == 29) for s in range(30)]).lower
    assert all("error" in each["answer"] for each in widget.sent[1:])


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

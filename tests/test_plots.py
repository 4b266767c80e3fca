"""Pictures and texts of atlases and plans."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

import anyreward as ar
from anyreward import plots


@pytest.fixture(scope="module")
def chain():
    return ar.explore(ar.envs.double_chain(5), 4, 1.0)


@pytest.fixture(scope="module")
def lake():
    return ar.explore("FrozenLake-v1", 6, max_episodes=300, stationary=True)


@pytest.fixture(scope="module")
def named():
    """Names that Matplotlib could take for mathematics, or that are long."""
    P = np.full((3, 2, 3), 1 / 3)
    mdp = ar.TabularMDP(P, state_names=["$\\frac", "a" * 200, "_x_"], action_names=["$", "go & see"])
    return ar.explore(mdp, 3, max_episodes=5)


@pytest.mark.parametrize("kind", ["chain", "lake", "named"])
def test_atlases_and_plans_draw_themselves(kind, request):
    atlas = request.getfixturevalue(kind)
    for thing in (atlas, atlas.plan("state == 1"), atlas.plan("next == 1")):
        figure = thing.plot()
        assert isinstance(figure, Figure)
        assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_figure_is_displayed_by_notebooks_and_not_kept_by_pyplot():
    code = (
        "import sys, anyreward as ar; figure = ar.explore(ar.envs.double_chain(5), 4, max_episodes=5).plot(); "
        "print(figure._repr_png_()[1:4].decode(), 'matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "PNG False\n"


def test_a_plan_is_drawn_with_its_interval_within_what_is_possible(chain):
    plan = chain.plan("state == 4")
    possible, certified = plan.plot().axes[0].patches
    assert (possible.get_x(), possible.get_width()) == (0, 4)
    assert certified.get_x() == plan.lower
    assert certified.get_width() == pytest.approx(plan.regret_bound)


def test_a_grid_is_drawn_with_an_arrow_in_each_cell(lake):
    texts = [text.get_text() for text in lake.plan("own").plot().axes[1].texts]
    assert len(texts) == 16
    assert set(texts) <= set("←↓→↑·")
    with pytest.raises(ValueError, match="the grid is 7 x 7, but there are 16 states"):
        lake.plot((7, 7))


def test_an_atlas_is_drawn_with_its_visits_and_its_accuracy(chain):
    left, right = chain.plot().axes
    assert [bar.get_height() for bar in left.patches] == chain.counts.state_visits().tolist()
    assert right.lines[0].get_ydata()[-1] == chain.history[-1][1]
    assert max(right.lines[0].get_ydata()) <= 4  # an epsilon above the horizon says nothing


def test_plans_in_words(chain, lake, named):
    lines = plots.plan_text(chain.plan("state == 4"))
    assert lines[1].startswith(("2:", "3:", "4:"))
    assert len(lines) == 6
    rows = plots.plan_text(lake.plan("own"))[1:]
    assert len(rows) == 4
    assert set("".join(rows)) <= set("←↓→↑· ")
    assert any("[seen" in line for line in plots.plan_text(named.plan("state == 1")))
    assert all(len(line) <= 80 for line in plots.plan_text(named.plan("state == 1")))
    many = ar.explore(ar.envs.garnet(30, 2, 3), 5, max_episodes=500)
    assert plots.plan_text(many.plan("state == 1"))[-1].startswith("and ")


def test_visits_in_words(chain, lake):
    assert plots.visits_text(chain)[1].startswith("one bar for each state; highest: ")
    assert len(plots.visits_text(lake)) == 4
    wide = plots.visits_text(ar.explore(ar.envs.garnet(130, 2, 3), 2, max_episodes=5))
    assert len(wide[0]) == 44  # three states a bar
    assert "every 3 states" in wide[1]


def test_files_are_chosen_by_their_ending(chain, tmp_path):
    for ending, begins in ((".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")):
        plots.save_figure(tmp_path / f"it{ending}", chain.plot())
        assert (tmp_path / f"it{ending}").read_bytes().startswith(begins)
    with pytest.raises(ValueError, match="has to end in"):
        plots.save_figure(tmp_path / "it.gif", chain.plot())

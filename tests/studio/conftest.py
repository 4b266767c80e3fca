"""Atlases for the studio, explored once: a small grid, and one in which everything that has a name is called something evil."""

import numpy as np
import pytest

import anyreward as ar
from anyreward.studio.desk import Desk

EVIL = """<img src=x onerror="document.title='evil'"></script><script>document.title='evil'</script>{{7*7}}"""


@pytest.fixture(scope="session")
def grid():
    mdp = ar.envs.grid_world(5, 6, start=(2, 2), goal=(4, 5))
    mdp.name = "small grid"
    return ar.explore(mdp, 8, max_episodes=3000, stationary=True)


@pytest.fixture(scope="session")
def hostile():
    rng = np.random.default_rng(0)
    names = {"state_names": [f"{EVIL} {i}" for i in range(4)], "action_names": [f"{EVIL} a{i}" for i in range(2)]}
    mdp = ar.TabularMDP(rng.dirichlet(np.ones(4), size=(4, 2)), reward=np.eye(4)[3], **names)
    atlas = ar.explore(mdp, 4, max_episodes=200)
    atlas.source.update(env=EVIL, algorithm=EVIL)
    return atlas


@pytest.fixture
def desk(grid, hostile):
    return Desk({"grid": grid, "hostile": hostile})


def painted(*strokes, **more):
    """A reward of one painting; a stroke is (states, value) or a whole one."""
    made = [
        s if isinstance(s, dict) else {"states": [[x, x] for x in s[0]], "value": s[1], "actions": None, "steps": None}
        for s in strokes
    ]
    return {"terms": [{"name": "paint", "weight": 1, "kind": "paint", "strokes": made, **more}]}


def formula(text, weight=1, name="formula"):
    """A term that is an expression."""
    return {"name": name, "weight": weight, "kind": "expression", "text": text}

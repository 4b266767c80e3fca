"""Explorers that plan for a reward of their own: when they plan, and how ties are broken."""

import numpy as np

import anyreward as ar
from anyreward.algorithms.planned import PlannedExplorer

from ..helpers.explorers import played
from ..helpers.problems import random_mdp


class Same(PlannedExplorer):
    """Every pair is worth the same."""

    def pays(self):
        return np.ones((1, 3, 2))


def test_policies_change_when_the_episodes_have_grown():
    mdp = random_mdp(3, 2, seed=1)
    setting = mdp.setting(4)
    explorer, changes, before = Same(setting, growth=1.5, seed=2), [], None
    states, actions = played(mdp, setting, 60, seed=3)
    for b in range(60):
        policy = explorer.ask()
        if before is None or (policy != before).any():
            changes.append(b)
        before = policy
        explorer.tell(states[b], actions[b])
    assert set(changes) <= {0, 1, 2, 3, 5, 8, 12, 18, 27, 41}
    assert len(changes) > 7  # ties are broken anew each time
    request = explorer.ask_many(100, -1.0)
    assert len(request.policies) == 62 - 60
    assert (request.policies == explorer.ask()).all()


def test_illegal_actions_are_learnt_of_at_once():
    setting = ar.Setting(n_states=3, n_actions=2, horizon=2, initial_state=0)
    explorer = Same(setting, seed=1)
    for s in range(3):
        explorer.counts.declare_illegal(s, [1])
    assert (explorer.ask() == 0).all()

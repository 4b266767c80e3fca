"""The structures of our own environments are true of them, and save episodes."""

import numpy as np
import pytest

import anyreward as ar

CASES = {
    "chain": lambda: ar.envs.double_chain(7, 0.2),
    "grid": lambda: ar.envs.grid_world(3, 4, 0.8, start=(1, 1), goal=(2, 2)),
    "inventory": lambda: ar.envs.inventory(4, 2, 1.5),
}


def poisson(capacity, mean):
    p = [np.exp(-mean)]
    for k in range(1, capacity + 1):
        p.append(p[-1] * mean / k)
    return [*p, 1 - sum(p)]


# The probabilities of the outcomes of each law, in the order of the declaration.
LAWS = {
    "chain": [0.8, 0.2, 0.2, 0.8],
    "grid": [0.8, *[0.2 / 3] * 3],
    "inventory": [*poisson(4, 1.5)[:4], sum(poisson(4, 1.5)[4:])],
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_true(name):
    """With the right probabilities of outcomes, the model of the structure is the model itself."""
    mdp = CASES[name]()
    setting = ar.Setting(n_states=mdp.n_states, n_actions=mdp.n_actions, horizon=4, initial_state=0, structure=mdp.structure)
    t, P = setting.structure.tables, np.zeros((mdp.n_states, mdp.n_actions, mdp.n_states))
    for pair in range(mdp.n_states * mdp.n_actions):
        for e in range(t.pointer[pair], t.pointer[pair + 1]):
            P[*divmod(pair, mdp.n_actions), t.target[e]] += LAWS[name][t.code[e, 0]]
    np.testing.assert_allclose(P, mdp.dense(), atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_it_is_declared_by_name(name):
    mdp = CASES[name]()
    atlas = ar.explore(mdp, 5, max_episodes=200, structure="own")
    assert atlas == ar.explore(mdp, 5, max_episodes=200, structure=mdp.structure)
    assert atlas.certificate.epsilon < ar.explore(mdp, 5, max_episodes=200, stationary=True).certificate.epsilon
    assert "as declared" in atlas.certificate.assumptions[0]


def test_environments_without_one():
    authors = ar.envs.grid_world(3, 3, start=(1, 1), goal=(2, 2), variant="authors")
    for env in (ar.TabularMDP(np.ones((1, 1, 1))), "FrozenLake-v1", authors):
        with pytest.raises(ValueError, match="structure is 'own', but the environment has no attribute structure"):
            ar.explore(env, 5, max_episodes=1, structure="own")

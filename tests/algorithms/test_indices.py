"""The indices that are functions of the counts, of all rival algorithms, against slow references."""

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms import BPIUCBVI, EULER, EvenDar, Fiechter, RFExpress
from anyreward.environments.tabular import play as play_model

from ..helpers import rivals as slow
from ..helpers.explorers import counted, counts_of, lower, played
from ..helpers.problems import random_mdp


def node_values(explorer, values, blank):
    """An index of nodes, (H, S); `blank` without data."""
    setting, node_of = explorer.setting, explorer.counts.table.node_of
    out = np.full((setting.horizon, setting.n_states), float(blank))
    for h, s in np.ndindex(out.shape):
        node = int(node_of[min(h, len(node_of) - 1), s])
        if node:
            out[h, s] = values[min(h, len(values) - 1), node]
    return out


DELTA, BUDGET = 0.3, 50


def fiechter(published):
    def check(setting, r, n, explorer):
        H = setting.horizon
        F, V = slow.fiechter(
            n, DELTA, epsilon=1.0, gamma=setting.discount, published=published, eta=explorer.eta, horizon=H
        )  # fmt: skip
        steps = explorer.index / explorer.eta
        np.testing.assert_allclose(steps, np.rint(steps), rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(np.rint(steps).astype(int), F)
        if not published:
            most = setting.discount * slow.sigma(H - 1, setting.discount)
            bound = slow.fiechter_error_bound(V, setting.initial_state, explorer.eta, setting.discount)
            assert explorer.own_epsilon == pytest.approx(2 * min(most, bound), rel=1e-9)
        return F[:-1] * explorer.eta, setting.discount * setting.sigma[-2]

    return check


def express(setting, r, n, explorer):
    W, V = slow.rf_express(n, DELTA, horizon=setting.horizon)
    np.testing.assert_allclose(explorer.index, W, rtol=1e-9)
    assert explorer.own_epsilon == pytest.approx(2 * slow.rf_express_error(V, setting.initial_state), rel=1e-9)
    return W, setting.horizon


def euler(repaired):
    def check(setting, r, n, explorer):
        up, _, lo, _ = slow.euler(n, r, DELTA, BUDGET * setting.horizon, repaired=repaired)
        np.testing.assert_allclose(explorer.index, up, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(lower(explorer), lo, rtol=1e-9, atol=1e-9)
        return up[0, setting.initial_state], setting.horizon

    return check


def even_dar(setting, r, n, explorer):
    right = slow.even_dar(n, r, DELTA, setting.discount)
    np.testing.assert_allclose(explorer.index, right.Q_up, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(explorer.lower_index, right.Q_lo, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(explorer.recommendation, right.Q_lo.argmax(axis=2))
    for share in (1 - 1e-6, 1 + 1e-6):
        stops = slow.even_dar_stops(right, explorer.own_epsilon * share, setting.discount, setting.initial_state)
        assert stops == (share > 1)
    return right.Q_up - right.Q_lo, setting.discount * setting.sigma[-2]


def bpi_ucbvi(setting, r, n, explorer):
    right = slow.bpi_ucbvi(n, r, DELTA)
    np.testing.assert_allclose(explorer.index, right.Q_up, rtol=1e-9)
    np.testing.assert_allclose(lower(explorer), right.Q_lo, rtol=1e-9, atol=1e-9)
    G = np.take_along_axis(right.G, right.policy[..., None], axis=2)[..., 0]
    np.testing.assert_allclose(node_values(explorer, explorer._indices.G, setting.horizon), G, rtol=1e-9)
    np.testing.assert_array_equal(explorer.recommendation, right.policy)
    assert explorer.own_epsilon == pytest.approx(G[0, setting.initial_state], rel=1e-9)
    return right.Q_up, setting.horizon


INDICES = {  # without a memory of their own: a function of the counts
    "fiechter, repaired": (lambda s, r: Fiechter(s, delta=DELTA, eta=0.013), fiechter(False), True),
    "fiechter, published": (lambda s, r: Fiechter(s, delta=DELTA, variant="published"), fiechter(True), True),
    "rf-express": (lambda s, r: RFExpress(s, delta=DELTA), express, False),
    "euler, repaired": (lambda s, r: EULER(s, r, delta=DELTA, budget=BUDGET), euler(True), False),
    "euler, published": (lambda s, r: EULER(s, r, delta=DELTA, budget=BUDGET, variant="published"), euler(False), False),
    "even-dar": (lambda s, r: EvenDar(s, r, delta=DELTA), even_dar, True),
    "bpi-ucbvi": (lambda s, r: BPIUCBVI(s, r, delta=DELTA), bpi_ucbvi, False),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize(
    ("stationary", "discount", "seed"),
    [(False, 1.0, 0), (False, 1.0, 1), (True, 1.0, 2), (True, 1.0, 3), (False, 0.8, 4), (True, 0.8, 5)],
)
def test_the_index_is_that_of_the_formulas(name, stationary, discount, seed):
    """Told episodes, few and many, in batches; at the end most of the index is below its cap, where it says something."""
    make, check, with_discount = INDICES[name]
    if discount < 1 and not with_discount:
        with pytest.raises(ValueError, match=r"discount is 0\.8"):
            make(ar.Setting(n_states=3, n_actions=2, horizon=3, discount=discount, initial_state=1), np.zeros((3, 2)))
        return
    S, A, H = 3, 2, 3
    rng = np.random.default_rng(seed)
    mdp = ar.TabularMDP(rng.dirichlet(np.full(S, 0.5), (S, A) if stationary else (H, S, A)), initial=1)
    setting, r = mdp.setting(H, discount, stationary), rng.random((H, S, A))
    explorer, before = make(setting, r), 0
    states, actions = played(mdp, setting, 60_000, seed)
    for upto in (0, 1, 6, 40, 900, 60_000):
        explorer.tell(states[before:upto], actions[before:upto])
        index, cap = check(setting, r, counted(states[:upto], actions[:upto], setting), explorer)
        before = upto
    assert (index < cap - 1e-6).mean() > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("stationary", [False, True])
def test_the_index_is_that_of_the_formulas_after_a_compiled_run(name, stationary):
    make, check, _ = INDICES[name]
    mdp, H = random_mdp(4, 3, seed=8), 4
    setting, rng = mdp.setting(H, 1.0, stationary), np.random.default_rng(1)
    r = rng.random((H, 4, 3))
    explorer = make(setting, r)
    for upto in (3, 500, 20_000):
        while explorer.episodes < upto:
            play_model(explorer, mdp, rng, upto - explorer.episodes, 0.0)
        check(setting, r, counts_of(explorer), explorer)
        chosen = np.take_along_axis(explorer.index, explorer.ask()[..., None], axis=2)[..., 0]
        np.testing.assert_array_equal(chosen, explorer.index.max(axis=2))  # and the policy is greedy for it

"""Learning progress against the divergence of two means in plain loops."""

import numpy as np
import pytest

from anyreward.algorithms.progress import Progress, progress

from ..helpers.explorers import played
from ..helpers.problems import random_mdp


def test_its_numbers():
    assert progress(np.array(2.0), np.array(3.0)) == pytest.approx(0.056633, abs=5e-7)


@pytest.mark.parametrize("stationary", [False, True])
def test_it_pays_for_what_the_last_draw_has_taught(stationary):
    mdp, H, S, A = random_mdp(4, 2, seed=1), 3, 4, 2
    setting = mdp.setting(H, stationary=stationary)
    explorer, (states, actions) = Progress(setting), played(mdp, setting, 30, seed=1)
    alpha = np.full((1 if stationary else H, S, A, S), 1 / S)
    after = alpha[0, 0, 0] + np.eye(S)[0]
    gains = np.full(alpha.shape[:-1], (after / 2) @ np.log(after / 2 * S))  # of a first draw, whatever it is
    np.testing.assert_allclose(explorer.pays(), gains, rtol=1e-12)
    for b in range(30):
        for h in range(H):
            at = (0 if stationary else h), states[b, h], actions[b, h]
            m = alpha[at] / alpha[at].sum()
            alpha[(*at, states[b, h + 1])] += 1
            new = alpha[at] / alpha[at].sum()
            gains[at] = new @ np.log(new / m)
        if b in (4, 29):
            explorer.tell(states[0 if b == 4 else 5 : b + 1], actions[0 if b == 4 else 5 : b + 1])
            np.testing.assert_allclose(explorer.pays(), gains, rtol=1e-9)

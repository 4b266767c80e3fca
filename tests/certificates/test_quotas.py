"""Calibrated certificates for batches whose sizes were fixed by somebody else: `certify(..., quotas=...)`."""

import numpy as np
import pytest

import anyreward as ar

S, A, H, M = 3, 2, 4, 400


def batch(stationary, seed=0, estimated=False):
    """M samples of every law, and as many initial states; nothing was played."""
    rng = np.random.default_rng(seed)
    P = np.zeros((S, A, S))
    for s, a in np.ndindex(S, A):
        P[s, a, [s, (s + 1) % S]] = 0.4, 0.6
    steps = range(1 if stationary else H)
    flows = [(h, s, a, x, n) for h in steps for s, a in np.ndindex(S, A) for x, n in enumerate(rng.multinomial(M, P[s, a])) if n]
    starts = [(-1, 0, 0, s, M // S) for s in range(S)] if estimated else [(-1, 0, 0, 0, M)]
    start = {} if estimated else {"initial_state": 0}
    counts = ar.Counts(ar.Setting(n_states=S, n_actions=A, horizon=H, stationary=stationary, **start))
    counts.add_flows(np.array(starts + flows))
    return counts, np.full((S, A) if stationary else (H, S, A), M), P > 0


@pytest.mark.parametrize("stationary", [False, True])
def test_a_batch_that_was_planned_is_certified_with_less_than_tight_bounds(stationary):
    counts, quotas, possible = batch(stationary)
    tight = ar.certify(counts, 0.1)
    planned = ar.certify(counts, 0.1, "calibrated", quotas=quotas)
    expected = ar.certify(counts, 0.1, "calibrated", quotas=quotas, successors=possible)
    assert expected.epsilon < planned.epsilon < tight.epsilon
    assert planned.check(counts)
    assert "the quotas and their sets were fixed before the counted samples" in planned.assumptions
    assert ar.Certificate.from_dict(planned.to_dict()) == planned
    plan = ar.Atlas(counts, planned).plan(np.arange(S) / S)
    assert plan.lower <= plan.value <= plan.upper


def test_an_estimated_start_has_a_quota_of_its_own():
    counts, quotas, _ = batch(True, estimated=True)
    starts = M // S * S
    with_start = ar.certify(counts, 0.1, "calibrated", quotas=quotas, starts=starts)
    assert with_start.epsilon < ar.certify(counts, 0.1, "calibrated", quotas=quotas).epsilon == pytest.approx(2 * H)


def test_quotas_that_are_not_those_of_the_counts_are_refused():
    counts, quotas, _ = batch(True)
    with pytest.raises(ValueError, match="has 400 counted samples, and its quota is 401"):
        ar.certify(counts, 0.1, "calibrated", quotas=quotas + 1)
    with pytest.raises(ValueError, match=r"quotas has the shape \(2, 3\): whole numbers of shape \(3, 2\) are needed"):
        ar.certify(counts, 0.1, "calibrated", quotas=quotas.T)
    with pytest.raises(ValueError, match="booleans of shape"):
        ar.certify(counts, 0.1, "calibrated", quotas=quotas, successors=np.ones((3, 2, 3)))

"""Calibrated certificates over laws: what they say about batches that were planned, and what they refuse.

It watches `docs/theory.md`, 15.6.
"""

import numpy as np
import pytest

import anyreward as ar
from anyreward import kernels
from anyreward.certificates.bounds import TightBound
from anyreward.certificates.calibrated import CalibratedBound, Design
from anyreward.certificates.calibrated_laws import LawQuotas
from anyreward.certificates.deviances import deviance_quantile

from ..helpers.structures import chain, plant, plant_model

REWARD = np.eye(31)[30]


def batch(n=10_000, slips=1_000, **changes):
    """n draws of each law of the double chain, so many of them slips."""
    setting = {"n_states": 31, "n_actions": 2, "horizon": 20, "initial_state": 15, "structure": chain(), **changes}
    counts = ar.Counts(ar.Setting(**setting))
    flows = [[0, 15, 0, 14, n - slips], [0, 15, 0, 16, slips], [0, 15, 1, 14, slips], [0, 15, 1, 16, n - slips]]
    counts.add_flows(np.array([[-1, 0, 0, 15, n], *flows]))
    return counts


def test_half_of_what_tight_bounds_say():
    counts = batch()
    tight, planned = ar.certify(counts), ar.certify(counts, bounds="calibrated", quotas={0: 10_000, 1: 10_000})
    assert planned.epsilon < 0.52 * tight.epsilon
    assert planned.check(counts)
    assert ar.Certificate.from_dict(planned.to_dict()) == planned
    assert "the quotas of laws were fixed before the counted samples" in planned.assumptions
    assert "2 shared laws; plans use the 20,000 counted draws" in str(planned)
    narrow, wide = (ar.Atlas(counts, certificate).plan(REWARD) for certificate in (planned, tight))
    assert wide.lower < narrow.lower <= narrow.value <= narrow.upper < wide.upper
    assert narrow.upper - narrow.lower < 0.55 * (wide.upper - wide.lower)


def test_the_radii_are_those_of_the_formula():
    counts = batch()
    c, tau = LawQuotas((10_000, 10_000)).radii(counts, 0.1)
    y = deviance_quantile(np.array([9_000, 1_000]), 0.05) / 10_000
    some = np.array([9_000.0, 1_000.0])
    t = kernels.radii.tv_radius(some, 0, 2, 10_000.0, y, False, np.zeros(1 << kernels.radii.ENUMERATED))
    assert c[2:] == pytest.approx(np.full((62, 1), y), rel=1e-9)  # both laws, since the order of outcomes hardly matters
    assert tau[2:] == pytest.approx(np.full((62, 1), t), rel=1e-9)


def test_laws_without_a_quota_are_unknown():
    counts = batch()
    with_both = ar.certify(counts, bounds="calibrated", quotas={0: 10_000, 1: 10_000})
    with_one = ar.certify(counts, bounds="calibrated", quotas={1: 10_000})
    assert with_one.says_nothing
    assert not with_both.says_nothing
    plan = ar.Atlas(counts, with_one).plan(REWARD)
    assert plan.upper > ar.Atlas(counts, with_both).plan(REWARD).upper
    assert ar.certify(counts, bounds=CalibratedBound()).says_nothing


def test_an_estimated_start_shares_delta():
    known, estimated = batch(), batch(initial_state=None)
    quotas = {0: 10_000, 1: 10_000}
    assert ar.certify(known, bounds="calibrated", quotas=quotas).epsilon < (
        ar.certify(estimated, bounds="calibrated", quotas=quotas).epsilon
    )
    c, _ = LawQuotas((10_000, 10_000)).radii(estimated, 0.1)
    assert c[2, 0] == pytest.approx(deviance_quantile(np.array([9_000, 1_000]), 0.1 / 3) / 10_000, rel=1e-6)
    assert c[0, 0] == TightBound().radii(estimated, 0.1)[0][0, 0]  # three laws, as among tight bounds


def test_only_the_draws_that_count_are_used():
    """The same certificate as without the others; and sums, other structures and other bounds do not take them for all."""
    more, counts = batch(12_000, 1_500), batch()
    alone = ar.certify(counts, bounds="calibrated", quotas={0: 10_000, 1: 10_000})
    more.drawn = counts.shared.seen.astype(np.int64)
    also = ar.certify(more, bounds="calibrated", quotas={0: 10_000, 1: 10_000})
    assert (also.epsilon, also.digest == alone.digest) == (alone.epsilon, False)
    assert ar.Atlas(more, also).plan(REWARD).value == ar.Atlas(counts, alone).plan(REWARD).value
    assert more.copy() == more != batch(12_000, 1_500) == more.with_structure(chain())
    assert (more + counts).drawn is None
    with pytest.raises(ValueError, match=r"take counts\.with_structure\(structure\), which counts all draws"):
        ar.certify(more)
    more.drawn = more.drawn + 2_000
    with pytest.raises(ValueError, match="more than its transitions reveal"):
        more.shared  # noqa: B018


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"quotas": {0: 10_001, 1: 10_000}}, "the law 0 has 10,000 counted draws, and its quota is 10,001: nothing is certified"),
        ({"quotas": {"left": 3}}, "quotas has the law 'left', but there is no such law: the laws are 0, 1"),
        ({"quotas": 3}, "it has to be a mapping from laws to numbers of draws"),
        ({"quotas": np.full((31, 2), 10_000)}, "it has to be a mapping from laws to numbers of draws"),
        ({"quotas": {0: -1}}, "quotas of the law 0 is -1: it cannot be negative"),
        ({"design": LawQuotas, "attempt": 0}, "it has to be a Design"),
        ({"design": {"laws": [-1, 3]}}, "a quota is -1: it cannot be negative"),
        ({"quotas": {0: 1.5}}, "1.5"),
        ({}, "the bounds 'calibrated' need quotas"),
        ({"design": LawQuotas((1, 2, 3))}, "there are 3 quotas of laws: the structure has 2 laws"),
        ({"design": {"laws": "x"}}, "it has to be a list"),
        ({"design": LawQuotas((10_000, 10_000)), "restarts": [(0, 1)]}, "need a design"),
    ],
)
def test_what_does_not_fit_is_refused(how, says):
    with pytest.raises(ValueError, match=says):
        ar.certify(batch(), bounds="calibrated", **how)


def test_quotas_of_the_wrong_kind_are_refused():
    """Of laws without a structure, of pairs with one, and of a law that is known."""
    flat, pairs = batch(structure=None, stationary=True), np.full((31, 2), 0)
    with pytest.raises(ValueError, match="quotas are of laws of a structure, but none is declared"):
        ar.certify(flat, bounds=CalibratedBound(LawQuotas((10_000, 10_000))))
    pairs[15] = 10_000
    design = Design.of_quotas(flat.setting, pairs, 0.1)
    with pytest.raises(ValueError, match="the design has quotas of pairs, but a structure is declared"):
        ar.certify(batch(), bounds=CalibratedBound(design, attempt=0))
    known = ar.Structure(
        law=lambda s, a: a, outcomes=(-1, 1), successor=lambda s, a, x: min(max(s + x, 0), 30), known={1: (0.1, 0.9)}
    )
    with pytest.raises(ValueError, match="the law 1 has a quota, but it need not be estimated"):
        ar.certify(flat, structure=known, bounds="calibrated", quotas={0: 10_000, 1: 5})


def test_several_draws_of_a_transition():
    """The plant: each transition counts for three laws, and the batch has as many draws of each as its transitions reveal."""
    rng, counts = (
        np.random.default_rng(0),
        ar.Counts(ar.Setting(n_states=64, n_actions=4, horizon=20, initial_state=0, structure=plant())),
    )
    counts.add_episodes(*plant_model().play_each(rng.integers(0, 4, (300, 20, 64)), rng))
    shared = counts.shared
    quotas = LawQuotas(tuple(shared.n.astype(int).tolist()))
    planned, tight = ar.certify(counts, bounds=CalibratedBound(quotas, attempt=0)), ar.certify(counts)
    assert planned.epsilon < 0.8 * tight.epsilon


def test_the_first_draws_of_a_log():
    """Of every law as many as its quota, in the order of episodes, steps and draws; the certificate uses just them."""
    mdp, rng = plant_model(), np.random.default_rng(2)
    setting = ar.Setting(n_states=64, n_actions=4, horizon=20, initial_state=0, structure=plant())
    states, actions = mdp.play_each(rng.integers(0, 4, (200, 20, 64)), rng)
    every = ar.Counts.from_episodes(states, actions, setting)
    laws, levels = every.setting.structure.names, np.stack(np.unravel_index(states, (4, 4, 4)), axis=-1)
    quotas = {((level,), bool(s)): 40 + 10 * level + 5 * s for level in range(4) for s in (0, 1)}
    expected = {law: np.zeros(4, int) for law in quotas}
    for s, a in zip(levels, actions, strict=True):
        for h, i in np.ndindex(20, 3):
            own = expected[(int(s[h, i]),), bool(a[h] == i + 1)]
            own[s[h + 1, i]] += own.sum() < quotas[(int(s[h, i]),), bool(a[h] == i + 1)]
    counts = ar.Counts.from_episodes(states, actions, setting, quotas=quotas)
    by_name = {repr(law): seen.tolist() for law, seen in expected.items()}
    assert counts.drawn.reshape(8, 4).tolist() == [by_name[name] for name in laws]
    assert counts.transitions == every.transitions
    planned = ar.certify(counts, bounds="calibrated", quotas=quotas)
    assert planned.check(counts)
    assert not planned.check(every)
    with pytest.raises(ValueError, match="quotas are of laws of a structure, but none is declared"):
        ar.Counts.from_episodes(states, actions, every.with_structure(None).setting, quotas=quotas)

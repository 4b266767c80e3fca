"""What is known of a reward beside its values: that it is paid once, against slow loops; and what it changes.

It watches `docs/theory.md`, 9.7.
"""

import numpy as np
import pytest

import anyreward as ar

from ..helpers import bpi_reference
from ..helpers.problems import newest
from ..helpers.tabular import Tabular, own_truth, transitions
from ..helpers.tight_reference import dense, per_row

pytestmark = pytest.mark.usefixtures("quick_look")
H, S, A = 4, 4, 2
RANGE = (-1.0, 2.0)


def game(seed=0, start=0):
    """Episodes that end in state 3, where something is paid, and elsewhere nothing; P and the payments (S, A, S)."""
    P, pay = transitions(S, A, seed), np.zeros((S, A, S))
    pay[:, :, 3] = np.random.default_rng(seed).choice([-1.0, 2.0, 0.5], (S, A))
    return Tabular(P, ends=(3,), pay=lambda s, a, s_next: float(pay[s, a, s_next]), start=start), P, pay


def slow_interval(atlas, reward_low, reward_high, policy, delta):
    """The robust values of a policy by loops, each cut off at the ends; the state after an end, the last one, pays nothing."""
    counts, setting = atlas.counts, atlas.counts.setting
    radii = atlas.certificate.bound.kl_radii(counts, delta)
    c, (starts, n) = per_row(counts, radii), dense(counts)
    low, high = np.zeros((2, setting.horizon + 1, setting.n_states))
    for h in reversed(range(setting.horizon)):
        for s in range(setting.n_states - 1):  # the last state is the end
            a = policy[h, s]
            N, radius = n[h, s, a], c[h, s, a] if n[h, s, a].sum() else None
            gamma = setting.discount
            low[h, s] = reward_low[h, s, a] + gamma * bpi_reference.smallest(N, low[h + 1], radius, setting.n_states)
            high[h, s] = reward_high[h, s, a] + gamma * bpi_reference.largest(N, high[h + 1], radius, setting.n_states)
        low[h], high[h] = np.clip(low[h], *RANGE), np.clip(high[h], *RANGE)
    return [
        bpi_reference.from_start(starts, setting, float(radii[0]), V[0], extreme)
        for V, extreme in ((low, bpi_reference.smallest), (high, bpi_reference.largest))
    ]


@pytest.mark.parametrize("discount", [1.0, 0.8])
@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("episodes", [1, 12, 150])
def test_values_are_cut_off_at_every_step(episodes, stationary, discount):
    """Against loops, for rewards whose means lie in intervals of (h, s, a)."""
    env, _, _ = game(episodes)
    options = {"stationary": stationary, "discount": discount, "terminal": "end", "action_masks": "none"}
    atlas = ar.explore(env, H, max_episodes=episodes, **options)
    delta = atlas.certificate.delta
    bounds = atlas.paid.random(atlas.counts.setting, atlas.counts.stays(), RANGE, stationary, delta / 2)
    policy = np.random.default_rng(episodes).integers(0, A, (H, S + 1))
    for known in [{"stationary_rewards": True}] if stationary else [{}]:
        found = atlas.evaluate(policy, "own", RANGE, paid_once=True, **known)
        low, high = slow_interval(atlas, bounds.least, bounds.most, policy, delta / 2)
        assert (found.lower, found.upper) == pytest.approx((max(RANGE[0], low), min(RANGE[1], high)), abs=1e-8)
        open_ = atlas.evaluate(policy, "own", RANGE, **known)
        assert open_.lower <= found.lower <= found.value <= found.upper <= open_.upper


@pytest.mark.parametrize("rewards", ["random", "deterministic"])
@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("start", [0, np.array([0.5, 0.3, 0.2, 0.0])], ids=["fixed", "random"])
def test_what_is_paid_once_has_a_narrower_interval_that_holds(rewards, alike, start):
    """Plans, cautious plans, values from every step and state, with the truth by loops."""
    for seed, episodes in enumerate((1, 10, 100, 400)):
        env, P, pay = game(seed, start)
        atlas = ar.explore(env, H, max_episodes=episodes, seed=seed, stationary=seed % 2 == 0)
        known = {"rewards": rewards, "stationary_rewards": alike}
        for cautious in (False, True):
            once, open_ = (atlas.plan("own", RANGE, cautious, paid_once=flag, **known) for flag in (True, False))
            best = own_truth(P, {3}, pay, H, start=start)
            assert once.lower - 1e-9 <= own_truth(P, {3}, pay, H, once.policy, start=start) <= best <= once.upper + 1e-9
            assert once.lower <= once.value <= once.upper
            assert RANGE[0] <= once.lower
            assert once.upper <= RANGE[1]
            assert once.upper <= open_.upper + 1e-9
            assert "at most one reward of an episode is not zero" in once.assumptions
            assert "at most one reward of an episode is not zero" in str(once)
            slack = 1e-9
            assert (once.lower_V <= once.V + slack).all()
            assert (once.upper_V + slack >= once.V).all()
            assert ((RANGE[0] - slack <= once.lower_V) & (once.upper_V <= RANGE[1] + slack)).all()


def test_playing_knows_the_range_of_what_is_paid_once():
    """The range by which one bets is that of one payment; an episode that pays twice is refused."""
    env, P, pay = game(1)
    atlas = ar.explore(env, H, max_episodes=30)
    plan, open_ = (atlas.plan("own", RANGE, paid_once=flag) for flag in (True, False))
    verified, wide = (atlas.verify(it, game(1)[0], episodes=300) for it in (plan, open_))
    truth = own_truth(P, {3}, pay, H, plan.policy)
    assert verified.lower <= truth <= verified.upper
    assert np.diff(verified.played) < np.diff(wide.played)
    again = atlas.verify(plan.policy, game(1)[0], episodes=300, reward="own", reward_range=RANGE, paid_once=True)
    assert again.played == verified.played
    twice = Tabular(transitions(S, A, 1), pay=lambda s, a, s_next: 1.0)
    with pytest.raises(ValueError, match="paid_once is True, but an episode paid more than one reward"):
        atlas.verify(plan, twice, episodes=5)
    with pytest.raises(ValueError, match="paid_once is given without a reward"):
        atlas.verify(plan, env, episodes=5, paid_once=True)


@pytest.mark.slow
def test_blackjack_is_a_game_for_one_point():
    """The interval of its own reward is within [-1, 1], where it was [-2.6, 2.8] after 20,000 episodes (docs/environments.md)."""
    atlas = ar.explore(newest("Blackjack"), 4, max_episodes=20_000, stationary=True, action_masks="none", replan="geometric")
    once, open_ = (atlas.plan("own", (-1.0, 1.0), paid_once=flag) for flag in (True, False))
    assert open_.lower < -2.0
    assert open_.upper > 2.0
    assert -1.0 < once.lower <= once.upper < 1.0

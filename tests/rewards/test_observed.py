"""What an environment paid: kept by transition, and planned for with an interval that holds."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import anyreward as ar
from anyreward import kernels
from anyreward.atlas import container
from anyreward.rewards.observed import ObservedRewards

from ..helpers.forging import parts_of
from ..helpers.tabular import MASK, Tabular, own_truth, transitions

pytestmark = pytest.mark.usefixtures("quick_look")
H = 4


def paying(seed=0, **options):
    """A random environment with pay for every transition in [-1, 2], and that pay as (S, A, S)."""
    P, pay = transitions(4, 3, seed), np.random.default_rng(seed + 100).uniform(-1, 2, (4, 3, 4))
    return Tabular(P, pay=lambda s, a, s_next: float(pay[s, a, s_next]), **options), P, pay


def test_payments_are_kept_by_step_state_action_and_successor():
    env, _, pay = paying(ends=(3,))
    atlas = ar.explore(env, H, max_episodes=60, record=True)
    expected = {}
    states, actions, rewards, lengths, _ = atlas.recording
    for b in range(60):
        for h in range(lengths[b]):
            expected.setdefault((h, states[b, h], actions[b, h], states[b, h + 1]), []).append(rewards[b, h])
    assert set(atlas.paid._table) == set(expected)
    for (h, s, a, s_next), (times, total, least, most) in atlas.paid._table.items():
        assert times == len(expected[h, s, a, s_next])
        assert total / times == pytest.approx(pay[s, a, s_next % 4])
        assert least == most == pay[s, a, s_next % 4]
    assert (rewards[np.arange(H)[None] >= lengths[:, None]] == 0).all()
    assert not any(key[1] in (3, 7) for key in atlas.paid._table)  # nothing is paid after the end


def test_payments_are_kept_by_step_where_transitions_are_pooled(tmp_path):
    env, _, _ = paying()
    atlas = ar.explore(env, H, max_episodes=30, stationary=True)
    assert {key[0] for key in atlas.paid._table} == set(range(H))
    assert sum(entry[0] for entry in atlas.paid._table.values()) == 30 * H
    columns = atlas.counts.columns()
    shown = atlas.paid.columns([columns[name] for name in ("h", "s", "a", "next")], pooled=True)
    move = columns["h"] >= 0
    np.testing.assert_array_equal(shown["payments"][move], columns["count"][move])  # the table of counts shows all steps together


def test_what_was_paid_may_contradict_what_is_assumed():
    paid = ObservedRewards()
    for reward in (0.5, -1.0, 2.0):
        paid.add(0, 1, 0, 2, reward)
    assert paid.range == (-1.0, 2.0)
    assert paid.contradiction() == (0, 1, 0, 2)
    certain = ObservedRewards()
    certain.add(0, 1, 0, 2, 0.5)
    certain.add(0, 1, 0, 3, 0.75)
    certain.add(1, 1, 0, 2, 0.25)
    assert certain.range == (0.0, 0.75)  # and 0, which is paid after the end
    assert certain.contradiction() is None
    assert certain.contradiction(stationary_rewards=True) == (1, 1, 0, 2)
    assert ObservedRewards().range == (0.0, 0.0)


def test_means_lie_in_intervals_of_their_own_step_or_of_all():
    """Against the interval for one mean, by hand: 2 of 8 payments at step 0, 1 of 2 at step 1."""
    setting = ar.Setting(n_states=2, n_actions=1, horizon=2)
    paid = ObservedRewards()
    for h, rewards in ((0, (1, 1, 0, 0, 0, 0, 0, 0)), (1, (1, 0))):
        for i, reward in enumerate(rewards):
            paid.add(h, 0, 0, i % 2, float(reward))
    none = np.zeros(0, np.int64)
    apart = paid.random(setting, none, (0.0, 1.0), False, 0.05)
    for h, mean, n in ((0, 0.25, 8.0), (1, 0.5, 2.0)):
        ends = kernels.radii.kl_interval(mean, n, np.log(4 / 0.05))
        assert (apart.least[h, 0, 0], apart.most[h, 0, 0]) == pytest.approx(ends)
        assert apart.average[h, 0, 0] == mean
    assert (apart.least[:, 1], apart.most[:, 1]) == (pytest.approx(0.0), pytest.approx(1.0))  # never seen
    apart = paid.random(setting, none, (0.0, 1.0), True, 0.05)  # transitions may depend on the step: by successor
    for x, mean in ((0, 2 / 5), (1, 1 / 5)):
        ends = kernels.radii.kl_interval(mean, 5.0, np.log(4 / 0.05))
        least, most = (reward.at(1, np.zeros(1, int), np.array([x]))[0] for reward in (apart.least, apart.most))
        assert (least + apart.base[0], most + apart.base[2]) == pytest.approx(ends)
    together = paid.random(replace(setting, stationary=True), none, (0.0, 1.0), True, 0.05)
    ends = kernels.radii.kl_interval(0.3, 10.0, np.log(2 / 0.05))
    for h in (0, 1):
        assert (together.least[h, 0, 0], together.most[h, 0, 0]) == pytest.approx(ends)
    scaled = paid.random(setting, none, (-1.0, 3.0), False, 0.05)
    ends = kernels.radii.kl_interval(1.25 / 4, 8.0, np.log(4 / 0.05))
    assert (scaled.least[0, 0, 0], scaled.most[0, 0, 0]) == pytest.approx([-1 + 4 * end for end in ends])
    over = paid.random(setting, np.array([1]), (-1.0, 3.0), False, 0.05)
    assert not over.least[:, 1].any()
    assert not over.most[:, 1].any()


def test_payments_add_up():
    one, two = ObservedRewards(), ObservedRewards()
    one.add(0, 1, 0, 2, 3.0)
    two.add(0, 1, 0, 2, 1.0)
    two.add(1, 1, 0, 2, -4.0)
    for total in (one + two, two + one):
        assert total._table == {(0, 1, 0, 2): [2, 4.0, 1.0, 3.0], (1, 1, 0, 2): [1, -4.0, -4.0, -4.0]}
    assert one._table == {(0, 1, 0, 2): [1, 3.0, 3.0, 3.0]}  # as before


def test_episodes_that_paid_more_than_once_are_counted():
    """A reward of zero is no payment; payments without their episode do not tell; sums know what both parts know."""
    paid = ObservedRewards()
    paid.add_episode([0, 1, 2], [0, 0], [0.0, 5.0])
    paid.add_episode([0, 1, 2], [0, 0], [0.0, 0.0])
    assert paid.paid_again == 0
    paid.add_episode([0, 1, 2], [0, 0], [-1.0, 5.0])
    assert paid.paid_again == 1
    assert (paid + paid).paid_again == 2
    assert paid._table[1, 1, 0, 2] == [3, 10.0, 0.0, 5.0]
    alone = ObservedRewards()
    alone.add(0, 1, 0, 2, 1.0)
    assert alone.paid_again is None
    assert (paid + alone).paid_again is None
    alone.add_episode([0, 1], [0], [1.0])
    assert alone.paid_again is None
    assert alone != paid


@pytest.mark.parametrize("record", [False, True])
def test_files_keep_how_many_episodes_paid_again(tmp_path, record):
    env, _, _ = paying(ends=(3,))
    atlas = ar.explore(env, H, max_episodes=50, record=record)
    assert 0 < atlas.paid.paid_again <= 50
    atlas.save(tmp_path / "paid.atlas")
    assert ar.load(tmp_path / "paid.atlas").paid == atlas.paid
    columns, about, arrays = parts_of(tmp_path / "paid.atlas")
    wrongs = [-1, 1.0, "0", True, [0], 51, 0] + ([atlas.paid.paid_again - 1] if record else [])
    for wrong in wrongs:  # 0 is not possible with so many payments
        container.write(tmp_path / "wrong.atlas", columns, {**about, "paid_again": wrong}, arrays)
        with pytest.raises(ValueError, match="observed rewards"):
            ar.load(tmp_path / "wrong.atlas")
    container.write(tmp_path / "old.atlas", columns, {k: v for k, v in about.items() if k != "paid_again"}, arrays)
    old = ar.load(tmp_path / "old.atlas")
    assert old.paid.paid_again is None
    with pytest.raises(ValueError, match="does not know which rewards were paid in the same episode"):
        old.plan("own", (-1.0, 2.0), paid_once=True)
    with pytest.raises(ValueError, match=r"\d+ episodes paid more than one reward that is not zero"):
        atlas.evaluate(np.zeros((H, 4), int), "own", (-1.0, 2.0), paid_once=True)
    with pytest.raises(ValueError, match="paid_once are only for the reward 'own'"):
        atlas.plan("state == 1", paid_once=True)


@pytest.mark.parametrize("damage", [("paid", np.nan), ("payments", -1.0), ("least", 9.0), ("most", np.inf)])
def test_a_damaged_table_is_refused(damage):
    columns = {"h": [0], "s": [1], "a": [0], "next": [2], "payments": [2.0], "paid": [1.0], "least": [0.0], "most": [1.0]}
    assert len(ObservedRewards.from_columns(columns)) == 1
    with pytest.raises(ValueError, match="damaged"):
        ObservedRewards.from_columns({**columns, damage[0]: [damage[1]]})


@pytest.mark.slow
@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"ends": (2, 3)}, {"mask": MASK}, {"ends": (3,), "mask": MASK}, {"start": np.array([0.4, 0.3, 0.3, 0.0])}],
    ids=["plain", "ends", "mask", "both", "random start"],
)
def test_intervals_for_its_own_reward_hold(stationary, options):
    """From few episodes, when much was never seen, to many."""
    mask, ends, start = options.get("mask"), options.get("ends", ()), options.get("start", 0)
    for seed, episodes in enumerate((1, 10, 400)):
        env, P, pay = paying(seed, **options)
        for discount in ((1.0,), (0.8,), (1.0, 0.8))[seed]:
            atlas = ar.explore(env, H, max_episodes=episodes, stationary=stationary, seed=seed, discount=discount, growth=2.0)
            known = None if mask is None else (~atlas.counts.illegal if len(atlas.counts.illegal) else np.ones((4, 3), bool))
            kinds = itertools.product((False, True), ("random", "deterministic"), (False, True))
            for cautious, rewards, alike in kinds:
                plan = atlas.plan("own", (-1.0, 2.0), cautious, rewards, alike)
                value = own_truth(P, ends, pay, H, atlas.legal(plan.policy), known, discount, start)
                best = own_truth(P, ends, pay, H, None, mask, discount, start)
                assert plan.lower <= value + 1e-9
                assert best <= plan.upper + 1e-9
                assert plan.lower <= plan.value + 1e-9
                if known is not None:
                    assert known[np.arange(4)[None].repeat(H, 0), plan.policy].all()


def test_after_many_episodes_the_plan_is_as_good_as_it_gets():
    env, P, pay = paying(5, ends=(3,))
    atlas = ar.explore(env, H, max_episodes=3_000, stationary=True, replan="geometric")
    plan = atlas.plan("own", (-1.0, 2.0), rewards="deterministic", stationary_rewards=True)
    best = own_truth(P, {3}, pay, H)
    assert own_truth(P, {3}, pay, H, plan.policy) > best - 0.05
    assert plan.value == pytest.approx(best, abs=0.15)
    assert plan.upper - plan.lower < 3.0 * H / 2  # narrower than half of what is possible
    assert plan.reward_range == (-1.0, 2.0)
    with pytest.raises(ValueError, match="pass reward_range"):
        atlas.plan("own")


@pytest.mark.parametrize("terminal", ["state", "end"])
def test_nothing_is_paid_after_the_end(terminal):
    """A lump sum on arrival, once: the only reward, for which waiting at the end would earn more."""
    P = np.zeros((2, 1, 2))
    P[0, 0] = 0.5
    env = Tabular(P, ends=(1,), pay=lambda s, a, s_next: 1.0 * (s_next == 1))
    P[1, 0, 1] = 1.0
    plan = ar.explore(env, 10, max_episodes=2_000, terminal=terminal, stationary=True, growth=1.5)
    plan = plan.plan("own", rewards="deterministic", stationary_rewards=True)
    assert plan.lower <= 1 - 0.5**10 <= plan.upper
    assert plan.value == pytest.approx(1.0, abs=0.01)
    assert plan.upper < 2  # not 10


@pytest.mark.parametrize("wrong", [(0.0, 2.0), (-1.0, 0.5), (-1.0, -1.0), (2.0, -1.0)])
def test_a_range_that_was_exceeded_is_refused(wrong):
    env, _, _ = paying()
    atlas = ar.explore(env, H, max_episodes=30)
    with pytest.raises(ValueError, match="reward_range"):
        atlas.plan("own", reward_range=wrong)


def test_a_wider_range_widens_the_interval():
    env, _, _ = paying()
    atlas = ar.explore(env, H, max_episodes=30)
    narrow, wide = atlas.plan("own", reward_range=(-1.0, 2.0)), atlas.plan("own", reward_range=(-5.0, 7.0))
    assert wide.lower < narrow.lower
    assert narrow.upper < wide.upper


def test_the_reward_of_a_model_is_known(tmp_path):
    """`own` stands for it, in plans, evaluations and verifications, also after loading and merging; nothing is assumed of it."""
    P, reward = transitions(3, 2), np.random.default_rng(0).random((3, 2))
    mdp = ar.TabularMDP(P, reward=reward)
    atlas, second = (ar.explore(mdp, 3, max_episodes=50, seed=seed) for seed in (0, 1))
    atlas.save(tmp_path / "model.atlas")
    policy = np.zeros((3, 3), int)
    for it in (atlas, ar.load(tmp_path / "model.atlas")):
        assert it.plan("own") == it.plan(mdp.reward)
        assert it.evaluate(policy, "own") == it.evaluate(policy, mdp.reward)
        one, two = (it.verify(policy, mdp, 20, reward=reward) for reward in ("own", mdp.reward))
        assert tuple(one) == tuple(two)
    assert (atlas | second).plan("own") == (atlas | second).plan(mdp.reward)
    with pytest.raises(ValueError, match="since the reward of this model is known"):
        atlas.plan("own", rewards="deterministic")
    other = ar.explore(ar.TabularMDP(P, reward=1 - reward), 3, max_episodes=50, seed=2)
    for unknown in (atlas | other, ar.explore(ar.TabularMDP(P), 3, max_episodes=5)):
        with pytest.raises(ValueError, match="no observed rewards"):
            unknown.plan("own")
    wide = ar.explore(ar.TabularMDP(P, reward=5 * reward - 2), 3, max_episodes=50)
    with pytest.raises(ValueError, match="pass reward_range"):
        wide.plan("own")
    assert wide.plan("own", (-2, 3)).value == pytest.approx(5 * wide.plan(mdp.reward).value - 6)
    columns, about, arrays = parts_of(tmp_path / "model.atlas")
    for wrong in (np.array([np.nan, 0, 0]), np.zeros(4), np.zeros((3, 3)), np.zeros((1, 1, 3, 2))):
        container.write(tmp_path / "wrong.atlas", columns, about, {**arrays, "own.reward": wrong})
        with pytest.raises(ValueError, match="does not hold a valid atlas"):
            ar.load(tmp_path / "wrong.atlas")


def test_an_environment_that_never_paid_may_pay_up_to_1():
    plan = ar.explore(Tabular(transitions()), 3, max_episodes=5).plan("own")
    assert plan.lower == pytest.approx(0.0, abs=1e-9)
    assert 0 < plan.upper <= 3 + 1e-9


def test_random_payments_have_an_interval_that_holds():
    """Heads pays 1 and tails 0, which nothing else tells: after five tosses the mean is not known exactly."""

    class Coin(Tabular):
        def step(self, action):
            out = super().step(action)
            return out[0], float(self.np_random.random() < 0.5), *out[2:]

    outside = 0
    for seed in range(12):
        atlas = ar.explore(Coin(np.ones((1, 1, 1))), 1, max_episodes=5, seed=seed)
        plan = atlas.plan("own", reward_range=(0.0, 1.0))
        outside += not plan.lower <= 0.5 <= plan.upper
        if len({entry[2] for entry in atlas.paid._table.values()} | {e[3] for e in atlas.paid._table.values()}) > 1:
            with pytest.raises(ValueError, match="paid different rewards"):
                atlas.plan("own", rewards="deterministic")
    assert outside <= 4  # each with probability at most delta = 0.1: more than 4 of 12 with 0.4%


@pytest.mark.parametrize("stationary", [False, True])
def test_files_and_merging_keep_payments(tmp_path, stationary):
    env, P, pay = paying(ends=(3,), mask=MASK)
    one, two = (ar.explore(env, H, max_episodes=50, seed=seed, stationary=stationary) for seed in (1, 2))
    one.save(tmp_path / "one.atlas")
    again = ar.load(tmp_path / "one.atlas")
    assert again == one
    assert again.paid == one.paid
    mine, theirs = one.plan("own", (-1.0, 2.0)), again.plan("own", (-1.0, 2.0))
    np.testing.assert_array_equal(mine.policy, theirs.policy)
    ends = (theirs.value, theirs.lower, theirs.upper)
    assert (mine.value, mine.lower, mine.upper) == pytest.approx(ends, rel=1e-14)  # a file has its edges in another order
    both = one.merge(two, same_environment=True)
    assert both.paid == one.paid + two.paid
    plan = both.plan("own", reward_range=(-1.0, 2.0))
    assert plan.lower <= own_truth(P, {3}, pay, H, None, MASK) <= plan.upper
    both.save(tmp_path / "both.atlas")
    assert ar.load(tmp_path / "both.atlas").plan("own", (-1.0, 2.0)).upper == pytest.approx(plan.upper, rel=1e-14)

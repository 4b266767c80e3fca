"""MultiBPI: which reward it plays for, when it stops, what is certified then, and that it can be resumed.

It watches `docs/theory.md`, 20.1.
"""

import dataclasses

import numpy as np
import pytest

import anyreward as ar
from anyreward.algorithms.multi_bpi import MultiBPI
from anyreward.certificates.intervals import Robust
from anyreward.kernels.robust import LOWER, UPPER
from anyreward.rewards.given import Given

from ..helpers import bpi_reference, reference
from ..helpers.explorers import advanced
from ..helpers.problems import random_mdp
from ..helpers.structures import chain
from ..helpers.tabular import Tabular, transitions

CHAIN = ar.envs.double_chain(7)
GOALS = ["state == 6", "state == 0", "own"]


def test_with_one_reward_it_is_bpi_ucrl_episode_for_episode():
    mdp = random_mdp(4, 3, seed=5)
    for options in ({}, {"stationary": True}, {"discount": 0.8}, {"bounds": "paper"}):
        one = ar.explore(mdp, 3, max_episodes=120, algorithm="bpi-ucrl", reward="state == 2", seed=3, **options)
        two = ar.explore(mdp, 3, max_episodes=120, rewards=["state == 2"], seed=3, **options)
        assert one.counts == two.counts
        assert two.certificate.epsilon == pytest.approx(one.certificate.epsilon, abs=1e-7)
        np.testing.assert_array_equal(one.policy, two.policy)


@pytest.mark.parametrize("stationary", [False, True])
def test_it_plays_for_the_reward_whose_interval_is_widest(stationary):
    """Against the formulas in plain NumPy: all three intervals, and the policy that is optimistic for the widest."""
    S, A, H, delta = 4, 2, 3, 0.2
    mdp, rng = random_mdp(S, A, seed=2), np.random.default_rng(0)
    setting = mdp.setting(H, stationary=stationary)
    rewards = [np.eye(S)[3], np.eye(S)[1], rng.random((H, S, A)) / 2]
    full = [np.broadcast_to(r[:, None] if r.ndim == 1 else r, (H, S, A)) for r in rewards]
    explorer, states, actions, played = MultiBPI(setting, rewards=rewards, delta=delta), [], [], set()
    for _ in range(40):
        starts, n = reference.dense_counts(np.reshape(states, (-1, H + 1)), np.reshape(actions, (-1, H)), setting)
        found = [bpi_reference.bpi_ucrl(starts, n, setting, delta, "tight", r, r) for r in full]
        widths = np.array([upper - lower for _, _, lower, upper in found])
        np.testing.assert_allclose(explorer.found.widths, np.minimum(widths + 3e-9, H), atol=1e-8)
        policy, widest = explorer.ask(), int(widths.argmax())
        if np.sort(widths)[-2] < widths[widest] - 1e-9:
            chosen = np.take_along_axis(found[widest][1], policy[..., None], axis=2)[..., 0]
            np.testing.assert_allclose(chosen, found[widest][1].max(axis=2), atol=2e-9)
            assert explorer.phase == f"widest: rewards[{widest}]"
            played.add(widest)
        episode = mdp.rollout(policy, seed=rng)
        explorer.tell(*episode)
        states.append(episode[0])
        actions.append(episode[1])
    assert len(played) > 1  # otherwise nothing was chosen


HOW = {
    "step-dependent": {},
    "stationary": {"stationary": True},
    "on arrival": {"rewards": ["next == 6", "state == 0"]},
    "few laws": {"structure": chain(7)},
}


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_every_given_reward_has_a_plan_that_is_certain_to_be_good(tmp_path, how):
    how = {"rewards": GOALS, **how}
    atlas = ar.explore(CHAIN, 6, epsilon=1.5, **how)
    assert atlas.certificate.met
    assert not atlas.certificate.every_reward
    assert all(name in str(atlas.certificate) for name in atlas.certificate.names)
    best = {
        each.name: ar.backward_induction(CHAIN, CHAIN.reward if each.name == "own" else (np.arange(7) == int(each.name[-1])), 6)
        for each in atlas.rewards
        if "next" not in each.name
    }
    for each in atlas.rewards:
        for cautious in (False, True):
            plan = atlas.plan(each.name, cautious=cautious)
            assert plan.upper - plan.lower <= atlas.certificate.epsilon <= 1.5
            if each.name in best:
                assert plan.lower <= best[each.name].V[0, 3] <= plan.upper
    atlas.save(tmp_path / "it.atlas")
    again = ar.load(tmp_path / "it.atlas")
    assert again == atlas
    assert again.certificate == atlas.certificate
    assert [each.name for each in again.rewards] == [each.name for each in atlas.rewards]


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_resumed_is_the_same_to_the_last_bit(tmp_path, how):
    how = {"rewards": GOALS, **how}

    def explored(name, *budgets):
        for most in budgets:
            atlas = ar.explore(CHAIN, 6, max_episodes=most, checkpoint=tmp_path / name, **how)
        return atlas

    once, twice = explored("once.atlas", 200), explored("twice.atlas", 17, 101, 200)
    assert once == twice
    assert once.certificate == twice.certificate
    with pytest.raises(ValueError, match="its rewards are not the same"):
        ar.explore(CHAIN, 6, max_episodes=300, checkpoint=tmp_path / "once.atlas", **{**how, "rewards": GOALS[:2]})


@pytest.mark.parametrize("stationary", [False, True])
def test_compiled_runs_decide_as_ask_and_tell(stationary):
    rewards = [np.eye(7)[6], np.eye(7)[0], np.linspace(0, 1, 7)]
    compiled, told = (MultiBPI(CHAIN.setting(6, stationary=stationary), rewards=rewards, seed=4) for _ in range(2))
    advanced(compiled, CHAIN, 150, np.random.default_rng(1))
    rng = np.random.default_rng(1)
    for _ in range(150):
        told.tell(*CHAIN.rollout(told.ask(), seed=rng))
    assert compiled.counts == told.counts
    assert compiled.own_epsilon == told.own_epsilon
    np.testing.assert_array_equal(compiled.ask(), told.ask())


def test_a_gymnasium_environment_resumed(tmp_path):
    how = {"rewards": ["state == 15", "state == 3"], "initial_state": 0, "progress": False}
    once = ar.explore("FrozenLake-v1", 5, max_episodes=96, **how)
    for most in (32, 96):
        atlas = ar.explore("FrozenLake-v1", 5, max_episodes=most, checkpoint=tmp_path / "it.atlas", **how)
    assert atlas == once
    assert ar.load(tmp_path / "it.atlas").certificate == once.certificate


def test_names_of_actions_in_expressions():
    atlas = ar.explore(
        "FrozenLake-v1", 3, max_episodes=10, rewards=["action == 'south'", "state == 1"], initial_state=0,
        action_names=["west", "south", "east", "north"], progress=False,
    )  # fmt: skip
    assert atlas.rewards[0].reward[0, 0].tolist() == [0, 1, 0, 0]


def test_rewards_of_another_range():
    """The same rewards on another scale: the same episodes, and epsilon in their units."""
    unit = [np.eye(7)[6], np.eye(7)[0] / 2]
    one = ar.explore(CHAIN, 6, epsilon=1.5, rewards=unit)
    two = ar.explore(CHAIN, 6, epsilon=12.0, rewards=[8 * r - 4 for r in unit], reward_range=(-4, 4))
    assert one.counts == two.counts
    assert two.certificate.epsilon == pytest.approx(8 * one.certificate.epsilon)
    assert two.certificate.reward_range == (-4, 4)
    assert two.plan(8 * unit[0] - 4, reward_range=(-4, 4)).regret_bound <= 12.0


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"rewards": []}, "rewards is an empty list: give at least one reward"),
        ({"rewards": np.eye(7)}, "it has to be a list of rewards"),
        ({"rewards": [np.zeros(7), np.zeros(8)]}, r"rewards\[1\] cannot be used: reward has shape \(8,\)"),
        ({"rewards": ["state = 3"]}, "the reward 'state = 3' cannot be used"),
        ({"rewards": [np.full(7, 2.0)]}, r"rewards\[0\] cannot be used: reward\[0\] is 2, outside \[0, 1\]"),
        ({"rewards": GOALS, "reward": np.zeros(7)}, "reward is given together with a list of rewards"),
        ({"rewards": GOALS, "algorithm": "rf-ucrl"}, "rewards are given, which RFUCRL does not explore for: use 'multi-bpi'"),
        ({"rewards": GOALS, "bounds": "calibrated"}, "the bounds 'calibrated' do not suit MultiBPI"),
        ({"rewards": GOALS, "transfer": True}, "transfer does not suit"),
    ],
)
def test_what_cannot_be_explored_for_is_one_sentence(wrong, says):
    with pytest.raises(ValueError, match=says):
        ar.explore(CHAIN, 6, max_episodes=10, **wrong)


@pytest.mark.usefixtures("quick_look")
@pytest.mark.parametrize("stationary", [False, True])
def test_what_an_environment_pays_is_observed(stationary, tmp_path):
    """Its interval is that of plans for it, whose balls and means have half of delta each; other rewards have the same balls."""
    env, file = Tabular(transitions(3, 2), pay=lambda s, a, s_next: s_next / 2), tmp_path / "it.atlas"
    options = {"rewards": ["own", "state == 1"], "stationary": stationary, "progress": False, "seed": 3}
    atlas = ar.explore(env, 3, max_episodes=96, **options)
    certificate, bound = atlas.certificate, atlas.certificate.bound
    own, other = (atlas.plan(reward, cautious=True).regret_bound for reward in options["rewards"])
    one = np.broadcast_to(np.eye(6)[1] + np.eye(6)[4], (3, 6))[..., None].repeat(2, axis=2)  # after an end as well
    robust = Robust(atlas.counts, bound.kl_radii(atlas.counts, 0.05), bound.most_successors(atlas.counts.setting), one)
    assert other == pytest.approx(robust.best(UPPER)[1] - robust.best(LOWER)[1], abs=1e-7)
    assert certificate.epsilon == pytest.approx(max(own, other), abs=1e-7)
    assert "rewards lie in [0, 1]" in certificate.assumptions
    ar.explore(env, 3, max_episodes=64, checkpoint=file, **options)
    again = ar.explore(env, 3, max_episodes=96, checkpoint=file, **options)
    assert (again.counts, again.certificate.epsilon) == (atlas.counts, certificate.epsilon)
    assert ar.load(file).certificate == dataclasses.replace(certificate, claimed=True)


@pytest.mark.usefixtures("quick_look")
def test_what_cannot_be_done_with_an_observed_reward_is_one_sentence():
    env, options = Tabular(transitions(3, 2), pay=lambda s, a, s_next: 2.0), {"max_episodes": 40, "progress": False}
    for says, more in (
        ("mixtures is True, but what 'own' pays is only observed", {"rewards": ["own", "state == 1"], "mixtures": True}),
        (r"step 0 paid 2: it has to be in \[0, 1\]. Pass reward_range", {"rewards": ["own"]}),
    ):
        with pytest.raises(ValueError, match=says):
            ar.explore(env, 3, **options, **more)
    atlas = ar.explore(env, 3, rewards=["own"], reward_range=(0, 2), **options)
    with pytest.raises(ValueError, match=r"rewards\[0\] is 'own', but what this environment pays is not known beforehand"):
        atlas.extend(env, rewards=["own"], max_episodes=10, same_environment=True)
    explorer, episode = MultiBPI(CHAIN.setting(6), rewards=[Given.to_be_observed(CHAIN.setting(6), (0.0, 1.0))]), CHAIN.rollout
    for rewards, says in (
        (None, "rewards are missing"),
        (np.zeros(5), r"have shape \(5,\): they have to be like"),
    ):
        with pytest.raises(ValueError, match=says):
            explorer.tell(*episode(explorer.ask()), rewards)
    with pytest.raises(ValueError, match="data from elsewhere cannot be gone on from"):
        explorer.go_on_from(explorer.counts)


def test_policies_ahead_break_ties_differently_where_all_is_planned_at_once():
    explorer = MultiBPI(CHAIN.setting(6), rewards=["next == 6", "state == 0"])
    ahead = [explorer.ask_ahead(k) for k in range(3)]
    np.testing.assert_array_equal(ahead[0], explorer.ask())
    assert (ahead[1] != ahead[2]).any()


def test_a_certificate_is_about_its_rewards_alone():
    atlas = ar.explore(CHAIN, 6, epsilon=2.0, rewards=GOALS)
    certificate, rewards = atlas.certificate, [*GOALS[:2], CHAIN.reward]
    assert certificate.check(atlas.counts, rewards)
    assert certificate.check(atlas.counts, list(atlas.rewards))
    assert not certificate.check(atlas.counts, [rewards[1], rewards[0], rewards[2]])
    assert not certificate.check(atlas.counts, [*GOALS[:2], "state == 3"])
    more = certificate.to_dict() | {"epsilon": certificate.epsilon / 2, "target": 2.0}
    assert not ar.Certificate.from_dict(more).check(atlas.counts, rewards)
    with pytest.raises(ValueError, match="about several rewards: pass these as a list"):
        certificate.check(atlas.counts)
    with pytest.raises(ValueError, match="certified for one reward or for several cannot be merged"):
        atlas | ar.explore(CHAIN, 6, max_episodes=5, seed=1)
    assert isinstance(atlas.rewards[0], Given)


def test_the_atlas_of_a_forged_file_is_refused(tmp_path):
    """Fewer rewards than the certificate names, others, or a smaller epsilon: none is believed."""
    from anyreward.atlas import container

    path = tmp_path / "it.atlas"
    ar.explore(CHAIN, 6, epsilon=2.0, rewards=GOALS).save(path)

    def forged(change):
        columns, about, arrays = container.read(path)
        change(about["certificate"], arrays)
        container.write(tmp_path / "forged.atlas", columns, about, arrays)
        with pytest.raises(ValueError, match="does not hold a valid atlas"):
            ar.load(tmp_path / "forged.atlas")

    forged(lambda it, arrays: it.update(epsilon=it["epsilon"] / 2))
    forged(lambda it, arrays: it.update(rewards=it["rewards"][:1]))
    forged(lambda it, arrays: it.update(rewards=[["a\n", print_] for _, print_ in it["rewards"]]))
    forged(lambda it, arrays: it.update(rewards=7))
    forged(lambda it, arrays: it.update(reward=None))
    forged(lambda it, arrays: it.update(reward="several", rewards=[]))
    forged(lambda it, arrays: arrays.pop("rewards.1.values"))
    forged(lambda it, arrays: arrays.update({"rewards.1.values": np.ones((1, 7, 2))}))

"""What an explorer keeps of itself: taken up by another, it decides the same for ever after."""

import numpy as np
import pytest

import anyreward as ar
from anyreward.atlas import container
from anyreward.certificates.bounds import widest_of
from anyreward.data.counts import Counts
from anyreward.environments.tabular import play as play_model
from anyreward.testing import random_episodes

from ..helpers.problems import random_mdp

S, A, H = 6, 3, 4
REWARD = np.random.default_rng(9).random((S, A)).round(2)

EXPLORERS = {
    "path": (ar.RFTrajectory, {}),
    "every": (ar.RFTrajectory, {"replan": "every"}),
    "geometric": (ar.RFTrajectory, {"replan": "geometric", "growth": 1.3}),
    "first": (ar.RFTrajectory, {"ties": "first"}),
    "without transfer": (ar.RFTrajectory, {"transfer": False}),
    "rf-ucrl": (ar.RFUCRL, {"bounds": "paper"}),
    "rf-ucrl geometric": (ar.RFUCRL, {"replan": "geometric", "bounds": "paper"}),
    "bpi known": (ar.BPIUCRL, {"reward": REWARD}),
    "bpi by step": (ar.BPIUCRL, {"reward": np.stack([REWARD] * H) / np.arange(1, H + 1)[:, None, None]}),
    "bpi observed": (ar.BPIUCRL, {"rewards": "deterministic", "reward": REWARD}),
    "bpi random": (ar.BPIUCRL, {"rewards": "random", "bounds": "paper", "reward": REWARD}),
    "bpi on arrival": (ar.BPIUCRL, {"reward": np.random.default_rng(1).random((S, A, S))}),
}
SETTINGS = {
    "": {},
    "stationary": {"stationary": True, "discount": 0.9},
    "random start": {"initial_state": None},
    "absorbing": {"absorbing_states": (5,), "arrival_rewards": True},
}


def setting_of(kind):
    return ar.Setting(**{"n_states": S, "n_actions": A, "horizon": H, "initial_state": 0, **SETTINGS[kind]})


def model_of(kind):
    P = np.random.default_rng(4).dirichlet(np.full(S, 0.3), (S, A))
    P[5] = np.eye(S)[5]
    return ar.TabularMDP(P, initial=np.full(S, 1 / S) if kind == "random start" else 0, reward=REWARD)


def paid(explorer, states, actions, rng):
    if not explorer.observes_rewards:
        return ()
    mean = REWARD[states[:, :-1], actions]
    return (mean if explorer.rewards == "deterministic" else (rng.random(mean.shape) < mean).astype(float),)


def play(explorer, mdp, episodes, seed):
    """Episodes by ask and tell; what was decided and concluded, as bytes."""
    rng, seen = np.random.default_rng(seed), []
    for t in range(episodes):
        policy = explorer.ask()
        states, actions = mdp.rollout(policy, seed=rng)
        explorer.tell(states, actions, *paid(explorer, states, actions, rng))
        seen.append((policy.tobytes(), states.tobytes()))
        if t % 20 == 0:
            seen.append((np.float64(explorer.error_bound).tobytes(), explorer.counts.digest()))
    recommended = explorer.recommendation
    return [*seen, None if recommended is None else recommended.tobytes(), np.float64(explorer.error_bound).tobytes()]


def identical(one, other):
    assert set(one) == set(other)
    for name in one:
        assert one[name].dtype == other[name].dtype, name
        assert one[name].shape == other[name].shape, name
        assert one[name].tobytes() == other[name].tobytes(), name
    return True


@pytest.mark.slow
@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("name", EXPLORERS)
def test_a_restored_explorer_decides_the_same_ever_after(name, kind):
    make, options = EXPLORERS[name]
    mdp, setting = model_of(kind), setting_of(kind)
    further = 30 if name == "bpi on arrival" else 200
    for before in (0, 7, 61):
        explorer, twin = (make(setting, seed=3, **options) for _ in range(2))
        play(explorer, mdp, before, seed=1)
        state = explorer.state()
        kept = {k: v.copy() for k, v in state.items()}
        twin.restore(state)
        assert identical(twin.state(), kept)
        assert twin.error_bound == explorer.error_bound
        assert play(explorer, mdp, further, seed=2) == play(twin, mdp, further, seed=2)
        assert identical(explorer.state(), twin.state())
        assert identical(state, kept)  # a copy, which later episodes do not change
        if before == 7 and further == 200:
            assert not all(np.array_equal(kept[k], explorer.state()[k]) for k in kept)


@pytest.mark.parametrize("name", [name for name in EXPLORERS if name != "bpi on arrival"])
@pytest.mark.parametrize("kind", SETTINGS)
def test_a_restored_explorer_advances_the_same_at_compiled_speed(name, kind):
    """With its generator, on a known model, in other portions too."""
    make, options = EXPLORERS[name]
    if name.startswith("bpi"):
        options = {"reward": REWARD, **options}
    mdp, setting = model_of(kind), setting_of(kind)
    explorer, twin = (make(setting, seed=3, **options) for _ in range(2))
    rng = np.random.default_rng(5)
    while explorer.episodes < 90:
        play_model(explorer, mdp, rng, 90 - explorer.episodes, -1.0)
    again = np.random.default_rng(0)
    again.bit_generator.state = rng.bit_generator.state
    twin.restore(explorer.state())
    for one, generator in ((explorer, rng), (twin, again)):
        while one.episodes < 400:
            play_model(one, mdp, generator, 400 - one.episodes, -1.0)
    assert rng.bit_generator.state == again.bit_generator.state
    assert identical(explorer.state(), twin.state())
    assert (explorer.ask() == twin.ask()).all()
    assert explorer.error_bound == twin.error_bound
    assert explorer.certificate(0.5) == twin.certificate(0.5)


@pytest.mark.parametrize("name", ["path", "geometric", "bpi random"])
def test_an_explorer_that_was_used_can_be_restored_too(name):
    """What it had learnt before leaves no trace."""
    make, options = EXPLORERS[name]
    mdp, setting = model_of(""), setting_of("")
    explorer, twin, fresh = (make(setting, seed=3, **options) for _ in range(3))
    play(explorer, mdp, 20, seed=1)
    play(twin, mdp, 150, seed=8)
    twin.restore(explorer.state())
    fresh.restore(explorer.state())
    assert play(fresh, mdp, 60, seed=2) == play(twin, mdp, 60, seed=2)
    assert identical(fresh.state(), twin.state())


@pytest.mark.parametrize("name", EXPLORERS)
def test_a_state_survives_a_file(tmp_path, name):
    make, options = EXPLORERS[name]
    explorer, twin = (make(setting_of(""), seed=3, **options) for _ in range(2))
    play(explorer, model_of(""), 30, seed=1)
    container.write(tmp_path / "it", explorer.counts.columns(), {}, explorer.state())
    attached = container.read(tmp_path / "it")[2]
    assert identical(attached, explorer.state())
    twin.restore(attached)
    assert play(explorer, model_of(""), 30, seed=2) == play(twin, model_of(""), 30, seed=2)


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("transfer", [False, True])
def test_counts_come_back_in_the_order_of_discovery(kind, transfer):
    setting = setting_of(kind)
    counts = Counts(setting, transfer)
    states, actions = random_episodes(setting, 300, seed=2)
    if setting.absorbing_states:  # once there, always there
        for b in range(len(states)):
            met = np.flatnonzero(states[b] == 5)
            if len(met):
                states[b, met[0] :] = 5
    counts.add_episodes(states, actions)
    counts.declare_illegal(1, [2]) if not counts.n().reshape(-1, S, A)[:, 1, 2].any() else None
    again = Counts.from_state(setting, counts.state(), transfer)
    assert again == counts
    assert again.episodes == counts.episodes
    assert again.until_booking == counts.until_booking
    assert identical(again.state(), counts.state())
    used = int(counts.table.used[0])
    for name in ("state", "following"):
        np.testing.assert_array_equal(getattr(again.table, name)[:used], getattr(counts.table, name)[:used])
    np.testing.assert_array_equal(again.table.head, counts.table.head)
    if transfer and not setting.stationary:
        assert again._pool.columns().keys() == counts._pool.columns().keys()
        for name, column in counts._pool.columns().items():
            np.testing.assert_array_equal(again._pool.columns()[name], column)
    more = random_episodes(setting, 50, seed=3)
    if not setting.absorbing_states:
        for one in (counts, again):
            one.add_episodes(*more)
        assert identical(again.state(), counts.state())


def test_counts_of_another_setting_are_refused():
    counts = Counts(setting_of(""))
    counts.add_episodes(*random_episodes(setting_of(""), 20, seed=2))
    for change in ({"n_states": 3}, {"horizon": 2}, {"stationary": True}):
        other = ar.Setting(**{"n_states": S, "n_actions": A, "horizon": H, "initial_state": 0, **change})
        with pytest.raises(ValueError, match="its counts are damaged"):
            Counts.from_state(other, counts.state(), False)


@pytest.mark.parametrize("name", ["path", "bpi random"])
def test_a_state_of_a_larger_explorer_is_refused(name):
    make, options = EXPLORERS[name]
    explorer = make(setting_of(""), seed=3, **options)
    play(explorer, model_of(""), 20, seed=1)
    small = ar.Setting(n_states=3, n_actions=2, horizon=H, initial_state=0)
    if "reward" in options:
        options = {**options, "reward": REWARD[:3, :2]}
    with pytest.raises(ValueError, match="damaged"):
        make(small, **options).restore(explorer.state())


@pytest.mark.parametrize("seed", range(2))
def test_random_changes_of_a_state_are_refused_or_harmless(seed):
    """Every array of a state, changed at random: an explorer that takes it goes on without a crash."""
    rng = np.random.default_rng(seed)
    mdp, setting = model_of(""), setting_of("")
    for name in ("path", "geometric", "bpi observed"):
        make, options = EXPLORERS[name]
        explorer = make(setting, seed=3, **options)
        play(explorer, mdp, 25, seed=1)
        state = explorer.state()
        refused = 0
        for key in ("nodes", "edges", "values", "known", "settled", "Q"):
            for _ in range(20):
                changed = {k: v.copy() for k, v in state.items()}
                flat = changed[key].reshape(-1)
                if not len(flat):
                    continue
                kinds = (
                    [0, 1, -1, 2**31, 2**62]
                    if flat.dtype.kind == "i"
                    else [0, 1, 255]
                    if flat.dtype.kind == "u"
                    else [0.0, -1.0, np.nan, np.inf, 0.5]
                )
                flat[rng.integers(len(flat))] = rng.choice(kinds)
                twin = make(setting, seed=3, **options)
                try:
                    twin.restore(changed)
                except ValueError:
                    refused += 1
                    continue
                policy = twin.ask()
                assert ((policy >= 0) & (policy < A)).all()
        assert refused >= 20


def test_a_model_with_many_successors_is_restored():
    """Rows that were moved in the pool of edges, some of them several times."""
    mdp = random_mdp(40, 2, seed=1, random_start=True)
    explorer, twin = (ar.RFTrajectory(mdp.setting(3), seed=1) for _ in range(2))
    play(explorer, mdp, 300, seed=1)
    assert widest_of(explorer.counts) > 16
    twin.restore(explorer.state())
    assert play(explorer, mdp, 100, seed=2) == play(twin, mdp, 100, seed=2)
    assert identical(explorer.state(), twin.state())


OF_ONE = ("bpi-ucrl", "multi-bpi", "mdp-gape")  # whose certificates are about that reward alone
ONE_REWARD = [name for name, kind in ar.ALGORITHMS.items() if kind.needs_reward and name not in OF_ONE]


@pytest.mark.parametrize("name", ONE_REWARD)
def test_a_reward_of_another_range_is_explored_for_in_its_units(tmp_path, name):
    """The same episodes as for the rescaled reward; the certificate, the target and the own guarantee are in units."""
    mdp = ar.envs.double_chain(length=5)
    unit = {"algorithm": name, "reward": mdp.reward, "max_episodes": 300}
    wide = {**unit, "reward": 8 * np.asarray(mdp.reward) - 4, "reward_range": (-4, 4)}
    one, two = ar.explore(mdp, 3, 0.5, **unit), ar.explore(mdp, 3, 4.0, **wide)
    assert one.counts == two.counts
    assert two.certificate.epsilon == pytest.approx(8 * one.certificate.epsilon, rel=1e-9)
    assert two.certificate.reward_range == (-4, 4)
    assert (two.certificate.met, two.certificate.target) == (one.certificate.met, 4.0)
    mine, theirs = one.source["own"]["epsilon"], two.source["own"]["epsilon"]
    assert (mine is None and theirs is None) or theirs == pytest.approx(8 * mine, rel=1e-9)
    two.save(tmp_path / "two.atlas")
    assert ar.load(tmp_path / "two.atlas").certificate == two.certificate
    both = ar.load(tmp_path / "two.atlas") | ar.explore(mdp, 3, 4.0, **wide, seed=1)
    assert (both.certificate.reward_range, both.certificate.target) == ((-4, 4), 4.0)
    mixed = two | ar.explore(mdp, 3, 0.5, **unit, seed=1)
    assert (mixed.certificate.reward_range, mixed.certificate.target) == ((0, 1), None)
    with pytest.raises(ValueError, match=r"outside \[0, 1\]: rescale it, or pass reward_range=\(lowest, highest\)"):
        ar.explore(mdp, 3, 4.0, **{**wide, "reward_range": (0, 1)})


def test_the_own_guarantee_stops_in_the_units_of_the_reward():
    mdp = ar.TabularMDP(np.full((2, 2, 2), 0.5), 0, reward=[[0, 1], [0.5, 0]])
    reward, given = np.asarray(mdp.reward), {"algorithm": "even-dar", "stop": "own"}
    one = ar.explore(mdp, 2, 0.9, reward=reward, **given)
    two = ar.explore(mdp, 2, 14.4, reward=16 * reward, reward_range=(0, 16), **given)
    assert one.counts == two.counts
    assert two.source["own"]["met"]
    assert 0.8 * 14.4 < two.source["own"]["epsilon"] <= 14.4


def test_the_phases_give_an_interval_in_units():
    mdp = random_mdp(3, 2, seed=5)
    reward = np.random.default_rng(2).integers(0, 9, (3, 2)) / 8
    low, high = -3.0, 5.0
    one = ar.ALGORITHMS["ucrl2"](mdp.setting(3, 0.9, True), reward)
    two = ar.ALGORITHMS["ucrl2"](mdp.setting(3, 0.9, True), low + (high - low) * reward, reward_range=(low, high))
    for seed in range(20):
        episode = mdp.rollout(one.ask(), seed=seed)
        one.tell(*episode)
        two.tell(*episode)
    sigma = two.setting.sigma[-1]
    assert two.interval == pytest.approx([low * sigma + (high - low) * end for end in one.interval], abs=1e-9)
    assert two.own_epsilon == pytest.approx(two.interval[1] - two.interval[0], abs=1e-9)

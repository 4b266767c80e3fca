"""What every explorer has to do, whatever its rule: run over all of them and over every kind of setting."""

import itertools

import numpy as np
import pytest

import anyreward as ar
from anyreward.environments.tabular import play as play_model

from ..helpers.problems import random_episodes, random_mdp, rows

SETTINGS = {
    "step-dependent": ar.Setting(n_states=4, n_actions=3, horizon=3, initial_state=1),
    "stationary": ar.Setting(n_states=4, n_actions=3, horizon=3, initial_state=1, stationary=True),
    "discounted": ar.Setting(n_states=4, n_actions=3, horizon=3, initial_state=0, discount=0.7),
    "random start": ar.Setting(n_states=4, n_actions=3, horizon=3),
    "random start, stationary": ar.Setting(n_states=4, n_actions=3, horizon=3, stationary=True),
    "one state": ar.Setting(n_states=1, n_actions=3, horizon=3, initial_state=0),
    "one action": ar.Setting(n_states=4, n_actions=1, horizon=3, initial_state=0),
    "one step": ar.Setting(n_states=4, n_actions=3, horizon=1, initial_state=0),
}


UNDISCOUNTED = (
    "rf-express", "jin2020", "bpi-ucbvi", "ucbvi", "euler", "opt-qlearning", "regret-uniform", "regret-instances",
)  # fmt: skip
UNSAVED = ("jin2020", "regret-uniform", "regret-instances")  # cannot be interrupted
NO_PROOF = ("random", "generative", "jin2020", "ucbvi", "euler", "opt-qlearning")  # of a policy or of plans
CASES = [(name, kind) for name in ar.ALGORITHMS for kind in SETTINGS if kind != "discounted" or name not in UNDISCOUNTED]


@pytest.fixture(params=ar.ALGORITHMS)
def name(request):
    return request.param


@pytest.fixture
def algorithm(name):
    return ar.ALGORITHMS[name]


@pytest.fixture(params=SETTINGS)
def setting(request, name):
    """Every kind of setting that the algorithm is made for; see `test_a_discount_is_refused` for the rest."""
    if (name, request.param) not in CASES:
        pytest.skip("made for problems without a discount")
    return SETTINGS[request.param]


def extras(algorithm, setting):
    """What an algorithm needs beside a setting: some are for one reward, some have to know how long it will take."""
    shape = setting.horizon, setting.n_states, setting.n_actions
    more = {"reward": np.random.default_rng(9).random(shape)} if algorithm.needs_reward else {}
    return {**more, "budget": 400} if algorithm.needs_budget else more


def make(algorithm, setting, **options):
    return algorithm(setting, **extras(algorithm, setting), **options)


def model_of(setting):
    """A model that fits a setting."""
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.ones(setting.n_states), (setting.n_states, setting.n_actions))
    start = np.full(setting.n_states, 1 / setting.n_states) if setting.initial_state is None else setting.initial_state
    return ar.TabularMDP(P, initial=start)


def play(explorer, episodes, seed=0):
    rng, mdp = np.random.default_rng(seed), model_of(explorer.setting)
    for _ in range(episodes):
        explorer.tell(*mdp.rollout(explorer.ask(), seed=rng))
    return explorer


def state_of(explorer):
    """All that a user can see."""
    return explorer.counts.digest(), explorer.ask().tobytes(), explorer.error_bound, explorer.episodes


def test_it_proposes_a_policy(algorithm, setting):
    explorer = make(algorithm, setting, seed=1)
    for _ in range(30):
        policy = explorer.ask()
        assert policy.shape == (setting.horizon, setting.n_states)
        assert np.issubdtype(policy.dtype, np.integer)
        assert ((policy >= 0) & (policy < setting.n_actions)).all()
        play(explorer, 1)
    assert explorer.episodes == 30


def test_asking_changes_nothing(algorithm, setting):
    explorer = play(make(algorithm, setting, seed=1), 10)
    first = explorer.ask()
    np.testing.assert_array_equal(explorer.ask(), first)
    first[:] = -1  # what a user does with the answer is the user's business
    assert explorer.ask().min() >= 0


def test_it_repeats_itself_under_a_seed(algorithm, setting):
    one, again = (play(make(algorithm, setting, seed=7), 40) for _ in range(2))
    assert state_of(one) == state_of(again)


def test_a_run_can_be_split_anywhere(algorithm, setting):
    """One explorer told 25 episodes is the explorer told 10 and then 15."""
    states, actions = random_episodes(setting, 25, seed=4)
    whole, parts = (make(algorithm, setting, seed=2) for _ in range(2))
    whole.tell(states, actions)
    parts.tell(states[:10], actions[:10])
    parts.tell(states[10:], actions[10:])
    assert rows(whole.counts) == rows(parts.counts)
    assert whole.error_bound == pytest.approx(parts.error_bound, rel=1e-12)


def test_no_episodes_are_no_news(algorithm, setting):
    explorer = play(make(algorithm, setting, seed=1), 5)
    before = state_of(explorer)
    explorer.tell(np.zeros((0, setting.horizon + 1), int), np.zeros((0, setting.horizon), int))
    assert state_of(explorer) == before


DAMAGES = ["state too large", "state negative", "action too large", "action negative", "shape", "floats"]


def bad_episodes():
    """Every algorithm with every damage at every place, in its settings in turn: each setting meets each algorithm and damage."""
    for i, name in enumerate(ar.ALGORITHMS):
        kinds = [kind for of, kind in CASES if of == name]
        for j, (damage, place) in enumerate(itertools.product(DAMAGES, ["first", "last"])):
            yield name, kinds[(i + j) % len(kinds)], damage, place


@pytest.mark.parametrize(("name", "setting", "damage", "place"), list(bad_episodes()), indirect=["name", "setting"])
def test_a_bad_episode_changes_nothing(algorithm, setting, damage, place):
    """A batch is checked as a whole before any of it is learnt, also when only its last episode is bad."""
    explorer = play(make(algorithm, setting, seed=1), 8)
    before = state_of(explorer)
    states, actions = random_episodes(setting, 600, seed=0)  # longer than the parts in which episodes are taken in
    b = 0 if place == "first" else -1
    if damage == "state too large":
        states[b, -1] = setting.n_states
    elif damage == "state negative":
        states[b, -1] = -1
    elif damage == "action too large":
        actions[b, -1] = setting.n_actions
    elif damage == "action negative":
        actions[b, 0] = -1
    elif damage == "shape":
        actions = actions[:, 1:]
    else:
        states = states.astype(float)
    with pytest.raises(ValueError, match=r"state|action"):
        explorer.tell(states, actions)
    assert state_of(explorer) == before
    play(explorer, 3)
    play(twin := make(algorithm, setting, seed=1), 8)
    assert state_of(play(twin, 3)) == state_of(explorer), "the refused episodes left a trace"


def test_a_wrong_start_changes_nothing(algorithm):
    setting = SETTINGS["step-dependent"]
    explorer = play(make(algorithm, setting, seed=1), 8)
    before = state_of(explorer)
    states, actions = random_episodes(setting, 600, seed=0)
    states[-1, 0] = setting.initial_state + 1
    with pytest.raises(ValueError, match="episode 599 starts in state 2, not in the initial_state 1"):
        explorer.tell(states, actions)
    assert state_of(explorer) == before


def test_the_bound_is_between_nothing_and_everything(algorithm, setting):
    explorer = make(algorithm, setting, seed=1)
    most = setting.sigma[-1]
    for _ in range(20):
        assert 0 <= explorer.error_bound <= most * (1 + 1e-10)
        play(explorer, 3)


def test_the_bound_is_the_certificate_of_its_counts(algorithm, setting):
    explorer = play(make(algorithm, setting, delta=0.3, seed=1), 25)
    certificate = explorer.certificate(epsilon=1.0)
    assert certificate.error_bound == pytest.approx(explorer.error_bound, rel=1e-12)
    assert certificate.met == (2 * explorer.error_bound <= 1.0)
    assert certificate.check(explorer.counts, extras(algorithm, setting).get("reward"))


def test_it_runs_in_explore(algorithm):
    mdp = random_mdp(3, 2, seed=0)
    more = extras(algorithm, mdp.setting(3))
    one, again = (ar.explore(mdp, 3, max_episodes=300, algorithm=algorithm, seed=4, **more) for _ in range(2))
    assert one == again
    assert one.episodes == 300
    assert one.certificate.check(one.counts, more.get("reward"))


@pytest.mark.parametrize("random_start", [False, True])
@pytest.mark.parametrize("stationary", [False, True])
def test_a_model_and_a_number_of_episodes_are_enough(name, stationary, random_start, tmp_path):
    """The reward is then the model's own and the budget max_episodes; the atlas is certified, saved and loaded."""
    mdp = random_mdp(3, 2, seed=1, random_start=random_start)
    atlas = ar.explore(mdp, 3, delta=0.2, max_episodes=150, algorithm=name, stationary=stationary)
    assert atlas.episodes == 150
    assert atlas.counts.transitions == 450
    certificate = ar.certify(atlas.counts, delta=0.2)
    assert certificate.every_reward
    assert 0 < certificate.epsilon <= 2 * 3 * (1 + 1e-9)
    assert ar.algorithms.BPIUCRL is not ar.ALGORITHMS[name] or not atlas.certificate.every_reward
    atlas.save(tmp_path / "one.atlas")
    again = ar.load(tmp_path / "one.atlas")
    assert again == atlas
    assert again.certificate == atlas.certificate
    assert again.source["own"] == atlas.source["own"]
    plan = again.plan(mdp.reward)
    value = mdp.initial @ ar.evaluate_policy(mdp, plan.policy, mdp.reward, 3).V[0]
    assert plan.lower <= value <= plan.upper


def test_the_default_reward_and_budget_are_the_given_ones(algorithm):
    mdp = random_mdp(3, 2, seed=1)
    more = {"reward": mdp.reward} if algorithm.needs_reward else {}
    more |= {"budget": 90} if algorithm.needs_budget else {}
    by_default, given = (ar.explore(mdp, 3, max_episodes=90, algorithm=algorithm, seed=1, **kw) for kw in ({}, more))
    assert by_default.counts == given.counts
    assert by_default.certificate == given.certificate


def test_a_discount_is_refused_by_those_who_are_not_made_for_one(name):
    setting = SETTINGS["discounted"]
    if name in UNDISCOUNTED:
        with pytest.raises(ValueError, match=r"discount is 0\.7"):
            make(ar.ALGORITHMS[name], setting)
    else:
        play(make(ar.ALGORITHMS[name], setting), 3)


def test_a_guarantee_of_its_own_only_where_one_is_proved(name, algorithm, setting):
    """A number between 0 and what is trivially true, or None; and for one reward always with a recommendation."""
    explorer = make(algorithm, setting, seed=1)
    trivial = 2 * (3 * np.e * np.sqrt(3) + 3) if name == "rf-express" else setting.sigma[-1] ** 2 if name == "even-dar" else None
    for _ in range(12):
        own = explorer.own_epsilon
        if name in NO_PROOF or (setting.initial_state is None and name in ("fiechter", "rf-express", "bpi-ucbvi")):
            assert own is None
        if own is not None:
            assert isinstance(own, float)
            assert 0 <= own <= (2 * setting.sigma[-1] if trivial is None else trivial) * (1 + 1e-9)
            if algorithm.needs_reward:
                policy = explorer.recommendation
                assert policy.shape == (setting.horizon, setting.n_states)
                assert ((policy >= 0) & (policy < setting.n_actions)).all()
        play(explorer, 4)


def test_it_says_what_it_guarantees(name):
    explorer = make(ar.ALGORITHMS[name], SETTINGS["step-dependent"])
    assert explorer.guarantee
    assert explorer.goal
    assert not explorer.heuristic
    own = ar.explore(random_mdp(3, 2, seed=0), 3, max_episodes=30, algorithm=name).source["own"]
    assert own["guarantee"] == explorer.guarantee
    assert (own["epsilon"] is None) == (name in NO_PROOF or (name == "regret-uniform" and own["epsilon"] is None))


def test_it_goes_on_from_a_state(name, algorithm, setting):
    """To the last bit: the same policies, the same bounds; or it says that and why it cannot."""
    explorer = play(make(algorithm, setting, seed=3), 37)
    if name in UNSAVED:
        with pytest.raises(ValueError, match="cannot be saved half-way"):
            explorer.state()
        return
    again = make(algorithm, setting, seed=3)
    again.restore({key: value.copy() for key, value in explorer.state().items()})
    for _ in range(4):
        assert state_of(again) == state_of(explorer)
        assert again.own_epsilon == explorer.own_epsilon
        assert explorer.recommendation is None or (again.recommendation == explorer.recommendation).all()
        for one in (explorer, again):
            play(one, 11, seed=5)
    assert again.counts == explorer.counts
    for key, value in explorer.state().items():
        np.testing.assert_array_equal(again.state()[key], value, err_msg=key)


@pytest.mark.parametrize("stationary", [False, True])
def test_it_goes_on_from_a_state_at_compiled_speed(name, algorithm, stationary):
    if name in UNSAVED:
        return
    mdp = random_mdp(4, 3, seed=0, random_start=True)
    setting = mdp.setting(3, stationary=stationary)
    explorer, rng = make(algorithm, setting, seed=3), np.random.default_rng(7)
    advanced(explorer, mdp, 120, rng)
    again, other = make(algorithm, setting, seed=3), np.random.default_rng()
    again.restore(explorer.state())
    other.bit_generator.state = rng.bit_generator.state
    for one, generator in ((explorer, rng), (again, other)):
        advanced(one, mdp, 260, generator)
    assert state_of(again) == state_of(explorer)
    assert again.counts == explorer.counts


def test_damaged_states_are_refused(name, algorithm):
    if name in UNSAVED:
        return
    setting = SETTINGS["stationary"]
    state = play(make(algorithm, setting), 20).state()
    for key, value in state.items():
        if value.size > 1 and np.issubdtype(value.dtype, np.number):
            with pytest.raises((ValueError, KeyError, TypeError, IndexError)):
                make(algorithm, setting).restore({**state, key: value[..., :-1]})


def advanced(explorer, mdp, upto, rng):
    while explorer.episodes < upto:
        before = explorer.episodes
        play_model(explorer, mdp, rng, upto - before, -1.0)
        assert before < explorer.episodes <= upto
    return explorer


@pytest.mark.parametrize("random_start", [False, True])
@pytest.mark.parametrize("pooled", [False, True])
def test_the_compiled_loop_decides_as_ask_and_tell(name, algorithm, pooled, random_start):
    """The same generator, the same episodes; an index that is kept is the same too. A generative model plays no episodes."""
    if name == "generative":
        return
    mdp = random_mdp(4, 3, seed=0, random_start=random_start)
    setting = mdp.setting(3, stationary=pooled)
    more = extras(algorithm, setting)
    atlas = ar.explore(mdp, 3, max_episodes=300, algorithm=algorithm, seed=4, stationary=pooled, **more)
    explorer, rng = make(algorithm, setting, bounds="tight", seed=4), np.random.default_rng(4)
    compiled = advanced(make(algorithm, setting, bounds="tight", seed=4), mdp, 300, np.random.default_rng(4))
    for _ in range(300):
        explorer.tell(*mdp.rollout(explorer.ask(), seed=rng))
    assert explorer.counts == atlas.counts
    assert explorer.certificate() == atlas.certificate
    assert explorer.counts == compiled.counts
    assert explorer.own_epsilon == compiled.own_epsilon
    np.testing.assert_array_equal(explorer.ask(), compiled.ask())
    if hasattr(explorer, "index"):
        np.testing.assert_array_equal(explorer.index, compiled.index)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 2.0, float("nan")])
def test_delta_has_to_be_a_probability(algorithm, delta):
    with pytest.raises(ValueError, match="delta is"):
        make(algorithm, SETTINGS["stationary"], delta=delta)


class Shuffle(ar.Explorer):
    """The least that a user has to write: any policy, here another one for every episode."""

    def ask(self):
        rng = np.random.default_rng([self.seed, self.episodes])
        return rng.integers(0, self.setting.n_actions, (self.setting.horizon, self.setting.n_states))


def test_an_explorer_of_your_own():
    mdp = ar.envs.double_chain(length=3)
    atlas = ar.explore(mdp, 3, max_episodes=200, algorithm=Shuffle, bounds="paper", seed=2)
    assert atlas.episodes == 200
    assert atlas.source["algorithm"] == "Shuffle"
    assert atlas.certificate.check(atlas.counts)
    assert atlas == ar.explore(mdp, 3, max_episodes=200, algorithm=Shuffle, bounds="paper", seed=2)

    explorer, rng = Shuffle(mdp.setting(3), bounds="paper", seed=2), np.random.default_rng(2)
    for _ in range(200):
        explorer.tell(*mdp.rollout(explorer.ask(), seed=rng))
    assert rows(explorer.counts) == rows(atlas.counts)


def test_an_explorer_of_your_own_stops_when_certified():
    """Looked at every 3%: the last look is the first that is good enough."""
    mdp = ar.envs.double_chain(length=3)
    atlas = ar.explore(mdp, 2, 1.5, algorithm=Shuffle, bounds="paper", stationary=True)
    assert atlas.certificate.met
    assert atlas.history[-2][1] > 1.5 >= atlas.history[-1][1]


def test_an_explorer_has_to_say_which_policy_comes_next():
    class Silent(ar.Explorer):
        pass

    with pytest.raises(TypeError, match="ask"):
        Silent(SETTINGS["stationary"])


def test_a_bad_policy_of_your_own_is_refused():
    class Wrong(ar.Explorer):
        def ask(self):
            return np.full((self.setting.horizon, self.setting.n_states), self.setting.n_actions)

    with pytest.raises(ValueError, match=r"policy\[0, 0\] is 2: actions go from 0 to 1"):
        ar.explore(ar.envs.double_chain(length=3), 3, max_episodes=5, algorithm=Wrong)

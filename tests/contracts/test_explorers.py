"""The contract of explorers (`anyreward.testing`) over every algorithm, and over what users write."""

from itertools import groupby

import numpy as np
import pytest

import anyreward as ar
from anyreward import testing

from ..helpers.problems import rows

SLOW = (
    testing.claims_nothing_false,
    testing.runs_in_explore,
    testing.resumes_on_a_model,
    testing.decides_on_a_model_as_with_ask_and_tell,
)
# Each algorithm meets each check in every third setting, and other settings than its neighbours: `check_explorer` takes them all.
CASES = [
    pytest.param(kind, check, setting, id=f"{name}-{check.__name__}-{where}", marks=[pytest.mark.slow] * (check in SLOW))
    for i, (name, kind) in enumerate(ar.ALGORITHMS.items())
    for j, (check, cases) in enumerate(groupby(testing.cases(kind), key=lambda case: case[0]))
    for settings in [[setting for _, setting in cases]]
    for k, setting in enumerate(settings)
    for where in [next(key for key, it in testing.SETTINGS.items() if it is setting)]
    if len(settings) == 1 or (i + j + k) % 3 == 0
]


@pytest.mark.parametrize(("kind", "check", "setting"), CASES)
def test_the_contract(kind, check, setting):
    check(kind, setting)


class Shuffle(ar.Explorer):
    """The least that a user has to write: any policy, here another one for every episode."""

    def ask(self):
        rng = np.random.default_rng([self.seed, self.episodes])
        return rng.integers(0, self.setting.n_actions, (self.setting.horizon, self.setting.n_states))


@pytest.mark.slow
def test_an_explorer_of_your_own():
    testing.check_explorer(Shuffle)
    mdp = ar.envs.double_chain(length=3)
    atlas = ar.explore(mdp, 3, max_episodes=200, algorithm=Shuffle, bounds="paper", seed=2)
    assert atlas.episodes == 200
    assert atlas.source["algorithm"] == "Shuffle"
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
        Silent(testing.SETTINGS["stationary"])


def test_a_bad_policy_of_your_own_is_refused():
    class Wrong(ar.Explorer):
        def ask(self):
            return np.full((self.setting.horizon, self.setting.n_states), self.setting.n_actions)

    with pytest.raises(ValueError, match=r"policy\[0, 0\] is 2: actions go from 0 to 1"):
        ar.explore(ar.envs.double_chain(length=3), 3, max_episodes=5, algorithm=Wrong)


class Forgetful(Shuffle):
    """Keeps a number of its own beside its counts, and forgets it."""

    def __init__(self, setting, **options):
        super().__init__(setting, **options)
        self.asked = 0

    def tell(self, states, actions):
        super().tell(states, actions)
        self.asked += 1

    def ask(self):
        return np.full((self.setting.horizon, self.setting.n_states), self.asked % self.setting.n_actions)


class Boastful(Shuffle):
    """Claims to know everything after the first episode."""

    proved = True

    @property
    def own_epsilon(self):
        return 0.0 if self.episodes else None


class Undeclared(Boastful):
    proved = False


class Restless(Shuffle):
    """Draws anew whenever it is asked."""

    def ask(self):
        self.episode = getattr(self, "episode", 0) + 1
        return np.full((self.setting.horizon, self.setting.n_states), self.episode % self.setting.n_actions)


class Careless(Shuffle):
    """Learns from a batch one by one, so that the good episodes before a bad one are kept."""

    def tell(self, states, actions):
        for one, other in zip(np.atleast_2d(states), np.atleast_2d(actions), strict=True):
            super().tell(one, other)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "broken"),
    [
        (Forgetful, "resumes_to_the_last_bit"),
        (Boastful, "claims_nothing_false"),
        (Undeclared, "claims_what_it_declares"),
        (Restless, "asking_changes_nothing"),
        (Careless, "a_bad_episode_changes_nothing"),
    ],
)
def test_the_contract_notices(kind, broken):
    """Each mistake breaks the check that is about it, and no check ends in another way than with an AssertionError."""
    failed, tried = set(), set()
    for check, setting in testing.cases(kind):
        name = check.__name__.partition("[")[0]
        if check in tried and name != broken:  # the others in one setting each
            continue
        tried.add(check)
        try:
            check(kind, setting)
        except AssertionError:
            failed.add(name)
    assert broken in failed
    with pytest.raises(AssertionError) as problem:
        testing.check_explorer(kind)
    assert any("breaks the contract of explorers" in note for note in problem.value.__notes__)

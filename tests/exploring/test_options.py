"""Options that would do nothing are refused, and only parameters without a default make a reward one on arrival."""

import functools

import numpy as np
import pytest

import anyreward as ar
from anyreward.certificates.bounds import PaperBound, TightBound
from anyreward.rewards.forms import as_reward

from ..helpers.problems import random_mdp
from ..helpers.tabular import MASK, Tabular, transitions

pytestmark = pytest.mark.usefixtures("quick_look")
S, A, H = 4, 3, 4
SETTING = ar.Setting(n_states=S, n_actions=A, horizon=H)


# Rewards that are functions


class Callable4:
    def __call__(self, h, s, a, s_next):
        return float(s_next == 1)


@pytest.mark.parametrize(
    ("reward", "on_arrival"),
    [
        (lambda h, s, a: 1.0 * (s == 2), False),
        (lambda h, s, a, goal=2: 1.0 * (s == goal), False),
        (lambda h, s, a, *rest: 1.0 * (s == 2), False),
        (lambda *index: 1.0 * (index[1] == 2), False),
        (lambda h, s, a, *, goal=2: 1.0 * (s == goal), False),
        (functools.partial(lambda goal, h, s, a: 1.0 * (s == goal), 2), False),
        (lambda h, s, a, s_next: 1.0 * (s_next == 1), True),
        (lambda h, s, a, s_next, goal=1: 1.0 * (s_next == goal), True),
        (functools.partial(lambda h, s, a, s_next, goal: 1.0 * (s_next == goal), goal=1), True),
        (Callable4(), True),
    ],
)
def test_only_parameters_without_a_default_count(reward, on_arrival):
    r = as_reward(reward, 3, 2, 2)
    assert isinstance(r, np.ndarray) != on_arrival
    if on_arrival:
        assert r.at(0, np.arange(6), np.full(6, 1)).tolist() == [1.0] * 6
    else:
        np.testing.assert_array_equal(r, np.broadcast_to(np.eye(3)[2][:, None], (2, 3, 2)))


@pytest.mark.parametrize("reward", [lambda s: 1.0, lambda h, s, a, n, m: 1.0, lambda h, s, a, *, goal: 1.0])
def test_functions_of_other_arguments_are_refused(reward):
    with pytest.raises(ValueError, match="it has to take"):
        as_reward(reward, 3, 2, 2)


# Options


MDP = random_mdp(S, A, seed=0)


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: ar.explore(MDP, H, max_episodes=1, bounds="paper", max_successors=2), "'max_successors' is not an option of"),
        (lambda: ar.explore(MDP, H, max_episodes=1, bounds="paper", transfer=False), "'transfer' is not an option"),
        (lambda: ar.explore(MDP, H, max_episodes=1, bounds=TightBound(), max_successors=2), r"write bounds=TightBound\(max_suc"),
        (lambda: ar.explore(MDP, H, max_episodes=1, algorithm="rf-ucrl", bounds=PaperBound(), max_successors=2), "bound object"),
        (lambda: ar.RFUCRL(SETTING, bounds="paper", max_successors=2), "'max_successors' is not an option"),
        (lambda: ar.BPIUCRL(SETTING, np.zeros(S), bounds="paper", max_successors=2), "'max_successors' is not an option"),
        (lambda: ar.BPIUCRL(SETTING, np.zeros(S), transfer=True), "transfer does not suit"),
        (lambda: ar.certify(ar.Counts(SETTING), bounds=TightBound(), max_successors=2), "bound object"),
        (lambda: ar.certify(ar.Counts(SETTING), max_sucessors=2), "perhaps 'max_successors' is meant"),
        (lambda: ar.explore(MDP, H, max_episodes=1, replam="path"), "'replam' is not an option .* perhaps 'replan' is meant"),
        (lambda: ar.explore(MDP, H, max_episodes=1, max_episode=3), "perhaps 'max_episodes' is meant"),
        (lambda: ar.explore(MDP, H, max_episodes=1, clip=False), "clip is False, but neither"),
        (lambda: ar.explore(MDP, H, max_episodes=1, action_masks="none"), "action_masks is for Gymnasium"),
        (lambda: ar.identify(MDP, MDP.reward, H, 1.0, stationary_rewards=True), "stationary_rewards is for observed"),
        (lambda: ar.identify(MDP, MDP.reward, H, 1.0, clip=False, bounds="paper"), "clip does not suit"),
        (lambda: ar.identify(MDP, MDP.reward, H, 1.0, bounds=TightBound(trajectory=False)), "exact_tv do not suit"),
        (lambda: ar.identify(MDP, MDP.reward, H, 1.0, algorithm="ucrl2"), "algorithm is not an option of identify"),
        (lambda: ar.explore(MDP, H, max_episodes=1, stationary=True, transfer=True), "transfer is between steps"),
        (lambda: ar.explore(MDP, H, max_episodes=1, checkpoint_every=3), "no checkpoint"),
        (lambda: ar.explore(MDP, H, max_episodes=1).merge(3), "a int cannot be merged"),
        (lambda: ar.explore(Tabular(MDP.dense()), H, 1.0, algorithm="rf-express", stop="own"), "says nothing where"),
        (lambda: ar.Counts.from_columns(SETTING, ar.Counts(SETTING).columns(), runs=0), "runs is 0"),
        (lambda: ar.Counts.from_columns(SETTING, {"h": [0], "s": [0], "a": [0], "next": [0, 1], "count": [1]}), "equal length"),
        (lambda: ar.explore(MDP, H, max_episodes=1, algorithm=["x"]), "algorithm is"),
        (lambda: ar.explore(MDP, H, max_episodes=1, bounds=TightBound), "bounds is"),
        (lambda: ar.explore(MDP, H, max_episodes=1, bounds=None), "bounds is None"),
        (lambda: ar.certify(ar.Counts(SETTING), name="x"), "'name' is not an option"),
        (lambda: ar.audit(MDP, H, terminal="end"), "terminal is for Gymnasium"),
        (lambda: ar.explore(MDP, H, max_episodes=1).plan(MDP.reward, reward_range=5), "reward_range is 5"),
        (lambda: MDP.rollout(np.zeros((H, S), int), seed="x"), "seed is 'x'"),
        (lambda: MDP.rollout(np.zeros((H, S), int), episodes=1.5), "episodes is 1.5"),
        (lambda: ar.explore(MDP, H, max_episodes=1).plan(MDP.reward, rewards="deterministic"), "only for the reward .own."),
        (lambda: ar.explore(Tabular(MDP.dense()), H, max_episodes=1).plan("own", rewards="certain"), "rewards is 'certain'"),
    ],
)  # fmt: skip
def test_options_that_would_do_nothing_are_refused(call, names):
    with pytest.raises(ValueError, match=names):
        call()


def test_options_that_do_something_are_taken():
    assert ar.explore(MDP, H, max_episodes=1, clip=True, max_successors=S, transfer=False).episodes == 1
    assert ar.RFUCRL(SETTING, bounds="tight", clip=False, max_successors=2).bound.max_successors == 2
    assert not ar.explore(MDP, H, max_episodes=1, bounds="paper", clip=False).certificate.options["clip"]


def test_a_mask_of_each_part_of_an_action_is_not_taken_for_one_of_actions():
    class Parts(Tabular):
        def info(self):
            return {"action_mask": (np.array([1, 0], np.int8), np.array([1, 1], np.int8))}

    with pytest.raises(ValueError, match=r"shape \(2, 2\): it needs one entry for each of 4 actions"):
        ar.explore(Parts(transitions(3, 4)), 3, max_episodes=2)


@pytest.mark.parametrize("masks", ["some", np.ones((S, A + 1)), np.ones((S, A)) * 0.5, np.zeros((S, A), int), lambda s: [1], 3])
def test_masks_that_make_no_sense_are_refused(masks):
    with pytest.raises(ValueError, match="action_masks"):
        ar.explore(Tabular(transitions(S, A)), H, max_episodes=2, action_masks=masks)


def test_masks_that_the_environment_contradicts_are_refused():
    wrong = MASK.copy()
    wrong[0, 1] = True
    with pytest.raises(ValueError, match="they have to agree"):
        ar.explore(Tabular(transitions(S, A), mask=MASK), H, max_episodes=50, action_masks=wrong)
    quiet = Tabular(transitions(S, A))  # says nothing, and is never asked for what is known to be illegal
    counts = ar.explore(quiet, H, max_episodes=50, action_masks=MASK).counts
    assert not counts.n()[:, ~MASK].any()


@pytest.mark.parametrize("clip", [{0}, "no", 2, None, [True]])
def test_clip_is_true_or_false(clip):
    """A set or a text was taken for true, and could not be compared with other options later."""
    for make in (
        lambda: ar.RFUCRL(SETTING, clip=clip),
        lambda: ar.RFUCRL(SETTING, bounds="paper", clip=clip),
        lambda: ar.certify(ar.Counts(SETTING), bounds="paper", clip=clip),
    ):
        with pytest.raises(ValueError, match=r"clip is .*: it has to be True or False"):
            make()


@pytest.mark.parametrize("name", ["own_reward", "also", "setting", "options"])
def test_names_inside_the_library_are_no_options(name):
    """They are refused like any other name that is no option, not taken for arguments of the function that makes explorers."""
    with pytest.raises(ValueError, match=f"'{name}' is not an option of|an option does not suit"):
        ar.explore(ar.envs.double_chain(3), 2, max_episodes=2, **{name: 1})

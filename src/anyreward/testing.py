"""The contract of explorers: what every one has to do, whatever its rule. Run it over an algorithm of your own.

    from anyreward.testing import cases, check_explorer

    check_explorer(MyExplorer)                              # everything, or an AssertionError that says what failed

    @pytest.mark.parametrize(("check", "setting"), cases(MyExplorer))       # or one test for each check and setting
    def test_the_contract(check, setting):
        check(MyExplorer, setting)

What is checked: it proposes valid policies, repeats itself under a seed, learns the same however its episodes are split, refuses
bad data without a trace, is certified by its counts, resumes to the last bit, decides the same on a known model as with `ask` and
`tell`, runs in `explore`, reports in the units of its reward, and claims no guarantee that is false. Facts that the class
declares (`needs_reward`, `needs_budget`, `supports_discount`, `resumable`, `proved`, `plays_episodes`) are held against it.

Nothing here needs pytest.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .algorithms import Explorer, make_explorer
from .algorithms.registry import explorer_class, option_names
from .atlas.format import load
from .certificates.certificate import certify
from .data.tabular import TabularMDP
from .environments.tabular import play
from .exploring.explore import explore
from .planning import backward_induction, evaluate_policy
from .setting import Setting

LAW = ((0, 0.5), (1, 0.3), (2, 0.2))  # of a random initial state
SETTINGS: dict[str, Setting] = {
    "step-dependent": Setting(n_states=4, n_actions=3, horizon=3, initial_state=1),
    "stationary": Setting(n_states=4, n_actions=3, horizon=3, initial_state=1, stationary=True),
    "discounted": Setting(n_states=4, n_actions=3, horizon=3, initial_state=0, discount=0.7),
    "random start": Setting(n_states=4, n_actions=3, horizon=3),
    "random start, stationary": Setting(n_states=4, n_actions=3, horizon=3, stationary=True),
    "known start": Setting(n_states=4, n_actions=3, horizon=3, initial=LAW),
    "known start, stationary": Setting(n_states=4, n_actions=3, horizon=3, stationary=True, initial=LAW),
    "one state": Setting(n_states=1, n_actions=3, horizon=3, initial_state=0),
    "one action": Setting(n_states=4, n_actions=1, horizon=3, initial_state=0),
    "one step": Setting(n_states=4, n_actions=3, horizon=1, initial_state=0),
}
BUDGET = 400  # episodes, for explorers that have to know how many there will be
DAMAGES = ("state too large", "state negative", "action too large", "action negative", "shape", "floats")

Kind = type[Explorer]
Check = Callable[[Kind, Setting], None]


def check_explorer(kind: Kind) -> None:
    """Runs every check in every setting that an algorithm is for. Raises an AssertionError that names the check and the setting.

        check_explorer(MyExplorer)

    Parameters
    ----------
    kind
        A subclass of `Explorer`.
    """
    for check, setting in cases(kind):
        try:
            check(kind, setting)
        except AssertionError as problem:
            where = next(name for name, it in SETTINGS.items() if it is setting)
            problem.add_note(f"{kind.__name__} breaks the contract of explorers: {check.__name__}, in the setting {where!r}.")
            raise


def cases(kind: Kind) -> list[tuple[Check, Setting]]:
    """All pairs (check, setting) that concern an algorithm, for `pytest.mark.parametrize`.

    Example:

        @pytest.mark.parametrize(("check", "setting"), cases(MyExplorer))
        def test_the_contract(check, setting):
            check(MyExplorer, setting)
    """
    settings = settings_of(explorer_class(kind))
    found = [(check, setting) for check in EVERYWHERE for setting in settings]
    found += [(check, settings[i % len(settings)]) for i, check in enumerate(bad_episodes())]
    found += [(check, setting) for check in IN_ONE_SETTING for setting in settings[:1]]
    return found + ([] if kind.supports_discount else [(refuses_a_discount, SETTINGS["discounted"])])


def settings_of(kind: Kind) -> list[Setting]:
    """The settings that an algorithm is for."""
    return [setting for setting in SETTINGS.values() if setting.discount == 1.0 or kind.supports_discount]


def made(kind: Kind, setting: Setting, **options: Any) -> Explorer:
    """An explorer with a reward and a budget if it needs them."""
    return make_explorer(kind, setting, options, own_reward=reward_of(kind, setting), max_episodes=BUDGET)


def reward_of(kind: Kind, setting: Setting) -> np.ndarray | None:
    """The reward that explorers of one reward are made with, (H, S, A); None for others."""
    shape = setting.horizon, setting.n_states, setting.n_actions
    return np.random.default_rng(9).random(shape) if kind.needs_reward else None


def model_of(setting: Setting, seed: int = 3) -> TabularMDP:
    """A random model of a setting, with a reward."""
    rng, S, A = np.random.default_rng(seed), setting.n_states, setting.n_actions
    P = rng.dirichlet(np.ones(S), (S, A))
    start = np.full(S, 1 / S)
    if not setting.estimates_start:
        start = np.zeros(S)
        start[setting.starts[0]] = setting.starts[1]
    return TabularMDP(P, initial=start, reward=rng.random((S, A)))


def told(explorer: Explorer, episodes: int, seed: int = 0, mdp: TabularMDP | None = None) -> Explorer:
    """The explorer after so many episodes by `ask` and `tell`."""
    rng = np.random.default_rng(seed)
    mdp = model_of(explorer.setting) if mdp is None else mdp
    for _ in range(episodes):
        explorer.tell(*mdp.rollout(explorer.ask(), seed=rng))
    return explorer


def played(explorer: Explorer, mdp: TabularMDP, until: int, rng: np.random.Generator) -> Explorer:
    """The explorer after `until` episodes of a model at compiled speed."""
    while explorer.episodes < until:
        before = explorer.episodes
        play(explorer, mdp, rng, until - before)
        assert before < explorer.episodes <= until, f"{explorer.episodes - before} episodes were played, of {until - before}"
    return explorer


def random_episodes(setting: Setting, episodes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Any data in range: states (B, H+1) and actions (B, H), some pairs visited often and others never."""
    rng = np.random.default_rng(seed)
    S, A, H = setting.n_states, setting.n_actions, setting.horizon
    states = np.minimum(rng.integers(0, S, (episodes, H + 1)), rng.integers(0, S, (episodes, H + 1)))
    if not setting.estimates_start:
        states[:, 0] = rng.choice(setting.starts[0], episodes, p=setting.starts[1])
    return states, rng.integers(0, A, (episodes, H))


def looks(explorer: Explorer) -> tuple[Any, ...]:
    """All that a user can see of an explorer."""
    return explorer.counts.digest(), explorer.ask().tobytes(), explorer.error_bound, explorer.episodes


def refused(action: Callable[[], Any], pattern: str) -> None:
    """Asserts that something raises a ValueError with a message that has this pattern."""
    said = None
    try:
        action()
    except ValueError as problem:
        said = str(problem)
    assert said is not None, f"it was not refused: a ValueError that says {pattern!r} was expected"
    assert re.search(pattern, said), f"the message is {said!r}: it has to say {pattern!r}"


def check_policy(policy: Any, setting: Setting) -> None:
    """Asserts that this is a policy of a setting, (H, S) integers."""
    assert policy.shape == (setting.horizon, setting.n_states), f"its shape is {policy.shape}"
    assert np.issubdtype(policy.dtype, np.integer), f"it has {policy.dtype} for actions"
    assert ((policy >= 0) & (policy < setting.n_actions)).all(), "it has actions that do not exist"


def proposes_policies(kind: Kind, setting: Setting) -> None:
    """`ask` gives a policy, whatever was seen."""
    explorer = made(kind, setting, seed=1)
    for _ in range(30):
        check_policy(explorer.ask(), setting)
        told(explorer, 1)
    assert explorer.episodes == 30


def asking_changes_nothing(kind: Kind, setting: Setting) -> None:
    """`ask` and `ask_ahead` can be called any number of times, and their answers belong to the caller."""
    explorer = told(made(kind, setting, seed=1), 10)
    first = explorer.ask()
    ahead = explorer.ask_ahead(3)
    check_policy(ahead, setting)
    np.testing.assert_array_equal(explorer.ask(), first)
    np.testing.assert_array_equal(explorer.ask_ahead(0), first)
    np.testing.assert_array_equal(explorer.ask_ahead(3), ahead)
    first[:], ahead[:] = -1, -1
    assert explorer.ask().min() >= 0, "the policy that was given away is still used"


def repeats_itself_under_a_seed(kind: Kind, setting: Setting) -> None:
    """Two explorers with the same seed and the same episodes are the same."""
    one, again = (told(made(kind, setting, seed=7), 40) for _ in range(2))
    assert looks(one) == looks(again)


def can_be_told_in_parts(kind: Kind, setting: Setting) -> None:
    """One explorer told 25 episodes is the explorer told 10 and then 15."""
    states, actions = random_episodes(setting, 25, seed=4)
    whole, parts = (made(kind, setting, seed=2) for _ in range(2))
    whole.tell(states, actions)
    parts.tell(states[:10], actions[:10])
    parts.tell(states[10:], actions[10:])
    assert whole.counts == parts.counts
    np.testing.assert_allclose(whole.error_bound, parts.error_bound, rtol=1e-12)


def no_episodes_are_no_news(kind: Kind, setting: Setting) -> None:
    """To be told nothing changes nothing."""
    explorer = told(made(kind, setting, seed=1), 5)
    before = looks(explorer)
    explorer.tell(np.zeros((0, setting.horizon + 1), int), np.zeros((0, setting.horizon), int))
    assert looks(explorer) == before


def bad_episodes() -> list[Check]:
    """A check for each damage and place of a bad episode; an algorithm meets its settings in turn."""
    return [_bad_episode(damage, b) for damage in DAMAGES for b in (0, -1)]


def _bad_episode(damage: str, b: int) -> Check:
    def check(kind: Kind, setting: Setting) -> None:
        explorer = told(made(kind, setting, seed=1), 8)
        before = looks(explorer)
        states, actions = random_episodes(setting, 600, seed=0)  # longer than the parts in which episodes are learnt from
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
        refused(lambda: explorer.tell(states, actions), r"state|action")
        assert looks(explorer) == before, "refused episodes changed it"
        assert looks(told(told(made(kind, setting, seed=1), 8), 3)) == looks(told(explorer, 3)), "refused episodes left a trace"

    check.__name__ = f"a_bad_episode_changes_nothing[{damage}, {'first' if b == 0 else 'last'}]"
    check.__doc__ = "A batch is checked as a whole before any of it is learnt, also when only its last episode is bad."
    return check


def a_wrong_start_changes_nothing(kind: Kind, setting: Setting) -> None:
    """An episode that starts elsewhere than the setting says is refused."""
    assert setting.initial_state is not None
    explorer = told(made(kind, setting, seed=1), 8)
    before = looks(explorer)
    states, actions = random_episodes(setting, 600, seed=0)
    states[-1, 0] = setting.initial_state + 1
    refused(lambda: explorer.tell(states, actions), "episode 599 starts in state 2, not in the initial_state 1")
    assert looks(explorer) == before


def is_certified_by_its_counts(kind: Kind, setting: Setting) -> None:
    """Its error bound is what its certificate says, and can be checked from the counts; it is never absurd."""
    explorer = made(kind, setting, delta=0.3, seed=1)
    for _ in range(10):
        assert 0 <= explorer.error_bound <= setting.sigma[-1] * (1 + 1e-10)
        told(explorer, 3, seed=explorer.episodes)
    certificate = explorer.certificate(epsilon=1.0)
    np.testing.assert_allclose(certificate.error_bound, explorer.error_bound, rtol=1e-12)
    assert certificate.met == (2 * explorer.error_bound <= 1.0)
    assert certificate.check(explorer.counts, reward_of(kind, setting))


def claims_what_it_declares(kind: Kind, setting: Setting) -> None:
    """A guarantee of its own only if it is declared to be proved; for one reward, always with a recommendation."""
    explorer = made(kind, setting, seed=1)
    assert explorer.goal
    assert explorer.guarantee
    assert not explorer.heuristic
    for _ in range(12):
        own = explorer.own_epsilon
        assert own is None or kind.proved, "own_epsilon is a number, but the class does not declare `proved`"
        assert own is None or (isinstance(own, float) and own >= 0), f"own_epsilon is {own!r}"
        json.dumps(explorer.facts, allow_nan=False)
        if own is not None and kind.needs_reward:
            check_policy(explorer.recommendation, setting)
        told(explorer, 4, seed=explorer.episodes)


def keeps_the_units_of_its_reward(kind: Kind, setting: Setting) -> None:
    """A reward in [-4, 4] is one in [0, 1] on another scale: the same policies, with errors that are eight times as large."""
    if not kind.needs_reward or "reward_range" not in option_names(kind):
        return
    shape = setting.horizon, setting.n_states, setting.n_actions
    unit = np.random.default_rng(9).integers(0, 65, shape) / 64  # so that nothing is rounded when it is rescaled
    one = made(kind, setting, reward=unit, seed=1)
    two = made(kind, setting, reward=8 * unit - 4, reward_range=(-4, 4), seed=1)
    for _ in range(12):
        for explorer in (one, two):
            told(explorer, 4, seed=explorer.episodes)
        np.testing.assert_array_equal(one.ask(), two.ask())
        if one.recommendation is not None:
            np.testing.assert_array_equal(one.recommendation, two.recommendation)
        np.testing.assert_allclose(two.error_bound, 8 * one.error_bound, rtol=1e-9, atol=1e-9)
        mine, theirs = one.own_epsilon, two.own_epsilon
        assert (mine is None) == (theirs is None)
        if mine is not None:
            np.testing.assert_allclose(theirs, 8 * mine, rtol=1e-9, atol=1e-9)  # type: ignore[arg-type]
    certificate = two.certificate(epsilon=1.0)
    np.testing.assert_allclose(certificate.epsilon, 2 * two.error_bound, rtol=1e-12)
    assert certificate.check(two.counts, 8 * unit - 4)


def resumes_to_the_last_bit(kind: Kind, setting: Setting) -> None:
    """An explorer that is restored goes on as if nothing had happened; or it says that it cannot be saved."""
    explorer = told(made(kind, setting, seed=3), 37)
    if not kind.resumable:
        refused(explorer.state, "cannot be saved half-way")
        return
    again = made(kind, setting, seed=3)
    again.restore({key: value.copy() for key, value in explorer.state().items()})
    for _ in range(4):
        assert looks(again) == looks(explorer)
        assert again.own_epsilon == explorer.own_epsilon
        np.testing.assert_array_equal(again.recommendation, explorer.recommendation)
        for one in (explorer, again):
            told(one, 11, seed=5)
    assert again.counts == explorer.counts
    for key, value in explorer.state().items():
        np.testing.assert_array_equal(again.state()[key], value, err_msg=key)


def resumes_on_a_model(kind: Kind, setting: Setting) -> None:
    """The same at compiled speed."""
    mdp = model_of(setting)
    explorer, rng = made(kind, setting, seed=3), np.random.default_rng(7)
    played(explorer, mdp, 120, rng)
    if not kind.resumable:
        return
    again, other = made(kind, setting, seed=3), np.random.default_rng()
    again.restore(explorer.state())
    other.bit_generator.state = rng.bit_generator.state
    for one, generator in ((explorer, rng), (again, other)):
        played(one, mdp, 260, generator)
    assert looks(again) == looks(explorer)
    assert again.counts == explorer.counts


def decides_on_a_model_as_with_ask_and_tell(kind: Kind, setting: Setting) -> None:
    """The same generator, the same episodes; an index that is kept is the same too. In `explore` as well."""
    if not kind.plays_episodes:  # what is drawn depends on how many draws are made at once
        return
    mdp, options = model_of(setting), {"delta": 0.1, "seed": 4}
    more: dict[str, Any] = {"stationary": setting.stationary, "discount": setting.discount, "on_interrupt": "raise", **options}
    more |= {"reward": reward_of(kind, setting)} if kind.needs_reward else {}
    more |= {"budget": BUDGET} if kind.needs_budget else {}
    more |= {"initial": setting.initial} if setting.initial else {}
    atlas = explore(mdp, setting.horizon, max_episodes=300, algorithm=kind, **more)
    compiled = played(made(kind, setting, **options), mdp, 300, np.random.default_rng(4))
    assert compiled.certified == atlas.counts
    assert compiled.certificate() == atlas.certificate
    explorer = told(made(kind, setting, **options), 300, seed=4, mdp=mdp)
    assert explorer.counts == compiled.counts
    assert explorer.own_epsilon == compiled.own_epsilon
    np.testing.assert_array_equal(explorer.ask(), compiled.ask())
    np.testing.assert_array_equal(getattr(explorer, "index", None), getattr(compiled, "index", None))


def damaged_states_are_refused(kind: Kind, setting: Setting) -> None:
    """What is not a state cannot be restored."""
    if not kind.resumable:
        return
    state = told(made(kind, setting), 20).state()
    for key, value in state.items():
        if value.size > 1 and np.issubdtype(value.dtype, np.number):
            try:
                made(kind, setting).restore({**state, key: value[..., :-1]})
            except (ValueError, KeyError, TypeError, IndexError):
                continue
            raise AssertionError(f"a state whose {key} is cut short was restored")


def refuses_a_delta_that_is_none(kind: Kind, setting: Setting) -> None:
    """delta is strictly between 0 and 1."""
    for delta in (0.0, 1.0, -0.1, 2.0, float("nan")):
        refused(lambda delta=delta: made(kind, setting, delta=delta), "delta is")  # type: ignore[misc]


def refuses_a_discount(kind: Kind, setting: Setting) -> None:
    """An algorithm that does not support a discount says so."""
    refused(lambda: made(kind, setting), f"discount is {setting.discount:g}")


def runs_in_explore(kind: Kind, setting: Setting) -> None:
    """A model and a number of episodes are enough; the atlas is certified, saved, loaded and planned from."""
    for stationary in (False, True):
        mdp = model_of(setting, seed=1)
        options: dict[str, Any] = {"max_episodes": 150, "algorithm": kind, "stationary": stationary, "delta": 0.2}
        options["on_interrupt"] = "raise"
        atlas, again = (explore(mdp, 3, **options) for _ in range(2))
        assert atlas == again
        assert atlas.episodes == 150
        assert atlas.counts.transitions == 450
        assert atlas.source["own"]["guarantee"] == kind.guarantee
        given: dict[str, Any] = {"reward": mdp.reward} if kind.needs_reward else {}
        given |= {"budget": 150} if kind.needs_budget else {}
        assert explore(mdp, 3, **options, **given).certificate == atlas.certificate
        certificate = certify(atlas.counts, delta=0.2)
        assert certificate.every_reward
        assert 0 < certificate.epsilon <= 2 * 3 * (1 + 1e-9)
        with tempfile.TemporaryDirectory() as folder:
            atlas.save(Path(folder) / "one.atlas")
            again = load(Path(folder) / "one.atlas")
        assert again == atlas
        assert again.certificate == atlas.certificate
        assert again.source["own"] == atlas.source["own"]
        plan = again.plan(mdp.reward)
        value = mdp.initial @ evaluate_policy(mdp, plan.policy, mdp.reward, 3).V[0]
        assert plan.lower <= value <= plan.upper


def claims_nothing_false(kind: Kind, setting: Setting) -> None:
    """What its own theorem guarantees is true, except in a share delta of the runs: 40 small models with delta = 0.1.

    Half of them start in a fixed state, half in a random one of known distribution.

    It fails if a guarantee was false in 14 or more of the 40 runs. If it is false with probability at most 0.1 in each, that
    happens with probability below 1e-4; if it is false with probability 0.5, with probability above 0.95. For a reward-free
    algorithm, the loss is the largest over plans for eight rewards. What is about something else (`Explorer.certifies`) than a
    recommendation or plans has to be tested where that is known.
    """
    if not kind.proved or kind.certifies:
        return
    S, A, H, delta, runs, wrong = 3, 2, 3, 0.1, 40, 0
    for seed in range(runs):
        rng, false = np.random.default_rng([seed, 17]), False
        start = np.eye(S)[0] if seed % 2 else rng.dirichlet(np.ones(S))
        mdp = TabularMDP(rng.dirichlet(np.ones(S), (S, A)), initial=start, reward=rng.random((S, A)))
        options = {"delta": delta, "seed": seed}
        setting = mdp.setting(H, initial=start)
        explorer = make_explorer(kind, setting, options, own_reward=mdp.reward, max_episodes=160)
        for until in (3, 10, 40, 160):
            played(explorer, mdp, until, rng)
            own = explorer.own_epsilon
            if own is None:
                continue
            model = explorer.counts.model()
            for reward in [mdp.reward] if kind.needs_reward else [rng.random((S, A)) for _ in range(8)]:
                policy = explorer.recommendation if kind.needs_reward else backward_induction(model, reward, H).policy
                assert policy is not None, "it has a guarantee for a recommendation, but no recommendation"
                lost = backward_induction(mdp, reward, H).V[0] - evaluate_policy(mdp, policy, reward, H).V[0]
                false |= float(mdp.initial @ lost) > own + 1e-9
        wrong += false
    assert wrong < 14, f"own_epsilon was too small in {wrong} of {runs} runs, with delta = {delta}"


EVERYWHERE: tuple[Check, ...] = (
    proposes_policies,
    asking_changes_nothing,
    repeats_itself_under_a_seed,
    can_be_told_in_parts,
    no_episodes_are_no_news,
    is_certified_by_its_counts,
    claims_what_it_declares,
    keeps_the_units_of_its_reward,
    resumes_to_the_last_bit,
    resumes_on_a_model,
    decides_on_a_model_as_with_ask_and_tell,
)
IN_ONE_SETTING: tuple[Check, ...] = (
    a_wrong_start_changes_nothing,
    damaged_states_are_refused,
    refuses_a_delta_that_is_none,
    runs_in_explore,
    claims_nothing_false,
)

"""What could be assumed, if it is known: suggested where the data allow it, with what it would save, and never chosen."""

import itertools
from math import exp, lgamma, log

import numpy as np
import pytest
from scipy import stats

import anyreward as ar
from anyreward.exploring.audit import ALARM
from anyreward.exploring.suggestions import outlook, p_stationary, suggestions

from ..helpers.checkpoints import Rooms
from ..helpers.problems import random_mdp
from ..helpers.tabular import Tabular, transitions

H = 5


def ring(S=6):
    """Deterministic: action 0 stays, action 1 goes on."""
    P = np.zeros((S, 2, S))
    P[np.arange(S), 0, np.arange(S)] = 1.0
    P[np.arange(S), 1, (np.arange(S) + 1) % S] = 1.0
    return P


def by_argument(atlas, *more):
    return {it.argument: it for it in suggestions(atlas, *more)}


@pytest.mark.usefixtures("quick_look")
def test_each_assumption_is_suggested_with_what_it_would_save():
    """The numbers are those of certificates of the same counts that were made under the assumption."""
    atlas = ar.explore(Tabular(ring()), H, max_episodes=3_000)
    found, setting = by_argument(atlas), atlas.counts.setting
    assert list(found)[:3] == ["stationary=True", "initial_state=0", "deterministic=True"]
    columns = atlas.counts.columns()
    pooled, keys = {}, ("h", "s", "a", "next", "count")
    for h, s, a, y, n in zip(*(columns[key].tolist() for key in keys), strict=True):
        pooled[min(h, 0), s, a, y] = pooled.get((min(h, 0), s, a, y), 0) + n
    table = dict(zip(keys, np.array([(*row, n) for row, n in pooled.items()]).T, strict=True))
    fields = {name: getattr(setting, name) for name in setting.__dataclass_fields__}
    known = atlas.counts.declarations()
    stationary = ar.Counts.from_columns(ar.Setting(**{**fields, "stationary": True}), table, known)
    assert found["stationary=True"].epsilon == pytest.approx(ar.certify(stationary).epsilon)
    fixed = ar.Counts.from_columns(ar.Setting(**{**fields, "initial_state": 0}), columns, known)
    assert found["initial_state=0"].epsilon == pytest.approx(ar.certify(fixed).epsilon)
    assert found["deterministic=True"].epsilon == pytest.approx(ar.certify(atlas.counts, deterministic=True).epsilon)
    together = found["stationary=True, initial_state=0, deterministic=True"]
    assert together.epsilon < min(it.epsilon for it in found.values() if it is not together)
    assert all(it.instead == atlas.certificate.epsilon > it.epsilon for it in found.values())
    text = str(found["stationary=True"])
    assert text.startswith("If you know that the transitions do not depend on the step, pass stationary=True: ")
    assert f"about epsilon {found['stationary=True'].epsilon:.3g} instead of {atlas.certificate.epsilon:.3g}." in text
    assert "probab" not in " ".join(map(str, found.values()))


@pytest.mark.usefixtures("quick_look")
def test_exploring_so_saves_about_what_was_said():
    atlas = ar.explore(Tabular(ring()), H, max_episodes=2_000)
    for argument, options in {"stationary=True": {"stationary": True}, "deterministic=True": {"deterministic": True}}.items():
        told = by_argument(atlas)[argument].epsilon
        reached = ar.explore(Tabular(ring()), H, max_episodes=2_000, seed=1, **options).certificate.epsilon
        assert reached == pytest.approx(told, rel=0.2)
        assert told < 0.7 * atlas.certificate.epsilon


@pytest.mark.usefixtures("quick_look")
def test_what_is_assumed_already_is_not_suggested():
    options = {"stationary": True, "initial_state": 0, "deterministic": True}
    assert suggestions(ar.explore(Tabular(ring()), H, max_episodes=100, **options)) == []
    without = ar.explore(Tabular(ring()), H, max_episodes=1_000, initial_state=0, bounds="paper", algorithm="rf-ucrl")
    assert [it.argument for it in suggestions(without)] == ["stationary=True"]  # the paper's bounds count no successors


@pytest.mark.usefixtures("quick_look")
def test_what_the_data_contradict_is_not_suggested():
    noisy = ar.explore(Tabular(transitions(), start=[0.5, 0.5, 0, 0]), H, max_episodes=2_000)
    assert list(by_argument(noisy)) == ["stationary=True"]
    moving = ar.explore(random_mdp(4, 2, seed=0, H=H), H, max_episodes=2_000)
    assert p_stationary(moving.counts) <= ALARM
    assert suggestions(moving) == []


def test_the_test_of_an_audit_withholds_a_suggestion():
    atlas = ar.explore(random_mdp(3, 2, seed=0), 3, max_episodes=500)
    assert list(by_argument(atlas, 0.011)) == ["stationary=True"]
    assert list(by_argument(atlas, 0.01)) == []


def test_what_goes_different_ways_at_different_steps_looks_deterministic_only_if_it_depends_on_the_step():
    """At each step of its own, both models have gone one way so far."""
    noisy = ar.explore(ar.envs.double_chain(5), 4, max_episodes=5)
    assert noisy.counts.widest_pair[2] == 1
    assert p_stationary(noisy.counts) > ALARM
    assert list(by_argument(noisy)) == ["stationary=True"]
    P = np.stack([ring(), ring()[:, ::-1], ring(), ring()[:, ::-1]])  # the actions change their roles
    changing = ar.explore(ar.TabularMDP(P), 4, max_episodes=400)
    assert p_stationary(changing.counts) <= ALARM
    assert list(by_argument(changing)) == ["deterministic=True"]


def test_one_visit_of_each_pair_does_not_look_deterministic():
    atlas = ar.explore(random_mdp(50, 2, seed=0), 2, max_episodes=1)
    assert atlas.counts.widest_pair[2] == 1
    assert suggestions(atlas) == []


@pytest.mark.usefixtures("quick_look")
def test_what_would_save_next_to_nothing_is_not_mentioned():
    """A known start makes little difference to a slippery lake: about a hundredth."""
    atlas = ar.explore("FrozenLake-v1", 10, max_episodes=4_000)
    assert list(by_argument(atlas)) == ["stationary=True"]


def test_without_any_episode_there_is_nothing_to_suggest():
    assert suggestions(ar.explore(random_mdp(3, 2, seed=0, random_start=True), 3, max_episodes=0)) == []


def test_what_says_nothing_even_so_is_said_without_a_number():
    """Three episodes tell nothing, pooled or not."""
    atlas = ar.explore(random_mdp(6, 2, seed=0), 6, max_episodes=3)
    (only,) = suggestions(atlas)
    assert only.epsilon is None
    assert str(only).endswith("pass stationary=True: fewer episodes would be needed.")


@pytest.mark.usefixtures("quick_look")
@pytest.mark.parametrize(
    ("env", "options"),
    [
        ("FrozenLake-v1", {}),
        ("FrozenLake-v1", {"terminal": "state"}),
        ("FrozenLake-v1", {"terminal": "end", "env_args": {"is_slippery": False}}),
        (Rooms, {"max_states": 12}),
        (Rooms, {"max_states": 12, "terminal": "state"}),
        (Rooms, {"max_states": 12, "arrival_rewards": True, "discount": 0.9}),
    ],
)
def test_ends_masks_and_numbered_observations_are_taken_over(env, options):
    atlas = ar.explore(env, H, max_episodes=1_500, **options)
    found = by_argument(atlas)
    assert 0 < found["stationary=True"].epsilon < atlas.certificate.epsilon
    assert ("deterministic=True" in found) == ("env_args" in options)


def test_a_certificate_for_one_reward_is_not_compared():
    """Its epsilon is about another question than that of counts alone."""
    atlas = ar.identify(ar.envs.double_chain(5), "state == 4", 4, max_episodes=50)
    assert [it.epsilon for it in suggestions(atlas)] == [None]


def test_a_loaded_atlas_has_the_same_suggestions(tmp_path):
    atlas = ar.explore(random_mdp(4, 2, seed=1), H, max_episodes=800)
    atlas.save(tmp_path / "it")
    assert suggestions(ar.load(tmp_path / "it")) == suggestions(atlas) != []


# The outlook


def test_the_outlook_is_in_episodes_and_in_time():
    atlas = ar.explore(random_mdp(2, 2, seed=3), 3, 0.1, max_episodes=2_000)
    first, *rest = outlook(atlas, 1_000.0)
    more = 2_000 * ((atlas.certificate.epsilon / 0.1) ** 2 - 1)
    assert first.startswith("Forecast: about ")
    assert float(first.split()[2]) == pytest.approx(more, rel=0.1)
    assert "at this rate) for epsilon 0.1." in first
    assert "at this rate" not in outlook(atlas, None)[0]
    assert rest == [str(it) for it in suggestions(atlas)]


def test_without_a_target_the_aim_is_to_say_something():
    atlas = ar.explore(random_mdp(6, 2, seed=0), 6, max_episodes=5)
    assert outlook(atlas, 10.0)[0] == "Forecast: none is possible yet for epsilon 6."


def test_exploring_shows_the_outlook_unless_it_is_certified(capfd):
    mdp = random_mdp(3, 2, seed=0)
    ar.explore(mdp, 3, 0.1, max_episodes=300, progress=True)
    err = capfd.readouterr().err
    assert "If you know that the transitions do not depend on the step, pass stationary=True" in err
    assert "Forecast: about" in err
    ar.explore(mdp, 3, 2.9, progress=True)
    assert "If you know" not in capfd.readouterr().err
    ar.explore(random_mdp(3, 2, seed=0, H=3), 3, 0.1, max_episodes=30, progress=True)  # whose steps are known to differ
    assert "stationary=True" not in capfd.readouterr().err
    ar.explore(mdp, 3, 0.1, max_episodes=300, progress=False)
    assert "If you know" not in capfd.readouterr().err


# The test of stationarity


def counts_of(rows, S=2, A=1, horizon=3):
    setting = ar.Setting(n_states=S, n_actions=A, horizon=horizon, initial_state=0)
    columns = dict(zip(("h", "s", "a", "next", "count"), np.array(rows).reshape(-1, 5).T, strict=True))
    return ar.Counts.from_columns(setting, columns)


def plain_log_e(counts):
    """The formula in plain loops: pairs that were not visited have e = 1."""
    setting, columns = counts.setting, counts.columns()
    K, pairs = setting.n_outcomes, {}
    for h, s, a, y, n in zip(*(columns[key].tolist() for key in ("h", "s", "a", "next", "count")), strict=True):
        if h >= 0:
            pairs.setdefault((s, a), {}).setdefault(h, {})[y] = n
    ratios = []
    for steps in pairs.values():
        value, total = 0.0, {}
        for n in steps.values():
            value += sum(lgamma(k + 1 / K) - lgamma(1 / K) for k in n.values()) - lgamma(sum(n.values()) + 1)
            for y, k in n.items():
                total[y] = total.get(y, 0) + k
        ratios.append(value - sum(k * log(k / sum(total.values())) for k in total.values()))
    rows = setting.n_states * setting.n_actions
    mean = (sum(exp(r) for r in ratios) + rows - len(ratios)) / rows
    return log(0.5 * exp(sum(ratios)) + 0.5 * mean)


@pytest.mark.parametrize("seed", range(5))
def test_the_p_value_is_that_of_the_formula(seed):
    rng = np.random.default_rng(seed)
    rows = [(h, s, 0, y, rng.integers(1, 6)) for h in range(3) for s in range(2) for y in range(2) if rng.random() < 0.8]
    counts = counts_of(rows)
    assert p_stationary(counts) == pytest.approx(min(1.0, exp(-plain_log_e(counts))), rel=1e-9)


@pytest.mark.parametrize("p", [0.5, 0.2, 0.03])
def test_the_ratio_is_at_most_1_in_expectation(p):
    """Exactly: over all outcomes of eight draws of one pair at two steps."""
    total = 0.0
    for ys in itertools.product((0, 1), repeat=8):
        n = {}
        for i, y in enumerate(ys):
            n[i % 2, y] = n.get((i % 2, y), 0) + 1
        counts = counts_of([(h, 0, 0, y, k) for (h, y), k in n.items()])
        total += p ** sum(ys) * (1 - p) ** (8 - sum(ys)) * exp(plain_log_e(counts))
    assert total <= 1 + 1e-12


@pytest.mark.slow
def test_it_is_rarely_against_what_is_stationary_and_notices_what_is_not():
    """At most one in a hundred of 300 stationary models, explored for as long as it looks best; all 30 that are not."""
    wrong = 0
    for seed in range(300):
        mdp = random_mdp(3, 2, seed=seed)
        wrong += p_stationary(ar.explore(mdp, 4, max_episodes=300, seed=seed, bounds="paper").counts) <= ALARM
    assert wrong <= stats.binom.ppf(0.999, 300, ALARM)
    for seed in range(30):
        counts = ar.explore(random_mdp(3, 2, seed=seed, H=4), 4, max_episodes=3_000, seed=seed, bounds="paper").counts
        assert p_stationary(counts) <= ALARM

"""A known distribution of the initial state: what is refused, how often by mistake, and what it changes in the counts.

It watches `docs/theory.md`, 1.3.
"""

import math
from decimal import Decimal

import numpy as np
import pytest

import anyreward as ar
from anyreward.certificates.bounds import BOUNDS, relevant_laws
from anyreward.data.counts import FALSE_ALARM
from anyreward.testing import random_episodes

from ..helpers.problems import random_mdp
from ..helpers.tight_reference import in_50_digits, log_dirichlet

LAW = (0.6, 0.3, 0.0, 0.1)
SETTING = ar.Setting(n_states=4, n_actions=1, horizon=1, initial=LAW)


def test_a_distribution_can_be_a_mapping():
    """Of two states its keys look like two probabilities."""
    sizes = {"n_states": 2, "n_actions": 1, "horizon": 1}
    assert ar.Setting(**sizes, initial={0: 0.5, 1: 0.5}) == ar.Setting(**sizes, initial=(0.5, 0.5))


def counts_of(starts, setting=SETTING):
    """Counts of episodes of one step that start in these states."""
    starts = np.asarray(starts)
    return ar.Counts.from_episodes(np.column_stack([starts, starts]), np.zeros((len(starts), 1), int), setting)


@in_50_digits
def evidence_against(starts):
    """The log likelihood ratio of the mixture over all laws on the support, against the law that is given."""
    N = [int((np.asarray(starts) == s).sum()) for s in range(4)]
    under_law = sum(n * Decimal(p).ln() for n, p in zip(N, LAW, strict=True) if n)
    return float(log_dirichlet([n for n in N if n], 3) - under_law)


@pytest.mark.parametrize("seed", range(30))
def test_the_alarm_is_a_likelihood_ratio(seed):
    """Refused as soon as the mixture, transcribed in 50 digits, is a million times more likely than what was given."""
    rng = np.random.default_rng(seed)
    wrong = rng.dirichlet([1.0, 1.0, 1.0])
    starts = rng.choice([0, 1, 3], 400, p=wrong)
    limit = -math.log(FALSE_ALARM)
    for n in (1, 5, 20, 60, 150, 400):
        against = evidence_against(starts[:n])
        if abs(against - limit) < 1e-6:
            continue
        if against > limit:
            with pytest.raises(ValueError, match=rf"the initial states of {n} episodes contradict initial"):
                ar.certify(counts_of(starts[:n]))
        else:
            ar.certify(counts_of(starts[:n]))


def test_the_ratio_has_mean_1_so_the_alarm_is_false_as_rarely_as_it_says():
    """Exactly, by all sequences of 8 starts: the mean of the ratio is 1, so it exceeds 1 / alpha with probability at most alpha.

    At any time: the ratio is a martingale, a product of the predictive probabilities of the mixture (`docs/theory.md`, 1.3).
    """
    support, p = [0, 1, 3], [0.6, 0.3, 0.1]
    total = 0.0
    for a in range(9):
        for b in range(9 - a):
            N = (a, b, 8 - a - b)
            ways = math.factorial(8) / math.prod(map(math.factorial, N))
            total += ways * math.prod(q**n for q, n in zip(p, N, strict=True)) * math.exp(evidence_against(np.repeat(support, N)))
    assert total == pytest.approx(1.0, rel=1e-12)


def test_a_true_law_is_not_refused_and_a_false_one_is():
    """With power: off by 0.1 in one probability is noticed within 3,000 episodes in nearly every run, and a true law never."""
    noticed = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        for n in (10, 300, 3_000):
            ar.certify(counts_of(rng.choice(4, n, p=LAW)))
        try:
            ar.certify(counts_of(rng.choice(4, 3_000, p=(0.5, 0.4, 0.0, 0.1))))
        except ValueError:
            noticed += 1
    assert noticed >= 38


def test_a_start_of_probability_0_is_refused():
    with pytest.raises(ValueError, match="episode 2 starts in state 2, which has probability 0 in initial"):
        counts_of([0, 1, 2])
    columns = {"h": [-1], "s": [0], "a": [0], "next": [2], "count": [1]}
    with pytest.raises(ValueError, match="an episode starts in state 2, which has probability 0 in initial"):
        ar.Counts.from_columns(SETTING, columns)
    frame = {"h": [0], "s": [2], "a": [0], "next": [0]}
    with pytest.raises(ValueError, match="probability 0 in initial"):
        ar.Counts.from_dataframe(frame, SETTING)


def test_every_way_to_a_certificate_looks_at_the_starts(tmp_path):
    """Certifying, merging, exploring by ask and tell, BPI-UCRL, and loading a file."""
    contradict = counts_of([3] * 60)
    for claim in (
        lambda: ar.certify(contradict),
        lambda: ar.Atlas(counts_of([3] * 5), ar.certify(counts_of([3] * 5))).merge(
            ar.Atlas(counts_of([3] * 6), ar.certify(counts_of([3] * 6))), same_environment=True
        ),
        lambda: told(ar.RFTrajectory(SETTING)).error_bound,
        lambda: told(ar.RFUCRL(SETTING, bounds="paper")).certificate(),
        lambda: told(ar.BPIUCRL(SETTING, np.ones(4))).interval,
    ):
        with pytest.raises(ValueError, match="contradict initial"):
            claim()
    atlas = ar.Atlas(counts_of([0, 1, 3]), ar.certify(counts_of([0, 1, 3])))
    atlas.save(tmp_path / "some.atlas")
    assert ar.load(tmp_path / "some.atlas").certificate == atlas.certificate


def told(explorer):
    explorer.tell(np.full((60, 2), 3), np.zeros((60, 1), int))
    return explorer


@pytest.mark.parametrize("stationary", [False, True])
def test_a_known_law_has_no_radius_and_no_share_of_delta(stationary):
    """As if every state in which an episode can start were a start of its own: only their laws count at the first step."""
    setting = ar.Setting(n_states=4, n_actions=3, horizon=3, stationary=stationary, initial=LAW)
    assert relevant_laws(setting) == (12 if stationary else 3 * 3 + 12)
    assert relevant_laws(setting, last_step=True) == (12 if stationary else 3 * 3 + 2 * 12)
    assert setting.n_distributions == (12 if stationary else 36)
    masked = ar.Setting(
        n_states=4, n_actions=3, horizon=3, stationary=stationary, initial=LAW, absorbing_states=(1,), illegal_actions=((0, 2),)
    )
    assert relevant_laws(masked) == (8 if stationary else 3 + 3 - 1 + 8)
    counts = ar.Counts.from_episodes(*random_episodes(setting, 50, 0), setting)
    for bound in BOUNDS.values():
        assert bound().kl_radii(counts, 0.1)[0] == 0.0
        assert (bound().kl_radii(counts, 0.1)[counts.table.n > 0][1:] > 0.0).all()


def test_a_model_says_whether_the_law_is_its_own():
    mdp = random_mdp(3, 2, seed=1, random_start=True)
    assert mdp.setting(4).estimates_start
    assert dict(mdp.setting(4, initial=mdp.initial).initial) == pytest.approx(dict(enumerate(mdp.initial)))
    with pytest.raises(ValueError, match=r"initial has the probability 0\.5 for state"):
        mdp.setting(4, initial=[0.5, 0.5, 0.0])
    with pytest.raises(ValueError, match="but in this model it is"):
        ar.explore(mdp, 4, max_episodes=5, initial=[0.0, 1.0, 0.0])
    open_, known = (ar.explore(mdp, 4, max_episodes=2_000, initial=initial) for initial in (None, mdp.initial))
    assert known.certificate.epsilon < open_.certificate.epsilon


@pytest.mark.parametrize("stationary", [False, True])
def test_a_start_that_no_episode_had_yet_counts_with_the_trivial_bound(stationary):
    """Three states, the third of which no episode has started in: 0.3 of what can be earned after the first step."""
    setting = ar.Setting(n_states=3, n_actions=1, horizon=5, stationary=stationary, initial=[0.5, 0.2, 0.3])
    none = ar.certify(ar.Counts(setting)).error_bound
    assert none == pytest.approx(4.0, rel=1e-12)  # the first reward has no error
    seen = ar.Counts.from_episodes([[0] * 6, [1] * 6], np.zeros((2, 5), int), setting)
    some = ar.certify(seen, max_successors=1)  # so that nothing else is unknown
    assert 0.3 * 4 <= some.error_bound <= 0.3 * 4 * (1 + 1e-9)
    home = ar.Setting(n_states=3, n_actions=1, horizon=5, initial=[0.5, 0.2, 0.3], absorbing_states=(2,))
    assert ar.certify(ar.Counts(home)).error_bound == pytest.approx(0.7 * 4, rel=1e-12)  # nothing to be known there


def test_legal_actions_that_are_unknown_at_the_start_cost_the_first_reward():
    setting = ar.Setting(n_states=3, n_actions=2, horizon=5, initial=[0.5, 0.2, 0.3], hidden_masks=True)
    counts = ar.Counts(setting)
    for bounds in ("tight", "paper"):
        assert ar.certify(counts, bounds=bounds).error_bound == pytest.approx(5.0, rel=1e-12)
    counts.declare_illegal(0, [1])
    assert ar.certify(counts).error_bound == pytest.approx(4.5, rel=1e-12)

"""Errors of the page speak of its fields and boxes, not of the parameters of the library."""

import re

import pytest

import anyreward as ar
from anyreward.studio.asking import Unanswerable
from anyreward.studio.desk import Desk
from anyreward.studio.wording import INSTEAD, worded

from ..cli.test_wording import PACKAGE, PYTHON, QUOTED, sentences
from .conftest import formula, painted

# What the page asks is answered by these files.
ANSWERED = re.compile(
    r"^(rewards/(?!given|files)\w+|atlas/(scoring|constrained|tradeoff|goals|explanation|plan|scoring)|data/likelihood|studio/\w+)\.py$"
)
ELSEWHERE = ("reward is a function", "7 is added to a term")  # what a page cannot send


@pytest.fixture(scope="module")
def every():
    """All sentences of the library, with the files that they are in."""
    return [(str(path.relative_to(PACKAGE)), text) for path, text in sentences()]


def test_every_sentence_that_the_page_can_show_is_in_its_words(every):
    said = [text for path, text in every if ANSWERED.match(path)]
    assert len(said) > 100
    left = [text for text in said if PYTHON.search(QUOTED.sub("", worded(text))) and not text.startswith(ELSEWHERE)]
    assert left == []


def test_the_list_has_nothing_that_is_not_said_any_more(every):
    texts = [text for _, text in every]
    source = "".join(path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "wording.py")
    assert [p for p, _ in INSTEAD if not any(re.search(p, text) for text in texts) and p not in source] == []


@pytest.fixture(scope="module")
def lake():
    return Desk({"lake": ar.explore("FrozenLake-v1", 5, max_episodes=300, stationary=True)})


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"range": [0.9, 1]}, "outside [0.9, 1]: say in 'it pays at least' and 'at most' what it can pay"),
        ({"range": [1, 0]}, "'it pays at least' and 'at most' are (1.0, 0.0): the first number has to be below the second"),
    ],
)
def test_observed_rewards(lake, own, expected):
    with pytest.raises(Unanswerable, match=re.escape(expected)):
        lake.answer("plan", {"reward": {"terms": [{"name": "own", "kind": "own", **own}]}})


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ([], "a limit is not complete"),
        (
            [{"text": "1", "sign": "<=", "limit": 1}],
            "no plan can be certified to keep these limits: the smallest cost 1 that can be",
        ),
        ([{"text": "1", "sign": "<", "limit": 1}], "a limit is not complete"),
    ],
)
def test_limits(desk, limits, expected):
    with pytest.raises(Unanswerable, match=expected) as found:
        desk.answer("limits", {"reward": painted(([29], 1)), "limits": limits})
    assert not PYTHON.search(str(found.value))


def test_what_was_written_stays(desk):
    with pytest.raises(Unanswerable, match="unknown name 'subject_to'"):
        desk.answer("plan", {"reward": {"terms": [formula("subject_to == 3")]}})


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("stationary_rewards is True, but x depends on the step: leave it out.",
         "'it does not depend on the step' is ticked, but x depends on the step: untick it."),
        ("rewards is 'deterministic', but x paid different rewards: pass rewards='random'.",
         "'the same transition always pays the same' is ticked, but x paid different rewards: untick it."),
        ("paid_once is True, but 3 episodes paid more: leave it out.",
         "'at most one of an episode is not zero' is ticked, but 3 episodes paid more: untick it."),
        ("stationary is True but the transitions of this model depend on the step: use stationary=False.",
         "'transitions do not depend on the step' is ticked, but the transitions of this model depend on the step: untick it."),
    ],
)  # fmt: skip
def test_parameters_become_boxes(said, expected):
    assert worded(said) == expected

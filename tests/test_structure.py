"""Declarations of shared laws: what they become, and what is refused with one sentence."""

import dataclasses
import pickle

import gymnasium
import numpy as np
import pytest

import anyreward as ar
from anyreward.shared_laws import SharedLaws

from .helpers.structures import chain, plant, queue, walk


def test_pairs_with_the_same_law_share_it():
    laws = chain().tabulate(31, 2, 20)
    assert (laws.steps, laws.draws, laws.sizes, laws.names) == (1, 1, (2, 2), ("0", "1"))
    np.testing.assert_array_equal(laws.law_of[:, 0], np.tile([0, 1], 31))
    assert laws.tables.revealed.all()  # also at the ends, where one outcome stays and the other does not
    first = laws.tables.edge_first
    assert laws.tables.edge_target[first[0] : first[1]].tolist() == [0, 1]


def test_a_pair_reveals_its_draw_if_all_outcomes_lead_elsewhere():
    """At the left end of a walk with outcomes -1, 0 and 1, two of them stay: none of its draws counts, not even the third."""
    laws = walk(5).tabulate(5, 1, 3)
    assert laws.tables.revealed[:, 0].tolist() == [False, True, True, True, False]
    first, code = laws.tables.edge_first, laws.tables.edge_code[:, 0]
    assert (code[first[0] : first[1]] == -1).all()
    assert (code[first[4] : first[5]] == -1).all()
    assert code[first[1] : first[2]].tolist() == [0, 1, 2]


def test_each_draw_of_a_transition_is_revealed_or_not_by_itself():
    laws = queue(3).tabulate(8, 1, 3)
    # Without a customer no service is seen. In a full queue an arrival is lost, unless a service makes room.
    assert laws.tables.revealed.tolist() == [[True, False]] * 2 + [[True, True]] * 4 + [[False, True]] * 2
    assert laws.names == ("'arrival'", "'service'")


def test_a_law_that_can_be_told_nowhere_is_refused():
    """In one queue whose length is all that is seen, an arrival with a service looks like neither of them."""
    one = ar.Structure.drawn(
        [lambda s, a: "arrival", lambda s, a: "service"], [2, 2], lambda s, a, x, y: min(3, s - (1 if y and s > 0 else 0) + x)
    )
    with pytest.raises(ValueError, match="the draws of the law 'service' can be told at no state and action"):
        one.tabulate(4, 1, 3)
    known = ar.Structure.drawn(
        [lambda s, a: "arrival", lambda s, a: "service"], [2, 2], lambda s, a, x, y: min(3, s - (1 if y and s > 0 else 0) + x),
        known={"service": (0.5, 0.5)},
    )  # fmt: skip
    assert known.tabulate(4, 1, 3).estimated.tolist() == [True, False]


def test_exchangeable_parts_share_laws():
    laws = plant().tabulate(64, 4, 20)
    assert (laws.draws, len(laws.sizes)) == (3, 8)
    s = np.ravel_multi_index((1, 2, 0), (4, 4, 4))
    row = laws.law_of[s * 4 + 2]  # the second machine is serviced
    assert [laws.names[g] for g in row] == ["((1,), False)", "((2,), True)", "((0,), False)"]
    first = laws.tables.pointer[s * 4 + 2]
    assert laws.tables.target[first : first + 64].tolist() == list(range(64))


def test_parts_may_have_parents_and_fewer_outcomes():
    made = ar.Structure.factored(
        (3, 2),
        parents=[(0, 1), (1,)],
        outcomes=lambda i, v, a: (v[0], (v[0] + 1) % 3) if i == 0 else (0, 1),
        successor=lambda i, v, a, x: x,
    )
    laws = made.tabulate(6, 1, 2)
    assert len(laws.sizes) == 6 + 2  # the first part has a law for each of its values and each of its parent's
    assert set(laws.sizes) == {2}


def test_parts_with_names_say_the_same_as_parts_with_numbers():
    spaces = gymnasium.spaces
    space = spaces.Dict({"wear": spaces.Discrete(2), "stock": spaces.Discrete(3)})  # which sorts its keys
    numbered = ar.Structure.factored((3, 2), parents=[(0, 1), (1,)]).tabulate(6, 2, 4)
    for sizes, parents in (
        ({"stock": 3, "wear": 2}, {"stock": ["stock", "wear"]}),
        (space, [["stock", "wear"], ["wear"]]),
        (spaces.Tuple((spaces.Discrete(3), spaces.Discrete(2))), [[0, 1], [1]]),
        (spaces.MultiDiscrete([3, 2]), {0: [0, 1]}),
    ):
        laws = ar.Structure.factored(sizes, parents).tabulate(6, 2, 4)
        assert dataclasses.replace(laws, names=numbered.names) == numbered
    assert ar.Structure.factored(space).tabulate(6, 2, 4).names[0] == "('stock', (0,), 0)"
    asked = set()
    ar.Structure.factored(
        space, law=lambda part, level, a: asked.add(part) or part, successor=lambda part, level, a, x: x
    ).tabulate(6, 2, 4)
    assert asked == {"stock", "wear"}


def test_arrays_say_the_same_as_functions():
    law = np.tile([0, 1], (31, 1))
    successor = np.array([[[max(s - 1, 0), min(s + 1, 30)]] * 2 for s in range(31)])
    given = ar.Structure(law=law, successor=successor, outcomes=2).tabulate(31, 2, 20)
    assert dataclasses.replace(given, names=chain().tabulate(31, 2, 20).names) == chain().tabulate(31, 2, 20)


def test_laws_of_the_step():
    made = ar.Structure(law=lambda h, s, a: h % 2, outcomes=2, successor=lambda s, a, x: x)
    setting = ar.Setting(n_states=2, n_actions=1, horizon=4, initial_state=0, structure=made)
    assert not setting.stationary
    assert setting.structure.steps == 4
    assert ar.Setting(n_states=2, n_actions=1, horizon=1, initial_state=0, structure=made).stationary
    with pytest.raises(ValueError, match="depend on the step, but stationary is True"):
        ar.Setting(n_states=2, n_actions=1, horizon=4, initial_state=0, structure=made, stationary=True)


def test_a_setting_with_a_structure_is_a_plain_value():
    setting = ar.Setting(n_states=31, n_actions=2, horizon=20, initial_state=15, structure=chain())
    assert setting.stationary  # since its laws do not depend on the step
    again = ar.Setting(**dataclasses.asdict(setting))
    assert again == setting
    assert hash(again.structure) == hash(setting.structure)
    assert pickle.loads(pickle.dumps(setting)) == setting
    assert "62 states and actions share 2 laws, as declared" in setting.assumptions[0]
    assert "structure" not in ar.Setting(n_states=2, n_actions=1, horizon=1).identity()  # digests of older files stay


def test_absorbing_and_illegal_pairs_have_no_law():
    setting = ar.Setting(
        n_states=31, n_actions=2, horizon=5, initial_state=3, absorbing_states=(0,), illegal_actions=((1, 1),), structure=chain()
    )
    without = (setting.structure.law_of < 0).all(axis=1)
    assert np.flatnonzero(without).tolist() == [0, 1, 3]


def bad(**changes):
    given = {"law": lambda s, a: a, "outcomes": (-1, 1), "successor": lambda s, a, x: min(max(s + x, 0), 30), **changes}
    return ar.Structure(**given).tabulate(31, 2, 20)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: bad(successor=lambda s, a, x: s + x), r"successor\(0, 0, -1\) is -1: it has to be from 0 to 30"),
        (lambda: bad(successor=lambda s, a, x: 0.5), r"successor\(0, 0, -1\) is 0.5: it has to be a whole number"),
        (lambda: bad(law=lambda s, a: None), "law is None for state 0 with action 0"),
        (lambda: bad(law=lambda s, a: [s]), r"law is \[0\] for state 0 with action 0: it has to be hashable"),
        (lambda: bad(law=lambda s: s), "law takes 1 arguments"),
        (lambda: bad(law=np.zeros(3)), r"law has shape \(3,\)"),
        (lambda: bad(law=np.zeros((5, 2))), r"law has shape \(5, 2\): it has to be"),
        (lambda: bad(outcomes=()), "it needs some, and each of them once"),
        (lambda: bad(outcomes=(1, 1)), "it needs some, and each of them once"),
        (lambda: bad(outcomes={0: (-1, 1)}), "outcomes has none for the law 1"),
        (lambda: bad(known={7: (0.5, 0.5)}), "known has the law 7, which no state and action draw from"),
        (lambda: bad(known={0: (0.5, 0.6)}), "probabilities are from 0 to 1 and sum to one"),
        (lambda: bad(known={0: (0.5, 0.2, 0.3)}), "whose outcomes are"),
        (lambda: bad(known={0: {-1: 0.5, 3: 0.5}}), "whose outcomes are"),
        (lambda: bad(outcome=lambda s, a, t: None if t == 0 else t - s), "outcome answers for some successors of state 0 with"),
        (lambda: bad(outcome=lambda s, a, t: s - t), "outcome and successor contradict each other for state 0 with action 0"),
        (lambda: plant().tabulate(65, 4, 20), r"4 x 4 x 4 = 64 values, but there are 65 states"),
        (lambda: ar.Structure.factored(()), "a state needs from 1 to 60 parts"),
        (lambda: ar.Structure.factored((2, 2), parents=[(0,)]), "parents of each of 2 parts|for each of 2 parts"),
        (lambda: ar.Structure.drawn([lambda s, a: 0], [], lambda s, a: 0), "there are 1 laws and 0 lists of outcomes"),
        (lambda: ar.Setting(n_states=2, n_actions=1, horizon=2, structure=3), "structure is 3: it has to be a Structure"),
        (
            lambda: ar.Setting(n_states=31, n_actions=2, horizon=2, structure=chain(), terminal="outcome"),
            "structure does not suit terminal='outcome'",
        ),
        (
            lambda: ar.Structure(
                law=lambda s, a: 0, outcomes=lambda g: 2 + len(calls.append(1) or calls) % 2, successor=lambda s, a, x: 0
            ).tabulate(3, 1, 2),
            "pairs that share a law have as many outcomes",
        ),
    ],
)  # fmt: skip
def test_bad_declarations_get_one_sentence(wrong, says):
    calls.clear()
    with pytest.raises(ValueError, match=says) as error:
        wrong()
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)


calls: list[int] = []


def test_an_outcome_that_says_what_follows_from_the_successors_is_accepted():
    assert bad(outcome=lambda s, a, t: (-1 if t < s or t == 0 else 1) if t != s else (-1 if s == 0 else 1)) == bad()


@pytest.mark.parametrize(
    "change",
    [
        {"keys": "x"},
        {"targets": ""},
        {"targets": chain().tabulate(31, 2, 20).keys},
        {"sizes": (2, 3)},
        {"sizes": (2, 10**9)},
        {"names": ("0",)},
        {"names": ("0", "a\nb")},
        {"known": ((5, (1.0,)),)},
        {"known": ((0, (0.5, 0.1)),)},
        {"n_states": 30},
        {"draws": 2},
        {"steps": 0},
    ],
)
def test_damaged_tables_are_refused(change):
    fields = dataclasses.asdict(chain().tabulate(31, 2, 20))
    with pytest.raises(ValueError, match=r"damaged|sum to one"):
        SharedLaws(**{**fields, **change})


def test_packed_integers_cannot_be_a_bomb():
    """Some kilobytes that would unpack to many megabytes are refused before they are unpacked."""
    import base64
    import zlib

    text = base64.b64encode(zlib.compress(bytes(2**25), 1)).decode()
    with pytest.raises(ValueError, match="its structure is damaged"):
        SharedLaws(**{**dataclasses.asdict(chain().tabulate(31, 2, 20)), "keys": text})


def square(**changes):
    """A structure of one law on three states, in which state 2 leads to 0."""
    return ar.Structure(**{"law": lambda s, a: "coin", "outcomes": 2, "successor": lambda s, a, x: (s + 1 + x) % 3, **changes})


def test_masks_have_to_be_known():
    """States that are never visited have estimates too, and their masks would never be seen."""
    with pytest.raises(ValueError, match="structure needs to know which actions are legal"):
        ar.Setting(n_states=3, n_actions=1, horizon=4, initial_state=0, structure=square(), hidden_masks=True, terminal="state")


def test_a_state_that_ends_episodes_can_only_lead_to_itself():
    counts = ar.Counts(ar.Setting(n_states=3, n_actions=1, horizon=4, initial_state=0, structure=square(), terminal="state"))
    with pytest.raises(ValueError, match="episodes terminate in state 2, which can be left by the structure"):
        counts.declare_absorbing([2])
    stays = square(
        law=lambda s, a: "end" if s == 2 else "coin",
        outcomes=lambda law: (0,) if law == "end" else (0, 1),
        successor=lambda s, a, x: 2 if s == 2 else (s + 1 + x) % 3,
    )
    counts = ar.Counts(ar.Setting(n_states=3, n_actions=1, horizon=4, initial_state=0, structure=stays, terminal="state"))
    counts.declare_absorbing([2])
    assert counts.stays().tolist() == [2]


def test_all_states_may_be_absorbing():
    setting = ar.Setting(n_states=2, n_actions=1, horizon=2, initial_state=0, absorbing_states=(0, 1), structure=ar.Structure(
        law=lambda s, a: 0, outcomes=(0, 1), successor=lambda s, a, x: x
    ))  # fmt: skip
    assert ar.certify(ar.Counts.from_episodes([[0, 0, 0]], [[0, 0]], setting)).epsilon == 0.0


def test_laws_that_nothing_draws_from_are_refused_in_files():
    fields = dataclasses.asdict(square().tabulate(3, 1, 4))
    with pytest.raises(ValueError, match="its structure is damaged"):
        SharedLaws(**{**fields, "sizes": (*fields["sizes"], 2**25), "names": (*fields["names"], "'more'")})


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: square(known=[1]), "known is .1.: it has to be a mapping"),
        (lambda: square(known={"coin": 0.5}), "known gives 0.5 for the law 'coin': a list of probabilities is needed"),
        (lambda: square(outcomes=10**12), "at most 67,108,864"),
        (lambda: square(outcomes=True), "are True: a list of hashable values is needed"),
        (lambda: square(outcome=3), "outcome is 3: it has to be a function"),
        (lambda: square(law=[[1], [2, 3]]), "law is a list whose rows differ in length"),
        (lambda: square(law=np.zeros((9, 9), int)), "law has shape \\(9, 9\\): it has to be"),
        (lambda: square(successor=lambda s, a: 0), "the structure fails for state 0 with action 0: TypeError"),
        (lambda: square(successor=lambda s, a, x: [][s]), "the structure fails for state 0 with action 0: IndexError"),
        (lambda: ar.Structure.drawn(None, None, lambda s, a: 0), "laws is None: it has to be a list"),
        (lambda: ar.Structure.drawn([lambda s, a: 0] * 100, [2] * 100, lambda s, a, *x: 0), "from 1 to 60 draws"),
        (lambda: ar.Structure.drawn([lambda s, a: 0], [2], 3), "successor is 3: it has to be a function"),
        (lambda: ar.Structure.factored((2.9, 2.9)), "lists of whole numbers are needed"),
        (lambda: ar.Structure.factored("22"), "lists of whole numbers are needed"),
        (lambda: ar.Structure.factored({"a": 2, "b": 2}, {"c": ["a"]}), "for each of 2 parts, the names, which are"),
        (lambda: ar.Structure.factored({"a": 2, "b": 2}, {"b": ["a", "d"]}), "for each of 2 parts, the names, which are"),
        (lambda: ar.Structure.factored({"a": 2, "b": 2}, {"b": "ab"}), "lists of whole numbers are needed"),
        (lambda: ar.Structure.factored(gymnasium.spaces.Discrete(4)), "lists of whole numbers are needed"),
        (lambda: ar.Structure.factored({"a": gymnasium.spaces.Box(0, 1), "b": 2}), "lists of whole numbers are needed"),
        (lambda: ar.Structure.factored((1,) * 70), "from 1 to 60 parts"),
        (lambda: ar.Structure.factored((3,), law=np.zeros((3, 1))), "law is array.*: it has to be a function"),
    ],
)
def test_what_is_no_declaration_gets_one_sentence(wrong, says):
    with pytest.raises(ValueError, match=says) as error:
        wrong().tabulate(3, 1, 4)
    assert "\n" not in str(error.value)

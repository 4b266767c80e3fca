"""What an atlas file says, with the right checksum: contents that cannot be true are refused with one sentence."""

import numpy as np
import pytest

import anyreward as ar
from anyreward.atlas import container

from ..helpers.forging import at, changed, forge, one_sentence, parts_of, put, with_setting
from ..helpers.waiting import little_work


@pytest.mark.parametrize(
    "change",
    [
        put("columns", "count", at(2, -5)),
        put("columns", "count", at(2, 0)),
        put("columns", "count", at(2, 2**53 + 1)),
        put("columns", "count", at(2, 2**63 - 1)),
        put("columns", "count", lambda n: np.full(len(n), 2**52)),
        put("columns", "count", lambda n: n.astype(float)),
        put("columns", "evidence", at(3, np.nan)),
        put("columns", "evidence", at(3, np.inf)),
        put("columns", "evidence", at(3, -np.inf)),
        put("columns", "evidence", at(3, 0.5)),
        put("columns", "evidence", at(3, -1e300)),
        put("columns", "h", at(3, -2)),
        put("columns", "h", at(3, 5)),
        put("columns", "s", at(3, -1)),
        put("columns", "s", at(3, 7)),
        put("columns", "a", at(3, 2)),
        put("columns", "next", at(3, 2**31 - 1)),
        put("columns", "next", at(0, 0)),
        put("about", "known", [[10**9, 1]]),
        put("about", "known", [[-1, 1]]),
        put("about", "known", [[0, 3]]),
        put("about", "known", [[0, 1, 2]]),
        put("about", "known", [[0.5, 1]]),
        put("about", "known", [[10**30, 1]]),
        put("about", "known", "x"),
        put("about", "known", {}),
        put("about", "history", [[1]]),
        put("about", "history", 5),
        put("about", "history", [["a", "b"]]),
        put("about", "policy", [[0], [0, 1]]),
        put("about", "policy", "x"),
        put("about", "policy", [[10**30]]),
        put("about", "source", 5),
        put("about", "runs", 5),
        put("about", "progress", 5),
        put("about", "format", 4),
        put("about", "format", "2"),
        put("about", "format", [2]),
        put("about", "format", None),
        put("about", "certificate", None),
        put("about", "certificate", []),
        put("certificate", "epsilon", float("nan")),
        put("certificate", "epsilon", "small"),
        put("certificate", "epsilon", 1e-6),
        put("certificate", "delta", float("nan")),
        put("certificate", "delta", 0),
        put("certificate", "delta", 1e-300),
        put("certificate", "transition_delta", 1e-9),
        put("certificate", "transition_delta", "x"),
        put("certificate", "options", {"max_successors": 10**30}),
        put("certificate", "options", {"max_successors": -1}),
        put("certificate", "options", {"max_successors": [1]}),
        put("certificate", "options", {"unheard": 1}),
        put("certificate", "options", [1]),
        put("certificate", "bounds", ["tight"]),
        put("certificate", "bounds", "paper"),
        put("certificate", "digest", None),
        put("certificate", "episodes", -1),
        put("certificate", "target", "x"),
        put("certificate", "met", "yes"),
        put("setting", "horizon", 0),
        put("setting", "horizon", 1.5),
        put("setting", "horizon", 10**30),
        put("setting", "n_states", 3),
        put("setting", "n_states", True),
        put("setting", "discount", float("nan")),
        put("setting", "discount", 1e-320),
        put("setting", "initial_state", -1),
        put("setting", "absorbing_states", [10**9]),
        put("setting", "absorbing_states", 5),
        put("setting", "absorbing_states", [3]),
        put("setting", "unheard", 5),
    ],
)
def test_contents_that_cannot_be_are_refused(good, tmp_path, change):
    path = tmp_path / "it"
    columns, about, arrays = parts_of(good[0])
    change(columns, about, arrays)
    container.write(path, columns, about, arrays)
    with pytest.raises(ValueError, match="does not hold a valid atlas") as caught:
        ar.load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        put("about", "certificate", None),
        put("about", "format", "2"),
        put("about", "history", [[1]]),
        put("about", "known", {}),
        put("certificate", "options", {"unheard": 1}),
        put("setting", "unheard", 5),
        lambda columns, about, arrays: about.pop("runs"),
        lambda columns, about, arrays: columns.pop("s"),
    ],
)
def test_a_refusal_is_a_sentence_and_not_what_python_says(good, tmp_path, change):
    path = changed(good, tmp_path / "it", change)
    with pytest.raises(ValueError, match="does not hold a valid atlas") as caught:
        ar.load(path)
    assert one_sentence(caught.value, path)
    assert not any(
        word in str(caught.value) for word in ("NoneType", "__init__", "subscriptable", "object is", "'str'", "unpack")
    )


@pytest.mark.parametrize("shape", [[2**62, 2**62], [-1], [-1, -5], [2**63], [10**30], ["x"], [None], "x", None, [[2]], [1.5]])
def test_attached_shapes_that_cannot_be_are_refused(good, tmp_path, shape):
    _, about, _ = parts_of(good[0])
    for place in (["state.Q", "<f8", shape, 0], ["state.Q", "|u1", shape, 10**9], ["state.Q", "O", [1], 0], ["Q"], 5):
        forge(tmp_path / "it", {"about": about, "arrays": [place]}, bytes(16))
        with pytest.raises(ValueError, match="does not hold a valid atlas") as caught:
            ar.load(tmp_path / "it")
        assert one_sentence(caught.value, tmp_path / "it")


@pytest.mark.parametrize("kind", ["O", "|O", "|V8", "<U4", "<M8[s]", "<c16", ">f8", "float64", ["<f8"], None, "<f8,<f8"])
def test_attached_kinds_that_are_not_numbers_are_refused(good, tmp_path, kind):
    """Above all objects: an array of them would be an array of pointers out of the file."""
    _, about, _ = parts_of(good[0])
    forge(tmp_path / "it", {"about": about, "arrays": [["state.Q", kind, [2], 0]]}, bytes(16))
    with pytest.raises(ValueError, match="does not hold a valid atlas"):
        ar.load(tmp_path / "it")


# --- what a file claims about one reward ---


@pytest.fixture(scope="module")
def identified(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "identified"
    mdp = ar.envs.double_chain(5)
    ar.identify(mdp, mdp.reward, 3, epsilon=1.0).save(path)
    assert ar.load(path).certificate.met
    return path, path.read_bytes(), ar.load(path)


CLAIMS = {
    "epsilon too small": put("certificate", "epsilon", 1e-9),
    "epsilon negative": put("certificate", "epsilon", -5.0),
    "epsilon nan": put("certificate", "epsilon", float("nan")),
    "delta tiny": put("certificate", "delta", 1e-12),
    "delta above 1": put("certificate", "delta", 2.0),
    "transition_delta": put("certificate", "transition_delta", 0.999999),
    "bounds": put("certificate", "bounds", "magic"),
    "met is no truth": put("certificate", "met", 1),
    "episodes": put("certificate", "episodes", -3),
    "reward": put("certificate", "reward", "0" * 64),
    "reward_range": put("certificate", "reward_range", [1.0, 0.0]),
    "action 99": put("about", "policy", [[99] * 5] * 3),
    "another policy": put("about", "policy", [[0] * 5] * 3),
    "half a policy": put("about", "policy", [[0] * 5]),
    "no policy": put("about", "policy", None),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_about_one_reward_follows_from_the_file_or_is_refused(identified, tmp_path, name):
    changed(identified, tmp_path / "it", CLAIMS[name])
    with pytest.raises(ValueError, match="does not hold a valid atlas") as caught:
        ar.load(tmp_path / "it")
    assert one_sentence(caught.value, tmp_path / "it")


@pytest.mark.parametrize("epsilon", [1e-9, 0.5])
def test_a_claim_that_cannot_be_verified_is_shown_as_one_and_never_met(identified, tmp_path, epsilon):
    """Of a reward that is said to have been observed, or is missing, nothing can be computed."""

    def observed(columns, about, arrays):
        about["certificate"] |= {"reward": "observed", "epsilon": epsilon, "met": True}

    def without_reward(columns, about, arrays):
        about["certificate"] |= {"epsilon": epsilon, "met": True}
        for part in [part for part in arrays if part.startswith("reward.")]:
            del arrays[part]

    for change in (observed, without_reward):
        changed(identified, tmp_path / "it", change)
        atlas = ar.load(tmp_path / "it")
        assert not atlas.certificate.met
        assert atlas.certificate.claimed
        assert str(atlas.certificate).startswith("claimed by the file, not verified: ")
        atlas.save(tmp_path / "again")
        assert ar.load(tmp_path / "again").certificate.claimed
        plan = atlas.plan(ar.envs.double_chain(5).reward)
        assert plan.upper - plan.lower > 0.01  # from the counts, whatever is claimed


@pytest.mark.parametrize(
    "source",
    [
        {"labels": 5}, {"labels": [1, 2]}, {"labels": ["x"] * 1000}, {"grid": 5}, {"grid": ["a", 2]}, {"grid": [100, 100]},
        {"grid": [0, 2]}, {"alarms": "x"}, {"alarms": [5]}, {"env": 5}, {"algorithm": []}, {"options": 3}, {"own": 3},
        {"own": {"epsilon": "x"}}, {"merged": [3]}, {"arrows": 7}, {"fingerprint": 1},
    ],
)  # fmt: skip
def test_an_origin_that_would_be_stumbled_over_is_refused(good, tmp_path, source):
    changed(good, tmp_path / "it", lambda columns, about, arrays: about["source"].update(source))
    with pytest.raises(ValueError, match="its origin is damaged"):
        ar.load(tmp_path / "it")


@pytest.mark.parametrize("runs", [5, [5], ["x" * 1000], "text", None])
def test_marks_of_runs_that_would_be_stumbled_over_are_refused(good, tmp_path, runs):
    changed(good, tmp_path / "it", put("about", "runs", runs))
    with pytest.raises(ValueError, match="does not hold a valid atlas"):
        ar.load(tmp_path / "it")


def test_a_small_file_may_not_ask_for_a_long_horizon(good, tmp_path):
    """Once, two kilobytes with a horizon of 2^28 took 14 GB and four minutes."""
    for setting in ({"n_states": 1, "n_actions": 1, "horizon": 2**28}, {"n_states": 2**20, "n_actions": 64, "horizon": 3}):
        with_setting(**setting)(tmp_path / "it", *parts_of(good[0]))
        with little_work(5), pytest.raises(ValueError, match=r"may ask for|valid atlas"):
            ar.load(tmp_path / "it")


def test_assumptions_are_sentences_and_a_format_is_what_it_says(good, tmp_path):
    path, _, _ = good
    for change, says in (
        (lambda about: about["certificate"].update(assumed="letters"), "its certificate is damaged"),
        (lambda about: about.update(format=2), "it says that it has format 2, but has entries of a later one"),
    ):
        columns, about, arrays = parts_of(path)
        change(about)
        container.write(tmp_path / "it", columns, about, arrays)
        with pytest.raises(ValueError, match=says):
            ar.load(tmp_path / "it")

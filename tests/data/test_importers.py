"""Data of others: data frames and Minari datasets give the counts of the episodes that are in them."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

import anyreward as ar
from anyreward.data.counts import COLUMNS

minari = pytest.importorskip("minari")
from minari.data_collector import EpisodeBuffer  # noqa: E402

S, A, H = 4, 2, 3


def setting(**options):
    return ar.Setting(**{"n_states": S, "n_actions": A, "horizon": H, **options})


def counted(states, actions, setting):
    """The counts of episodes, without transfer."""
    counts = ar.Counts(setting, transfer=False)
    counts.add_episodes(states.astype(np.int64), actions.astype(np.int64))
    return counts


@st.composite
def episodes(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    B = draw(st.integers(0, 40))
    states, actions = rng.integers(0, S, (B, H + 1)), rng.integers(0, A, (B, H))
    known = draw(st.booleans())
    if known:
        states[:, 0] = 1
    return states, actions, setting(stationary=draw(st.booleans()), initial_state=1 if known else None), rng


def transitions(states, actions):
    """One row for each transition."""
    B = len(states)
    h = np.tile(np.arange(H), B)
    rows = (h, states[:, :-1].reshape(-1), actions.reshape(-1), states[:, 1:].reshape(-1))
    return pd.DataFrame(dict(zip(("h", "s", "a", "next"), rows, strict=True)))


FORMS = {
    "pandas": lambda frame: frame,
    "floats": lambda frame: frame.astype(float),
    "small": lambda frame: frame.astype("int8"),
    "nullable": lambda frame: frame.astype("Int64"),
    "odd index": lambda frame: frame.set_index(pd.Index(range(len(frame), 0, -1))),
    "dict of lists": lambda frame: {name: frame[name].tolist() for name in frame} if len(frame) else frame,
    "dict of arrays": lambda frame: {name: frame[name].to_numpy() for name in frame},
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "arrow to pandas": lambda frame: pa.Table.from_pandas(frame).to_pandas(),
    "records": lambda frame: frame.to_records(index=False),
    "more columns": lambda frame: frame.assign(reward=0.5, note="x"),
}


@pytest.mark.slow
@settings(max_examples=120, deadline=None, derandomize=True)
@given(episodes(), st.sampled_from(list(FORMS)), st.booleans(), st.booleans())
def test_a_data_frame_gives_the_counts_of_its_episodes(data, form, grouped, starts):
    """Row by row or counted, with starts or without, in any order, of any kind."""
    states, actions, setting, rng = data
    frame = transitions(states, actions)
    if starts:
        nothing = rng.integers(0, 2, (2, len(states)))  # s and a of a start mean nothing
        begin = pd.DataFrame({"h": -1, "s": nothing[0], "a": nothing[1], "next": states[:, 0]})
        frame = pd.concat([begin, frame]).astype("int64")
    if grouped:
        frame = frame.groupby(["h", "s", "a", "next"]).size().reset_index(name="count").astype("int64")
    frame = frame.sample(frac=1, random_state=int(rng.integers(2**31))).reset_index(drop=True)
    counts = ar.Counts.from_dataframe(FORMS[form](frame), setting)
    assert counts == counted(states, actions, setting)
    assert counts.episodes == len(states)
    assert counts.transitions == len(states) * H
    assert not counts.transfer


@pytest.mark.parametrize("stationary", [False, True])
def test_columns_of_counts_are_a_data_frame(stationary):
    """What `columns` gives goes in again, also by way of Arrow, and certifies the same."""
    mdp = ar.envs.garnet(S, A, 3, seed=0)
    atlas = ar.explore(mdp, H, max_episodes=300, stationary=stationary)
    columns = atlas.counts.columns()
    plain = ar.Counts.from_columns(atlas.counts.setting, {name: columns[name] for name in COLUMNS})
    for frame in (columns, pd.DataFrame(columns), pa.table(columns), pa.table(columns).to_pandas()):
        counts = ar.Counts.from_dataframe(frame, atlas.counts.setting)
        assert counts == plain
        assert ar.certify(counts).epsilon == ar.certify(plain).epsilon


def test_a_data_frame_certifies_what_its_episodes_certify_without_transfer():
    mdp, rng = ar.envs.garnet(S, A, 2, seed=3), np.random.default_rng(0)
    states, actions = (
        np.concatenate(part)
        for part in zip(*(mdp.rollout(rng.integers(0, A, (H, S)), seed=rng) for _ in range(500)), strict=True)
    )
    for stationary in (False, True):
        where = setting(stationary=stationary, initial_state=0)
        one = ar.certify(ar.Counts.from_dataframe(transitions(states, actions), where))
        two = ar.certify(counted(states, actions, where))
        assert one.epsilon == two.epsilon
        assert 0 < one.epsilon <= 2 * H


GOOD = {"h": [0, 1, 2], "s": [0, 1, 2], "a": [0, 1, 0], "next": [1, 2, 3]}
BAD = [
    ({}, {}, "no column 'h'"),
    (None, {}, "no column 'h'"),
    (3, {}, "no column 'h'"),
    ([1, 2], {}, "no column 'h'"),
    ("frame", {}, "no column 'h'"),
    ({k: v for k, v in GOOD.items() if k != "next"}, {}, "no column 'next'"),
    (GOOD | {"h": [0, 1, 3]}, {}, "row 2 .* h = 3"),
    (GOOD | {"h": [0, -2, 2]}, {}, "row 1 .* h = -2"),
    (GOOD | {"s": [0.5, 1, 2]}, {}, "'s'.*whole numbers"),
    (GOOD | {"s": [np.nan, 1, 2]}, {}, "'s'.*whole numbers"),
    (GOOD | {"s": [None, 1, 2]}, {}, "'s'.*whole numbers"),
    (GOOD | {"s": [True, False, True]}, {}, "'s'.*whole numbers"),
    (GOOD | {"s": ["0", "1", "2"]}, {}, "'s'.*whole numbers"),
    (GOOD | {"s": np.array([0, 1, 2]) + 0j}, {}, "'s'.*whole numbers"),
    (GOOD | {"s": [2**70, 1, 2]}, {}, "'s'"),
    (GOOD | {"s": [1e300, 1, 2]}, {}, r"\bs\b"),
    (GOOD | {"s": [4, 1, 2]}, {}, "row 0 .*s = 4"),
    (GOOD | {"s": [0, 1, -1]}, {}, "row 2 .*s = -1"),
    (GOOD | {"a": [0, 2, 0]}, {}, "row 1 .*a = 2"),
    (GOOD | {"next": [1, 2, 4]}, {}, "row 2 .*next = 4"),
    (GOOD | {"s": np.array([2**63, 1, 2], np.uint64)}, {}, "s"),
    (GOOD | {"count": [1, 0, 1]}, {}, "count"),
    (GOOD | {"count": [1, -5, 1]}, {}, "count"),
    (GOOD | {"count": [1, 1.5, 1]}, {}, "'count'.*whole numbers"),
    (GOOD | {"count": [2**60, 1, 1]}, {}, "count"),
    (GOOD | {"count": [2**52, 2**52, 2**52]}, {}, "2\\^53"),
    (GOOD | {"s": [0, 1]}, {}, "length"),
    ({k: [[x] for x in v] for k, v in GOOD.items()}, {}, "'h'|length|column"),
    ({k: v[0] for k, v in GOOD.items()}, {}, "'h'|length|column"),
    ({k: v[0] for k, v in GOOD.items()} | {"count": 1}, {}, "'h'|length|column"),
    (GOOD, {"initial_state": 2}, "initial_state"),
    (GOOD, {"absorbing_states": (1,)}, "absorbing"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_data_frames_that_are_refused(number):
    """In one sentence that names the row of the frame, not that of some table made from it."""
    frame, options, says = BAD[number]
    with pytest.raises(ValueError, match=says) as caught:
        ar.Counts.from_dataframe(frame, setting(**options))
    assert type(caught.value) is ValueError
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_counts_that_wrap_around_are_refused():
    """4 times 2^62 and 5 are not 5."""
    frame = {"h": [0] * 5, "s": [0] * 5, "a": [0] * 5, "next": [0] * 5, "count": [2**62] * 4 + [5]}
    with pytest.raises(ValueError, match="count"):
        ar.Counts.from_dataframe(frame, setting(horizon=1))


def test_a_data_frame_is_not_changed():
    frame = {name: np.array(values) for name, values in GOOD.items()}
    before = {name: values.copy() for name, values in frame.items()}
    ar.Counts.from_dataframe(frame, setting(stationary=True))
    assert all((frame[name] == before[name]).all() for name in frame)


@pytest.fixture(autouse=True)
def datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))


def quietly(function, *args, **options):
    """Without what Minari says of fields that are left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return function(*args, **options)


def dataset(runs, observation_space=None, action_space=None, name="made-v0"):
    """A dataset of (observations, actions, terminated) each."""
    buffers = []
    for b, (observations, actions, terminated) in enumerate(runs):
        n = len(actions)
        ends = [i == n - 1 for i in range(n)]
        flags = {"terminations": [e and terminated for e in ends], "truncations": [e and not terminated for e in ends]}
        buffers.append(EpisodeBuffer(id=b, observations=observations, actions=actions, rewards=[0.0] * n, **flags))
    return quietly(
        minari.create_dataset_from_buffers,
        name,
        buffers,
        observation_space=observation_space or spaces.Discrete(S),
        action_space=action_space or spaces.Discrete(A),
        data_format="arrow",
    )


def same_rows(one, two):
    columns = one.columns(), two.columns()
    return all(np.array_equal(columns[0][name], columns[1][name]) for name in COLUMNS)


@pytest.mark.slow
@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("random_start", [False, True])
def test_a_recorded_exploration_of_a_model_is_its_own_counts(stationary, random_start):
    P = ar.envs.garnet(S, A, 2, seed=0).dense()
    mdp = ar.TabularMDP(P, initial=[0.5, 0.5, 0.0, 0.0] if random_start else 0)
    atlas = ar.explore(mdp, H, max_episodes=60, stationary=stationary, record=True)
    made = quietly(atlas.to_minari, "garnet/explored-v0")
    start = None if random_start else 0
    for source in (made, "garnet/explored-v0"):
        counts = ar.Counts.from_minari(source, H, stationary=stationary, initial_state=start)
        assert (counts.setting.n_states, counts.setting.absorbing_states) == (S + 1, (S,))
        assert same_rows(counts, atlas.counts)
        recording = atlas.recording
        assert counts == ar.Counts.from_episodes(recording.states, recording.actions, counts.setting)
        assert counts.paid is not None
        certificate = ar.certify(counts)
        assert certificate.check(counts)
        assert 0 < certificate.epsilon < 2 * H
        assert certificate.epsilon == pytest.approx(atlas.certificate.epsilon, rel=0.3)  # a state more, which is known


@pytest.mark.slow
@pytest.mark.parametrize("terminal", ["state", "end"])
@pytest.mark.parametrize("stationary", [False, True])
def test_a_recorded_exploration_of_an_environment_ends_in_the_extra_state(terminal, stationary):
    """FrozenLake: holes and the goal end episodes. With the end taken for the extra state, all counts are those of the atlas."""
    horizon = 12
    atlas = ar.explore(
        "FrozenLake-v1", horizon, max_episodes=50, record=True, terminal=terminal, stationary=stationary, progress=False
    )
    states, actions, rewards, lengths, terminated = (part.copy() for part in atlas.recording)
    assert 0 < terminated.sum() < len(terminated)
    made = quietly(atlas.to_minari, "frozenlake/explored-v0")
    n = atlas.counts.setting.n_states
    assert made.observation_space == spaces.Discrete(n)
    for b, episode in enumerate(made.iterate_episodes()):
        k = lengths[b]
        np.testing.assert_array_equal(episode.observations, states[b, : k + 1])
        np.testing.assert_array_equal(episode.actions, actions[b, :k])
        np.testing.assert_array_equal(episode.rewards, rewards[b, :k])
        assert [episode.terminations[-1], episode.truncations[-1]] == [terminated[b] == 1, terminated[b] == 0]
        assert not episode.terminations[:-1].any()
        assert not episode.truncations[:-1].any()
    own = ar.Counts.from_episodes(states, actions, ar.Setting(n_states=n, n_actions=4, horizon=horizon, stationary=stationary))
    assert same_rows(own, atlas.counts)
    for b in np.flatnonzero(terminated):
        states[b, lengths[b] :] = n
    counts = ar.Counts.from_minari(made, horizon, stationary=stationary)
    assert counts == ar.Counts.from_episodes(states, actions, counts.setting)
    assert counts.absorbing_states.tolist() == [n]
    assert ar.certify(counts).check(counts)
    plan = ar.Atlas(counts, ar.certify(counts)).plan("next == states - 1")
    assert plan.lower <= plan.value <= plan.upper


def test_only_the_first_steps_count():
    """Up to the horizon: an end right there leads to the extra state, a later one is not seen."""
    made = dataset([([0, 1, 2, 3], [0, 1, 0], True), ([0, 1, 2], [0, 1], True), ([0, 3, 3, 3, 3, 3], [1] * 5, False)])
    with pytest.warns(UserWarning, match=r"4 rows of 2 of its 3 episodes come after step 1, the last of horizon=2") as told:
        counts = ar.Counts.from_minari(made, 2)
    assert [one.filename for one in told] == [__file__]  # once, and where the call is
    expected = np.array([[0, 1, 2], [0, 1, S], [0, 3, 3]]), np.array([[0, 1], [0, 1], [1, 1]])
    assert counts == ar.Counts.from_episodes(*expected, counts.setting)
    with pytest.warns(UserWarning, match=r"2 rows of 1 of its 3 episodes"):
        counts = ar.Counts.from_minari(made, 3)
    expected = np.array([[0, 1, 2, S], [0, 1, S, S], [0, 3, 3, 3]]), np.array([[0, 1, 0], [0, 1, 0], [1, 1, 1]])
    assert counts == ar.Counts.from_episodes(*expected, counts.setting)


def test_an_episode_that_is_cut_off_counts_as_far_as_it_goes():
    """And nothing is invented after it; the others are padded where they terminated."""
    made = dataset([([0, 1, 2, 3], [0, 1, 0], False), ([0, 1], [0], False), ([0, 2], [1], True)])
    counts = ar.Counts.from_minari(made, 3)
    rows = {"h": [0, 0, 0, 1, 2, 1, 2], "s": [0, 0, 0, 1, 2, S, S], "a": [0, 0, 1, 1, 0, 0, 0], "next": [1, 1, S, 2, 3, S, S]}
    starts = {"h": [-1] * 3, "s": [0] * 3, "a": [0] * 3, "next": [0] * 3}
    table = ar.Counts.from_dataframe({name: starts[name] + rows[name] for name in rows}, counts.setting)
    assert same_rows(counts, table)
    assert counts.source["log"] == {"episodes": 3, "terminated": 1, "cut_off": 1, "transitions": 5}
    outcomes = ar.Counts.from_minari(made, 3, terminal="outcome")
    assert outcomes.columns()["next"].max() == S + 2
    with pytest.raises(ValueError, match="terminal is 'state'"):
        ar.Counts.from_minari(made, 3, terminal="state")


def test_all_steps_count_if_they_are_stationary():
    made = dataset([([0, 1, 2, 3], [0, 1, 0], False), ([0, 1, 1, 1], [0, 0, 0], True)])
    counts = ar.Counts.from_minari(made, 1, stationary=True)
    assert counts.transitions == 6
    assert sum(entry[0] for entry in counts.paid._table.values()) == 2


def test_a_part_of_a_dataset_is_counted_as_such():
    made = dataset([([0, b % S, 1], [0, 1], False) for b in range(9)])
    part = made.filter_episodes(lambda episode: episode.id % 2 == 0)
    counts = ar.Counts.from_minari(part, 2)
    states = np.array([[0, b % S, 1] for b in range(0, 9, 2)])
    assert counts == ar.Counts.from_episodes(states, np.tile([0, 1], (5, 1)), counts.setting)


def test_observations_of_other_spaces_are_numbered():
    actions = spaces.Discrete(2, start=5)
    pairs = spaces.MultiDiscrete([2, 3])
    made = dataset([(np.array([[0, 2], [1, 0], [1, 1]]), [6, 5], False)], pairs, actions, "pairs-v0")
    counts = ar.Counts.from_minari(made, 2)
    assert counts == ar.Counts.from_episodes([[2, 3, 4]], [[1, 0]], counts.setting)
    assert counts.setting.n_states == 7
    both = spaces.Dict({"x": spaces.Discrete(2), "y": spaces.Discrete(3)})
    made = dataset([({"x": np.array([0, 1, 1]), "y": np.array([2, 0, 1])}, [6, 5], False)], both, actions, "both-v0")
    assert ar.Counts.from_minari(made, 2) == counts
    box = spaces.Box(0.0, 1.0, (1,), np.float64)
    made = dataset([(np.array([[0.0], [0.6], [0.9]]), [6, 5], True)], box, actions, "box-v0")
    counts = ar.Counts.from_minari(made, 2, bins=[4])
    assert counts == ar.Counts.from_episodes([[0, 2, 4]], [[1, 0]], counts.setting)
    assert counts.setting.n_states == 5
    counts = ar.Counts.from_minari(made, 2, max_states=9)
    assert counts == ar.Counts.from_episodes([[0, 1, 9]], [[1, 0]], counts.setting)
    assert counts.setting.assumed == ("there are at most 9 different observations",)
    assert ar.Counts.from_minari(made, 2, bins=[4]).setting.assumed == (
        "what follows depends on the bins of an observation alone",
    )
    with pytest.raises(ValueError, match="bins="):
        ar.Counts.from_minari(made, 2)
    with pytest.raises(ValueError, match="max_states = 1"):
        ar.Counts.from_minari(made, 2, max_states=1)


def test_the_setting_is_the_one_that_was_asked_for():
    made = dataset([([1, 2], [0], False)])
    counts = ar.Counts.from_minari(made, 1, discount=0.9, stationary=True, initial_state=1, arrival_rewards=True)
    wanted = {"discount": 0.9, "stationary": True, "initial_state": 1, "arrival_rewards": True, "terminal": "end"}
    assert counts.setting == ar.Setting(n_states=S + 1, n_actions=A, horizon=1, **wanted)
    with pytest.raises(ValueError, match="initial_state"):
        ar.Counts.from_minari(made, 1, initial_state=0)


@pytest.mark.parametrize("horizon", [0, -1, 1.5, None, "3"])
def test_horizons_that_are_refused(horizon):
    with pytest.raises(ValueError, match="horizon"):
        ar.Counts.from_minari(dataset([([1, 2], [0], False)]), horizon)


@pytest.mark.parametrize(
    "source", ["nowhere/made-v0", "no id", "", None, 3, pd.DataFrame(GOOD)], ids=lambda source: type(source).__name__
)
def test_what_is_no_dataset_is_refused(source):
    with pytest.raises(ValueError, match="dataset"):
        ar.Counts.from_minari(source, 3)


def test_an_atlas_without_a_recording_has_no_episodes_to_give():
    atlas = ar.explore(ar.envs.garnet(S, A, 2, seed=0), H, max_episodes=5)
    with pytest.raises(ValueError, match="record=True"):
        atlas.to_minari("garnet/none-v0")
    assert "garnet/none-v0" not in minari.list_local_datasets()


def test_a_recording_is_kept_by_its_file_and_by_merging(tmp_path):
    mdp = ar.envs.garnet(S, A, 2, seed=0)
    one, two = (ar.explore(mdp, H, max_episodes=20, record=True, seed=seed) for seed in (0, 1))
    one.save(tmp_path / "one.atlas")
    made = quietly((ar.load(tmp_path / "one.atlas") | two).to_minari, "garnet/merged-v0")
    assert same_rows(ar.Counts.from_minari(made, H, initial_state=0), one.counts + two.counts)


def test_a_dataset_says_where_it_comes_from():
    atlas = ar.explore(ar.envs.garnet(S, A, 2, seed=0), H, max_episodes=5, record=True)
    made = quietly(atlas.to_minari, "garnet/told-v0", author="A. Nonymous")
    assert made.storage.metadata["algorithm_name"].startswith("anyreward rf-")
    assert made.storage.metadata["author"] == {"A. Nonymous"} or "A. Nonymous" in made.storage.metadata["author"]
    with pytest.raises(ValueError, match="already exists"):
        quietly(atlas.to_minari, "garnet/told-v0")


def test_giving_a_dataset_away_is_silent():
    """Minari warns of an author, an environment and more that are not named: nothing that a caller could do about."""
    atlas = ar.explore(ar.envs.garnet(S, A, 2, seed=0), H, max_episodes=5, record=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        atlas.to_minari("garnet/silent-v0")
    assert [str(warning.message) for warning in caught] == []

"""What exploration leaves behind: plans with intervals that hold, files that come back whole, merges that are honest."""

import errno
import os
import stat

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anyreward as ar
from anyreward import _files
from anyreward.atlas import container

from .problems import data, deltas, random_mdp, rows, seeds
from .reference import dense_counts, empirical, q_values

H = 4


def atlas_of(problem, delta=0.1):
    setting, states, actions = problem
    counts = ar.Counts.from_episodes(states, actions, setting)
    return ar.Atlas(counts, ar.certify(counts, delta, "paper"))


def explored(seed=0, episodes=300, mdp=None, **options):
    mdp = random_mdp(4, 2, seed=0) if mdp is None else mdp
    options = {"algorithm": "rf-ucrl", "bounds": "paper", **options}
    return ar.explore(mdp, H, max_episodes=episodes, seed=seed, **options)


@given(data(), seeds)
def test_a_plan_is_optimal_in_the_empirical_model(problem, seed):
    setting = problem[0]
    S, A, horizon = setting.n_states, setting.n_actions, setting.horizon
    reward = np.random.default_rng(seed).random((horizon, S, A))
    plan = atlas_of(problem).plan(reward)
    initial, p_hat = empirical(*dense_counts(*problem[1:], setting), setting)
    best = q_values(p_hat, None, reward, setting.discount)[1][0] @ initial
    of_policy = q_values(p_hat, plan.policy, reward, setting.discount)[1][0] @ initial
    assert plan.value == pytest.approx(best, abs=1e-12)
    assert of_policy == pytest.approx(best, abs=1e-12)


@given(data(), st.booleans(), seeds)
def test_the_value_of_any_policy(problem, stochastic, seed):
    setting, rng = problem[0], np.random.default_rng(seed)
    S, A, horizon = setting.n_states, setting.n_actions, setting.horizon
    reward = rng.random((horizon, S, A))
    policy = rng.dirichlet(np.ones(A), (horizon, S)) if stochastic else rng.integers(0, A, (horizon, S))
    atlas = atlas_of(problem)
    interval = atlas.evaluate(policy, reward)
    initial, p_hat = empirical(*dense_counts(*problem[1:], setting), setting)
    assert interval.value == pytest.approx(q_values(p_hat, policy, reward, setting.discount)[1][0] @ initial, abs=1e-12)
    assert interval.lower <= interval.value <= interval.upper <= atlas.plan(reward).upper
    assert interval.value <= atlas.plan(reward).value + 1e-12


@given(data(), deltas, seeds)
def test_intervals_are_within_the_error_bound_and_what_is_possible(problem, delta, seed):
    setting, rng = problem[0], np.random.default_rng(seed)
    reward = rng.random((setting.horizon, setting.n_states, setting.n_actions))
    atlas = atlas_of(problem, delta)
    plan = atlas.plan(reward)
    gammas = setting.discount ** np.arange(setting.horizon)
    least, most = gammas @ reward.min(axis=(1, 2)), gammas @ reward.max(axis=(1, 2))
    assert plan.lower >= max(least, plan.value - atlas.error_bound) - 1e-10
    assert plan.upper <= min(most, plan.value + atlas.error_bound) + 1e-10
    assert plan.lower <= plan.value <= plan.upper
    assert plan.regret_bound == plan.upper - plan.lower


def test_the_truth_lies_in_the_interval():
    """delta = 1e-9: a miss would be a bug. The chain's bound is far from trivial here."""
    mdp = ar.envs.double_chain(length=5)
    atlas = ar.explore(mdp, H, 1.0, 1e-9, algorithm="rf-ucrl", bounds="paper", stationary=True, replan="geometric")
    rng = np.random.default_rng(0)
    for reward in [mdp.reward, *rng.random((20, 5, 2)), *(rng.random((20, 5, 2)) < 0.3)]:
        plan = atlas.plan(reward)
        optimum = ar.backward_induction(mdp, reward, H).V[0] @ mdp.initial
        value = ar.evaluate_policy(mdp, plan.policy, reward, H).V[0] @ mdp.initial
        assert plan.lower <= value <= optimum <= plan.upper
        assert plan.regret_bound <= 1.0 + 1e-9


def test_rewards_of_all_shapes_give_the_same_plan():
    atlas, reward = explored(), np.random.default_rng(0).random(4)
    by_pair = np.repeat(reward[:, None], 2, axis=1)
    plans = [atlas.plan(r) for r in (reward, by_pair, np.stack([by_pair] * H), lambda h, s, a: reward[s])]
    assert len({(plan.value, plan.lower, plan.upper, plan.policy.tobytes()) for plan in plans}) == 1


def test_rewards_in_other_units():
    """r' = 10 r - 3 has the same plan; values move by -3 H and stretch by 10, and so does the error bound."""
    atlas, reward = explored(episodes=5_000), np.random.default_rng(0).random((4, 2))
    plain, other = atlas.plan(reward), atlas.plan(10 * reward - 3, reward_range=(-3, 7))
    np.testing.assert_array_equal(plain.policy, other.policy)
    for name in ("value", "lower", "upper"):
        assert getattr(other, name) == pytest.approx(10 * getattr(plain, name) - 3 * H, abs=1e-9)


@pytest.mark.parametrize("reward_range", [(1.0, 0.0), (0.5, 0.5), (float("nan"), 1.0)])
def test_a_range_goes_from_low_to_high(reward_range):
    with pytest.raises(ValueError, match="reward_range is"):
        explored().plan(np.full(4, 0.5), reward_range=reward_range)


@pytest.mark.parametrize(
    ("reward", "names"),
    [
        (np.ones(3), r"reward has shape \(3,\)"),
        (np.ones((2, 4)), r"reward has shape \(2, 4\)"),
        (np.ones((H + 1, 4, 2)), r"reward has shape \(5, 4, 2\)"),
        ([0, 0, 2, 0], r"reward\[2\] is 2, outside \[0, 1\]"),
        ([0, 0, float("nan"), 0], r"reward\[2\] is nan"),
        (None, "reward has shape"),
    ],
)
def test_rewards_that_are_refused(reward, names):
    atlas = explored()
    digest = atlas.counts.digest()
    for function in (atlas.plan, lambda r: atlas.evaluate(np.zeros((H, 4), int), r)):
        with pytest.raises(ValueError, match=names):
            function(reward)
    assert atlas.counts.digest() == digest


@pytest.mark.parametrize("reward", [0.1, 0.3, 0.7, 1 / 3])
def test_rounding_does_not_push_a_value_out_of_its_interval(reward):
    """With one reward everywhere the interval is a point, and sums of a thousand terms are rounded in several ways."""
    horizon = 1_000
    counts = ar.Counts(ar.Setting(n_states=1, n_actions=1, horizon=horizon, initial_state=0))
    plan = ar.Atlas(counts, ar.certify(counts, bounds="paper")).plan([reward])
    assert plan.lower <= plan.value <= plan.upper
    assert plan.lower <= horizon * reward <= plan.upper


def test_a_policy_that_sums_to_one_but_for_rounding():
    """A law that is off by 1e-9 is taken; its value may not leave what any law could earn."""
    policy = np.full((H, 4, 2), 0.5) + np.array([9e-10, 0.0])
    interval = explored().evaluate(policy, np.ones(4))
    assert interval.lower <= interval.value <= interval.upper


def test_plans_without_data_are_for_the_uniform_model():
    """p_hat = 1/S where nothing was seen: from anywhere, half of the next step's reward of 1 in one of two states."""
    counts = ar.Counts(ar.Setting(n_states=2, n_actions=1, horizon=2, initial_state=0))
    plan = ar.Atlas(counts, ar.certify(counts, bounds="paper")).plan([0.0, 1.0])
    assert plan.value == pytest.approx(0.5)


# --- files ---


@pytest.mark.parametrize("random_start", [False, True])
@pytest.mark.parametrize("stationary", [False, True])
def test_a_file_gives_back_the_same_atlas(tmp_path, random_start, stationary):
    mdp = random_mdp(4, 2, seed=0, random_start=random_start)
    atlas = explored(mdp=mdp, stationary=stationary, discount=0.9, replan="every")
    atlas.save(tmp_path / "it.atlas")
    again = ar.load(tmp_path / "it.atlas")
    assert again == atlas
    assert again.certificate.check(again.counts)
    for name in ("value", "lower", "upper"):
        assert getattr(again.plan(mdp.reward), name) == pytest.approx(getattr(atlas.plan(mdp.reward), name), rel=1e-12)
    assert os.listdir(tmp_path) == ["it.atlas"]


def test_an_empty_atlas_can_be_kept(tmp_path):
    atlas = explored(episodes=0)
    atlas.save(tmp_path / "it.atlas")
    assert ar.load(tmp_path / "it.atlas") == atlas


def test_numpy_numbers_as_arguments_do_not_spoil_the_file(tmp_path):
    """A seed out of np.arange, a target out of np.linspace: what was explored for hours has to be writable."""
    atlas = ar.explore(
        random_mdp(4, 2, seed=0), np.int64(H), np.float32(50.0), np.float64(0.1), seed=np.int64(3), clip=np.bool_(True)
    )
    atlas.save(tmp_path / "it.atlas")
    assert ar.load(tmp_path / "it.atlas").source["seed"] == 3


def test_an_older_file_is_replaced(tmp_path):
    path = tmp_path / "it.atlas"
    explored(seed=0).save(path)
    newer = explored(seed=1)
    newer.save(str(path))
    assert ar.load(str(path)) == newer


def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    path = tmp_path / "it.atlas"
    older = explored(seed=0)
    older.save(path)

    class Half:
        """A file on a disk that is full after ten bytes."""

        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def __getattr__(self, name):
            return getattr(self.file, name)

        def write(self, content):
            self.file.write(bytes(content[:10]))
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_files, "open", lambda *arguments, **options: Half(open(*arguments, **options)), raising=False)  # noqa: SIM115
    with pytest.raises(
        ValueError, match=r"it\.atlas cannot be written: No space left on device\. What was there before is untouched"
    ):
        explored(seed=1).save(path)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["it.atlas"]
    assert ar.load(path) == older


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(ValueError, match="there is no folder"):
        explored().save(tmp_path / "nowhere" / "it.atlas")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="modes of files are a POSIX matter")
def test_a_file_is_as_readable_as_any_other(tmp_path):
    """A temporary file is private to its owner; the atlas that it becomes must not be."""
    explored().save(tmp_path / "it.atlas")
    (tmp_path / "other").write_bytes(b"")
    modes = [stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in ("it.atlas", "other")]
    assert oct(modes[0]) == oct(modes[1])


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The bytes of an atlas file, and the atlas."""
    path = tmp_path_factory.mktemp("atlas") / "it.atlas"
    mdp = ar.envs.double_chain(length=3)  # small enough for a bound that is far from trivial
    atlas = explored(episodes=20_000, mdp=mdp, epsilon=0.5, stationary=True, replan="geometric", growth=1.5)
    atlas.save(path)
    return path.read_bytes(), atlas


def test_a_file_that_was_cut_short_is_refused(tmp_path, written):
    path = tmp_path / "it.atlas"
    whole = written[0]
    for size in [*range(12), *range(12, len(whole) - 12, 97), *range(len(whole) - 12, len(whole))]:
        path.write_bytes(whole[:size])
        sentence = r"it\.atlas is not an atlas" if size < 4 else r"it\.atlas was cut short: restore it from a copy"
        with pytest.raises(ValueError, match=sentence):
            ar.load(path)


def test_a_byte_that_changed_is_noticed(tmp_path, written):
    """Wherever the damage is, the file is refused with a sentence."""
    whole, _ = written
    path = tmp_path / "it.atlas"
    for at in range(0, len(whole), 2):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])  # another digit, another letter
        with pytest.raises(ValueError, match=r"it\.atlas (is|was) "):
            ar.load(path)


def rewritten(written, path, change_about=None, change_table=None):
    """The file with other metadata or another table, well formed and with the right sum."""
    path.write_bytes(written[0])
    columns, about, _ = container.read(path)
    table = pa.table(columns)
    if change_about:
        change_about(about)
    if change_table:
        table = change_table(table)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    container.write(path, columns, about, {})
    return path


def column(name, change):
    def changed(table):
        i = table.column_names.index(name)
        values = table.column(name).to_numpy().copy()
        return table.set_column(i, table.schema.field(i), pa.array(change(values), table.schema.field(i).type))

    return changed


@pytest.mark.parametrize(
    "change",
    [
        column("count", lambda n: n + 1),
        column("count", lambda n: n * np.where(np.arange(len(n)) == 3, 1000, 1)),
        column("count", lambda n: -n),
        column("next", lambda s: s[::-1]),
        column("s", lambda s: s + 100),
        column("h", lambda h: h + 1),
        lambda table: table.slice(1),
        lambda table: table.drop_columns(["next"]),
    ],
)
def test_a_file_whose_counts_were_changed_is_refused(tmp_path, written, change):
    path = rewritten(written, tmp_path / "it.atlas", change_table=change)
    with pytest.raises(ValueError, match=r"it\.atlas does not hold a valid atlas: "):
        ar.load(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epsilon", 0.001),
        ("epsilon", None),
        ("delta", 1e-9),
        ("delta", 5),
        ("met", True),
        ("episodes", 10**6),
        ("bounds", "loose"),
        ("digest", "0"),
        ("reward_range", [0]),
        ("reward_range", [-1, 1]),
        ("setting", {}),
        ("setting", None),
        ("unheard", 1),
    ],
)
def test_a_file_whose_certificate_was_changed_is_refused(tmp_path, written, field, value):
    """The certificate follows from the counts; one that does not is not shown."""
    path = rewritten(written, tmp_path / "it.atlas", lambda about: about["certificate"].update({field: value}))
    with pytest.raises(ValueError, match=r"it\.atlas does not hold a valid atlas: "):
        ar.load(path)


@pytest.mark.parametrize("key", ["certificate", "history", "source", "runs", "format"])
@pytest.mark.parametrize("value", [None, 7, "missing"])
def test_a_file_with_damaged_metadata_is_refused(tmp_path, written, key, value):
    def damage(about):
        del about[key]
        if value != "missing":
            about[key] = value

    path = rewritten(written, tmp_path / "it.atlas", damage)
    with pytest.raises(ValueError, match=r"it\.atlas does not hold a valid atlas: "):
        ar.load(path)


def test_a_file_that_is_rewritten_as_it_was_is_taken(tmp_path, written):
    """So that what is refused above is refused for what was changed."""
    assert ar.load(rewritten(written, tmp_path / "it.atlas")) == written[1]


def test_a_newer_format_is_named(tmp_path, written):
    path = rewritten(written, tmp_path / "it.atlas", lambda about: about.update(format=999))
    with pytest.raises(ValueError, match=r"it\.atlas .* has format 999; this anyreward reads up to 3: install a newer one"):
        ar.load(path)


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "other.parquet"
    with pytest.raises(ValueError, match="is not there"):
        ar.load(path)
    with pytest.raises(ValueError, match="it is a folder"):
        ar.load(tmp_path)
    for content in (b"", b"h,s,a,next,count\n", np.random.default_rng(0).bytes(1_000)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is not an atlas: it was not written by anyreward"):
            ar.load(path)
    for content in (b"PAR1", b"PAR1PAR1", b"PAR1 and something"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="was cut short"):
            ar.load(path)
    pq.write_table(pa.table({"h": [0], "s": [0], "a": [0], "next": [0], "count": [1]}), path)
    with pytest.raises(ValueError, match="is a Parquet file but not an atlas"):
        ar.load(path)


# --- merging ---


def test_merged_counts_are_certified_afresh():
    one, other = explored(seed=0), explored(seed=1, episodes=500)
    both = one | other
    assert rows(both.counts) == rows(one.counts + other.counts)
    assert both.episodes == 800
    assert both.certificate.check(both.counts)
    assert both.certificate.epsilon == ar.certify(one.counts + other.counts, 0.1, "paper").epsilon
    assert rows((other | one).counts) == rows(both.counts)
    assert (other | one).error_bound == pytest.approx(both.error_bound, rel=1e-12)


def test_more_runs_certify_more():
    runs = [
        explored(seed=seed, episodes=20_000, mdp=ar.envs.double_chain(3), stationary=True, replan="geometric")
        for seed in range(3)
    ]
    merged = runs[0] | runs[1] | runs[2]
    assert merged.error_bound < min(run.error_bound for run in runs)
    assert rows((runs[0] | (runs[1] | runs[2])).counts) == rows(merged.counts)


def test_the_target_of_a_merge_is_the_common_one():
    one, other = (explored(seed=seed, epsilon=5.0) for seed in (0, 1))
    assert (one | other).certificate.target == 5.0
    assert (one | explored(seed=1, epsilon=4.0)).certificate.target is None


@pytest.mark.parametrize("through_a_file", [False, True])
def test_a_run_is_not_counted_twice(tmp_path, through_a_file):
    one, two, three = (explored(seed=seed) for seed in range(3))
    mixed = two | three
    if through_a_file:
        for name, atlas in (("one", one), ("mixed", mixed)):
            atlas.save(tmp_path / name)
        one, mixed = ar.load(tmp_path / "one"), ar.load(tmp_path / "mixed")
    for left, right in ((one, one), (one | two, mixed), (mixed, three), (one | mixed, one)):
        with pytest.raises(ValueError, match="share"):
            left | right


def test_counts_are_not_counted_twice_under_another_certificate():
    """An atlas made by hand from the counts of an exploration holds the same episodes."""
    atlas = explored()
    by_hand = ar.Atlas(atlas.counts, ar.certify(atlas.counts, 0.1, "paper"))
    for left, right in ((atlas, by_hand), (by_hand, atlas), (explored(seed=1) | atlas, by_hand)):
        with pytest.raises(ValueError, match="share"):
            left | right


def test_the_beginning_of_a_run_is_part_of_it():
    """The same seed plays the same first episodes: 300 of the 500 would be counted twice."""
    one, longer = explored(seed=0, episodes=300), explored(seed=0, episodes=500)
    with pytest.raises(ValueError, match="share"):
        one | longer


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"delta": 0.2}, "delta 0.1 and 0.2"),
        ({"clip": False}, "options"),
        ({"stationary": True}, "different settings"),
        ({"discount": 0.5}, "different settings"),
        ({"mdp": random_mdp(3, 2, seed=0)}, "different settings"),
    ],
)
def test_what_does_not_fit_is_not_merged(options, names):
    with pytest.raises(ValueError, match=names):
        explored(seed=0) | explored(seed=1, **options)


def test_only_atlases_are_merged():
    with pytest.raises(TypeError):
        explored() | {"counts": 1}

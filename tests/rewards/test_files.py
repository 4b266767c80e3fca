"""Rewards from files: what was written is what is read, and any bytes give a reward or one sentence."""

import io
import itertools
import json
import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anyreward as ar
from anyreward.data.numbering import Numbering
from anyreward.rewards.files import read_reward
from anyreward.rewards.forms import ArrivalReward, as_reward

S, A, H = 4, 2, 3
SETTING = ar.Setting(n_states=S, n_actions=A, horizon=H, initial_state=0)
SIZES = {"h": H, "s": S, "a": A, "next": S}
ENDINGS = (".csv", ".json", ".npy")
SUBSETS = [names for n in range(5) for names in itertools.combinations(SIZES, n)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rewards")


def reading(folder, ending, content):
    """What a file of these bytes gives, as (reward, None) or (None, sentence); anything else is an error."""
    path = folder / f"reward{ending}"
    path.write_bytes(content)
    problem = None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            r = as_reward(read_reward(str(path), SETTING), S, A, H, (0.0, 1.0))
        except ValueError as raised:
            problem = raised
    if problem is None:
        assert isinstance(r, ArrivalReward) or r.shape == (H, S, A)
        return r, None
    assert type(problem) is ValueError
    message = str(problem).replace(str(folder), "")
    assert "\n" not in message
    assert message.endswith(".")
    assert len(message) < 1_000
    return None, message


def cells(R):
    """A reward of any form as (H, S, A, S)."""
    R = as_reward(R, S, A, H)
    if not isinstance(R, ArrivalReward):
        return np.repeat(R[..., None], S, axis=3)
    pairs, successors = (x.reshape(-1) for x in np.indices((S * A, S)))
    return np.stack([R.at(h, pairs, successors).reshape(S, A, S) for h in range(H)])


def npy(array, **options):
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def npy_with_header(text, data=b"", version=(1, 0)):
    header = text.encode("latin1") + b"\n"
    return b"\x93NUMPY" + bytes(version) + len(header).to_bytes(2 if version == (1, 0) else 4, "little") + header + data


def csv(columns):
    rows = zip(*(map(repr, values) for values in columns.values()), strict=True)
    return ("\n".join([",".join(columns), *(",".join(row) for row in rows)]) + "\n").encode()


@st.composite
def tables(draw):
    """Columns of a valid table, in any order, and the reward that they mean, (H, S, A, S)."""
    names = draw(st.sampled_from(SUBSETS))
    keys = list(itertools.product(*(range(SIZES[name]) for name in names)))
    rows = draw(st.lists(st.sampled_from(keys), unique=True, max_size=12))
    pay = draw(st.lists(st.floats(0, 1), min_size=len(rows), max_size=len(rows)))
    full = np.zeros((H, S, A, S))
    for row, x in zip(rows, pay, strict=True):
        place = dict(zip(names, row, strict=True))
        full[tuple(place.get(name, slice(None)) for name in SIZES)] = x
    columns = {name: [row[k] for row in rows] for k, name in enumerate(names)} | {"reward": pay}
    order = draw(st.permutations(list(columns)))
    return {name: columns[name] for name in order}, full


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True)
@given(tables(), st.sampled_from(["csv", "columns", "records"]))
def test_a_table_is_read_as_it_was_written(folder, table, form):
    """Any subset of h, s, a and next; what is no column does not matter, what has no line pays 0."""
    columns, full = table
    records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    content = csv(columns) if form == "csv" else json.dumps(columns if form == "columns" or not records else records).encode()
    r, problem = reading(folder, ".csv" if form == "csv" else ".json", content)
    assert problem is None
    assert isinstance(r, ArrivalReward) is ("next" in columns)
    np.testing.assert_array_equal(cells(r), full)


@pytest.mark.parametrize("shape", [(S,), (S, A), (H, S, A), (S, A, S), (H, S, A, S)])
@pytest.mark.parametrize("kind", ["f8", ">f8", "f4", "f2", "i8", "u1", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_is_read_as_it_was_written(folder, shape, kind, order):
    array = np.asarray(np.random.default_rng(0).integers(0, 3, shape) / 2, order=order)
    array = (array if "f" in kind else array // 1).astype(kind)
    for ending, content in ((".npy", npy(array)), (".json", json.dumps(array.tolist()).encode())):
        r, problem = reading(folder, ending, content)
        assert problem is None
        np.testing.assert_array_equal(cells(r), cells(array.astype(float)))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_npy_is_read(folder, version):
    stream, array = io.BytesIO(), np.linspace(0, 1, S)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that NumPy rarely writes them
        np.lib.format.write_array(stream, array, version)
    r, problem = reading(folder, ".npy", stream.getvalue())
    assert problem is None
    np.testing.assert_array_equal(cells(r), cells(array))


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfs,reward\r\n1,0.5\r\n",
        b" s , reward \n 1 , 0.5 \n",
        b"\n\ns,reward\n\n1,0.5\n\n",
        b's,"reward"\n"1","0.5"',
        b"reward,s\n.5,1.0\n",
    ],
    ids=["byte order mark", "blanks", "empty lines", "quotes", "numbers otherwise"],
)
def test_csv_as_spreadsheets_write_it(folder, content):
    r, problem = reading(folder, ".csv", content)
    assert problem is None
    np.testing.assert_array_equal(cells(r), cells([0.0, 0.5, 0.0, 0.0]))


def test_the_ending_may_be_in_capitals(folder):
    (folder / "REWARD.CSV").write_text("s,reward\n1,1\n")
    np.testing.assert_array_equal(cells(read_reward(str(folder / "REWARD.CSV"), SETTING)), cells([0.0, 1.0, 0.0, 0.0]))


@pytest.mark.parametrize(
    "source",
    [
        "state == 30",
        "0.5 * (s == 1) + .25",
        "",
        ".",
        "a.csv == 1",
        "reward.txt",
        "x.npz",
        "csv",
        "\x00",
        "\ud800",
        "s" * 10**5,
        "1/2.json.5",
    ],
)
def test_what_names_no_reward_file_is_returned_unchanged(source):
    assert read_reward(source, SETTING) is source


@pytest.mark.parametrize("ending", ENDINGS)
def test_files_that_cannot_be_opened(ending, tmp_path):
    (tmp_path / f"folder{ending}").mkdir()
    for name, says in (
        ("nowhere", "does not exist"),
        ("folder", "cannot be read"),
        ("x" * 300, "cannot be read"),
        ("\x00", "cannot be read"),
        ("\ud800", "cannot be read"),
    ):
        with pytest.raises(ValueError, match=says) as caught:
            read_reward(str(tmp_path / f"{name}{ending}"), SETTING)
        assert type(caught.value) is ValueError
        assert "\n" not in str(caught.value)


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_pickle_is_refused_and_never_opened(ending, folder, tmp_path):
    trap = Trap(str(tmp_path / "sprung"))
    array = np.empty(S, object)
    array[:] = [trap] * S
    header = "{'descr': '|O', 'fortran_order': False, 'shape': (4,), }"
    for content in (npy(array, allow_pickle=True), pickle.dumps(trap), npy_with_header(header, pickle.dumps(array))):
        r, problem = reading(folder, ending, content)
        assert r is None
        assert "reward" in problem
    assert not (tmp_path / "sprung").exists()


HUGE = [
    "(1000000000000,)",
    f"({'9' * 30},)",
    f"({'9' * 300}, {'9' * 300})",
    f"({'9' * 400},)",
    "(2147483648, 2147483648, 4)",
    "(4294967296, 4294967296)",
]


@pytest.mark.parametrize("shape", HUGE, ids=lambda shape: shape[:12])
@pytest.mark.parametrize("kind", ["<f8", "|b1", "<f4"])
def test_a_shape_that_the_file_cannot_hold_is_refused_without_room_for_it(folder, shape, kind):
    content = npy_with_header(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}", bytes(64))
    tracemalloc.start()
    r, problem = reading(folder, ".npy", content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert r is None
    assert "not a readable array" in problem
    assert peak < 10**6


HEADERS = [
    "{'descr': '<f8', 'fortran_order': False, 'shape': (-4,)}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (4.0,)}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': ('4',)}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': 4}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 1000000000000000000)}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 1000000000000000000, 1000000000000000000)}",
    "{'descr': '<f8', 'fortran_order': 3, 'shape': (4,)}",
    "{'descr': '<f8', 'shape': (4,)}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (4,), 'more': 1}",
    "{'descr': '<c16', 'fortran_order': False, 'shape': (4,)}",
    "{'descr': '<M8[s]', 'fortran_order': False, 'shape': (4,)}",
    "{'descr': '<U1', 'fortran_order': False, 'shape': (4,)}",
    "{'descr': '|V8', 'fortran_order': False, 'shape': (4,)}",
    "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (4,)}",
    "{'descr': ('<f8', (2,)), 'fortran_order': False, 'shape': (4,)}",
    "{'descr': 'nonsense', 'fortran_order': False, 'shape': (4,)}",
    "{'descr': None, 'fortran_order': False, 'shape': (4,)}",
    "{'descr': '|O', 'fortran_order': False, 'shape': (0,)}",
    "__import__('os').system('true')",
    "(" * 500,
    "-" * 9_000 + "1",
    " " * 20_000,
    "",
]


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0), (9, 9)])
@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header[:70])
def test_headers_that_are_refused(folder, header, version):
    r, problem = reading(folder, ".npy", npy_with_header(header, bytes(32), version))
    assert r is None
    assert "not a readable array" in problem or "has shape" in problem


@pytest.mark.parametrize("bits", [0x7F800001, 0x7FC00000, 0x7F800000, 0xFF800000])
def test_nan_and_infinity_of_every_width_get_the_same_sentence(folder, bits):
    """Signalling ones too, which the processor complains about when they are widened."""
    array = np.array([0, 0, bits, 0], np.uint32).view(np.float32)
    assert "has to be a finite number" in reading(folder, ".npy", npy(array))[1]


def test_numbers_beyond_a_double_are_refused(folder):
    if np.finfo(np.longdouble).max == np.finfo(float).max:
        pytest.skip("there are none on this machine")
    array = np.array(["1e4000", "0", "0", "0"]).astype(np.longdouble)
    assert reading(folder, ".npy", npy(array))[0] is None


@pytest.mark.parametrize("ending", ENDINGS)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(content=st.binary(max_size=200))
def test_any_bytes_give_a_reward_or_one_sentence(folder, ending, content):
    reading(folder, ending, content)


VALID = {
    ".npy": [npy(np.linspace(0, 1, S)), npy(np.zeros((S, A), "f4")), npy(np.ones((H, S, A), "?"))],
    ".json": [
        b'{"s": [0, 1], "a": [1, 0], "reward": [0.5, 1e0]}',
        b'[{"next": 1, "reward": 0.5}]',
        b"[[0, 1], [0.5, 0], [0, 0], [1, 1]]",
    ],
    ".csv": [b"h,s,a,next,reward\n0,1,1,2,0.5\n2,3,0,0,1\n", b"s,reward\n0,0.25\n3,1e-3\n"],
}


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_damaged_file_gives_a_reward_or_one_sentence(folder, ending, data):
    content = data.draw(st.sampled_from(VALID[ending]))
    for _ in range(data.draw(st.integers(1, 3))):
        i = data.draw(st.integers(0, len(content)))
        j = data.draw(st.integers(i, min(len(content), i + 4)))
        piece = st.one_of(
            st.binary(max_size=3),
            st.sampled_from([b"9" * 30, b"-", b"nan", b"null", b'"', b"\n", b",", b"[", b"]", b"1e400", b"\r"]),
        )
        content = content[:i] + data.draw(piece) + content[j:]
    reading(folder, ending, content)


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=3),
        st.sampled_from(["h", "s", "reward", "1", "nan"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["h", "s", "a", "next", "reward", "count", ""]), inner, max_size=4),
    ),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True)
@given(JSON)
def test_any_json_gives_a_reward_or_one_sentence(folder, value):
    reading(folder, ".json", json.dumps(value).encode())


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.lists(
        st.lists(
            st.one_of(
                st.sampled_from(["h", "s", "a", "next", "reward", "0", "1", "9", "-1", "0.5", "nan", "inf", "1e400", ""]),
                st.text(max_size=3),
            ),
            max_size=5,
        ),
        max_size=5,
    )
)
def test_any_lines_give_a_reward_or_one_sentence(folder, rows):
    reading(folder, ".csv", "\n".join(",".join(row) for row in rows).encode("utf-8", "surrogatepass"))


WRONG = [
    (".csv", b"", "empty"),
    (".csv", b"\n\n", "empty"),
    (".csv", b"s,a\n0,0\n", "has no column 'reward'"),
    (".csv", b"s,reward,colour\n0,1,2\n", "'colour'"),
    (".csv", b"s;reward\n0;1\n", "'s;reward'"),
    (".csv", b"s,reward,s\n0,1,0\n", "twice"),
    (".csv", b"s,reward\n0,1\n0,0.5\n", "twice"),
    (".csv", b"s,reward\n0,1\n0.0,0.5\n", "twice"),
    (".csv", b"next,s,reward\n0,1,1\n0,1,0.5\n", "twice"),
    (".csv", b"reward\n1\n1\n", "twice"),
    (".csv", b"s,reward\n0,1\n1\n", "line 3"),
    (".csv", b"s,reward\n0,1\n1,2,3\n", "line 3"),
    (".csv", b"s,reward\n0,1\n4,1\n", "entry 1: s is 4"),
    (".csv", b"s,reward\n-1,1\n", "s is -1"),
    (".csv", b"h,reward\n3,1\n", "h is 3"),
    (".csv", b"a,reward\n2,1\n", "a is 2"),
    (".csv", b"next,reward\n4,1\n", "next is 4"),
    (".csv", b"s,reward\n0.5,1\n", "s is 0.5"),
    (".csv", b"s,reward\nnan,1\n", "s is nan"),
    (".csv", b"s,reward\n0,\n", "reward is ''"),
    (".csv", b"s,reward\n0,lots\n", "reward is 'lots'"),
    (".csv", b"s,reward\n0,nan\n", "finite"),
    (".csv", b"next,reward\n0,nan\n", "finite"),
    (".csv", b"s,reward\n0,1.5\n", "outside"),
    (".csv", b"next,reward\n0,1.5\n", "outside"),
    (".csv", b"\xff\xfes\x00", "CSV text"),
    (".csv", b's,reward\n"0,1\n', "CSV text"),
    (".json", b"", "JSON"),
    (".json", b"[1,", "JSON"),
    (".json", b"[" * 100_000, "JSON"),
    (".json", b'{"s":' * 50_000, "JSON"),
    (".json", b"[" + b"9" * 10_000 + b"]", "JSON"),
    (".json", b"\xff\xfe\xff", "JSON"),
    (".json", b"[[1, 0], [1]]", "equal length"),
    (".json", b"[[1, 0], 1, 1, 1]", "equal length"),
    (".json", b'[0, 1, "x", 0]', "lists of numbers"),
    (".json", b"[" + b"9" * 400 + b", 0, 0, 0]", "lists of numbers"),
    (".json", b"[0, 1, 0]", r"shape \(3,\)"),
    (".json", b"[]", r"shape \(0,\)"),
    (".json", b"1", r"shape \(\)"),
    (".json", b"[0, NaN, 0, 0]", "finite"),
    (".json", b"[0, null, 0, 0]", "finite"),
    (".json", b"[0, 1e999, 0, 0]", "finite"),
    (".json", b'{"s": [0, 1], "reward": [1]}', "equal length"),
    (".json", b'{"s": 0, "reward": 1}', "lists"),
    (".json", b'{"s": "01", "reward": [1, 1]}', "lists"),
    (".json", b'{"s": [[0]], "reward": [1]}', "has to be a number"),
    (".json", b'{"s": [true], "reward": [1]}', "has to be a number"),
    (".json", b'{"s": [null], "reward": [1]}', "has to be a number"),
    (".json", b'[{"s": 0, "reward": 1}, {"s": 1}]', "entry 1"),
    (".json", b'[{"s": 0, "reward": 1}, 5]', "nor a table"),
    (".npy", b"", "readable array"),
    (".npy", npy(np.zeros(S))[:-1], "readable array"),
    (".npy", npy(np.zeros(S, complex)), "readable array"),
    (".npy", npy(np.array(["a"] * S)), "readable array"),
    (".npy", npy(np.zeros(S + 1)), "shape"),
    (".npy", npy(np.full(S, np.nan)), "finite"),
    (".npy", npy(np.full(S, 2.0)), "outside"),
]


@pytest.mark.parametrize(("ending", "content", "says"), WRONG, ids=lambda value: repr(value)[:40])
def test_what_is_wrong_with_a_file_is_said(folder, ending, content, says):
    r, problem = reading(folder, ending, content)
    assert r is None
    with pytest.raises(ValueError, match=says):
        raise ValueError(problem)


def test_lines_are_counted_as_an_editor_counts_them(folder):
    assert "line 4" in reading(folder, ".csv", b"s,reward\n\n\n1,0.5,3\n")[1]


@pytest.mark.parametrize("ending", [".csv", ".json"])
def test_a_sentence_stays_short_whatever_a_column_is_called(folder, ending):
    name = "x" * 50_000
    reading(
        folder, ending, f"{name},reward\n1,1\n".encode() if ending == ".csv" else json.dumps({name: [1], "reward": [1]}).encode()
    )


def test_a_table_that_spreads_to_more_than_can_be_is_refused_without_room_for_it(tmp_path):
    """There is no `s`, so that each line means as many entries as there are states: 2e13 of them here."""
    path = tmp_path / "reward.csv"
    path.write_text("next,reward\n" + "".join(f"{s},0.5\n" for s in range(20_000)))
    with pytest.raises(ValueError, match=r"reward\.csv"):
        read_reward(str(path), ar.Setting(n_states=10**9, n_actions=1, horizon=1))


ATLAS = ar.explore(ar.envs.garnet(S, A, 2, seed=1), H, max_episodes=200, arrival_rewards=True)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(tables())
def test_a_plan_for_a_file_is_the_plan_for_its_array(folder, table):
    """Read beforehand or named: policy and interval are those of the array."""
    columns, full = table
    path = folder / "plan.csv"
    path.write_bytes(csv(columns))
    array = full if "next" in columns else full[..., 0]
    expected = ATLAS.plan(array)
    for reward in (read_reward(str(path), ATLAS.counts.setting), str(path)):
        plan = ATLAS.plan(reward)
        np.testing.assert_array_equal(plan.policy, expected.policy)
        assert (plan.lower, plan.value, plan.upper) == pytest.approx((expected.lower, expected.value, expected.upper), abs=1e-9)


def test_a_checkpoint_notices_that_the_reward_in_the_file_has_changed(tmp_path):
    """The name is the same, the reward is not: going on would certify a mixture of both."""
    path, mdp = tmp_path / "reward.csv", ar.envs.garnet(S, A, 2, seed=0)
    path.write_text("s,reward\n1,1\n")
    more = {"epsilon": 0.01, "checkpoint": tmp_path / "half.atlas", "progress": False}
    ar.identify(mdp, str(path), H, max_episodes=50, **more)
    path.write_text("s,reward\n2,1\n")
    with pytest.raises(ValueError, match="checkpoint of another exploration"):
        ar.identify(mdp, str(path), H, max_episodes=100, **more)


def test_tables_may_name_states_and_actions(tmp_path):
    """In the columns state, action and next; the extra state of terminations is called so."""
    setting = ar.Setting(n_states=3, n_actions=2, horizon=2, terminal="end")
    numbering = Numbering.of_setting(setting).named(("hall", "yard"), ("wait", "go"))
    path = tmp_path / "r.csv"

    def read(text):
        path.write_text(text)
        return as_reward(str(path), 3, 2, 2, None, numbering)

    np.testing.assert_array_equal(read("state,action,reward\nyard,go,0.5\n")[1], [[0, 0], [0, 0.5], [0, 0]])
    arrival = read("s,next,reward\n0,yard,0.5\n1,terminated,1\n1,0,0.25\n")
    assert [float(arrival.at(0, np.int64(s * 2), np.int64(then))) for s, then in ((0, 1), (1, 2), (1, 0))] == [0.5, 1.0, 0.25]
    for text, says in {
        "state,reward\nyrad,1\n": "column state: there is no state 'yrad'; perhaps 'yard' is meant",
        "action,reward\nrun,1\n": "column action: there is no action 'run'",
        "s,state,reward\n0,hall,1\n": "both the columns s and state",
        "s,reward\nhall,1\n": "s is 'hall', it has to be a number",
    }.items():
        with pytest.raises(ValueError, match=says):
            read(text)

"""Files from anywhere: damaged, forged or hostile. They are refused with one sentence, in little time and little memory.

Damage is found by the checksum. A forger computes the checksum as well, so everything behind it is tested with files whose sum
is right: whatever they say, loading neither crashes nor hangs nor takes memory out of proportion, and going on from them neither.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anyreward as ar
from anyreward.atlas import container

from .test_checkpoint import go, same

ROOT = Path(__file__).parents[1]
GIGABYTE = 2**30


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A checkpoint: its path, its bytes and its atlas."""
    path = tmp_path_factory.mktemp("files") / "good"
    atlas = go("path", path, 0.003)
    return path, path.read_bytes(), atlas


def one_sentence(problem, path):
    text = str(problem)
    assert text.startswith(str(path))
    assert text.endswith(".")
    assert "\n" not in text
    assert len(text) < 600
    return True


def listed(wrong):
    return "\n".join(f"{name}: {what}" for name, what in wrong.items())


def refused_or_equal(path, atlas):
    """Whether a file was refused, with one sentence; if it was not, then it holds the atlas."""
    try:
        again = ar.load(path)
    except ValueError as problem:
        return one_sentence(problem, path)
    assert same(atlas, again)
    return False


# --- damage: the sum is wrong ---


def test_what_is_written_comes_back(tmp_path):
    rng = np.random.default_rng(0)
    columns = {"h": np.arange(5), "count": rng.integers(0, 2**53, 5), "evidence": -rng.random(5)}
    arrays = {
        "f": rng.random((2, 3)),
        "i": rng.integers(-9, 9, (4, 2)),
        "small": np.arange(4, dtype=np.int32),
        "u": np.arange(3, dtype=np.uint32),
        "b": np.arange(256, dtype=np.uint8),
        "none": np.zeros((0, 7)),
        "special": np.array([np.inf, -np.inf, np.nan, -0.0, 5e-324]),
    }
    about = {"text": 'é"\\\n', "sum": "anyreward.sha256 @" + "0" * 64, "n": np.int64(3), "x": 0.1}
    container.write(tmp_path / "it", columns, about, arrays)
    again, said, attached = container.read(tmp_path / "it")
    for name in columns:
        np.testing.assert_array_equal(again[name], columns[name])
    for name, array in arrays.items():
        assert attached[name].dtype == array.dtype
        assert attached[name].tobytes() == array.tobytes()
        assert attached[name].shape == array.shape
    assert said == {**about, "n": 3}


def test_the_same_content_is_the_same_file(good, tmp_path):
    path, whole, _ = good
    columns, about, arrays = container.read(path)
    container.write(tmp_path / "again", columns, about, arrays)
    assert (tmp_path / "again").read_bytes() == whole


def test_every_cut_is_noticed(good, tmp_path):
    _, whole, atlas = good
    path = tmp_path / "it"
    for size in [*range(0, len(whole), 19), *range(len(whole) - 70, len(whole))]:
        path.write_bytes(whole[:size])
        assert refused_or_equal(path, atlas), size


def test_every_flipped_bit_is_noticed(good, tmp_path):
    _, whole, atlas = good
    path, rng = tmp_path / "it", np.random.default_rng(0)
    for at in [*range(40), *range(len(whole) - 600, len(whole)), *rng.integers(0, len(whole), 1_000).tolist()]:
        content = bytearray(whole)
        content[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)
        assert refused_or_equal(path, atlas), at


def test_whatever_else_happens_to_a_file_is_noticed(good, tmp_path):
    """Random bytes, stretches of zeros, parts that are swapped, repeated, left out, or taken from another atlas."""
    _, whole, atlas = good
    go("path", tmp_path / "other", 0.004)
    other = (tmp_path / "other").read_bytes()
    path, rng = tmp_path / "it", np.random.default_rng(1)
    for i in range(1_000):
        a, b = sorted(rng.integers(0, len(whole), 2).tolist())
        kind = i % 8
        content = [
            whole[:a] + rng.bytes(b - a) + whole[b:],
            whole[:a] + bytes(b - a) + whole[b:],
            whole[:a] + whole[b:],
            whole[:b] + whole[a:],
            whole[:a] + other[a:],
            other[:a] + whole[a:],
            b"PAR1" + rng.bytes(a) + b"PAR1",
            whole[:a] + other + whole[a:],
        ][kind]
        if content in (whole, other):
            continue
        path.write_bytes(content)
        assert refused_or_equal(path, atlas), i


def test_a_file_that_is_two_files_is_refused(good, tmp_path):
    _, whole, atlas = good
    for content in (whole + whole, whole + b"\n", b"\n" + whole, whole[:-4] + b"PARE"):
        (tmp_path / "it").write_bytes(content)
        assert refused_or_equal(tmp_path / "it", atlas)


def test_a_pickle_or_a_script_is_not_run(tmp_path):
    import pickle

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    (tmp_path / "it").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ValueError, match="is not an atlas"):
        ar.load(tmp_path / "it")
    assert not (tmp_path / "sprung").exists()


def test_the_table_is_there_for_others(good):
    """Parquet readers see the counts and nothing else."""
    path, _, atlas = good
    table = pq.read_table(path)
    for name, column in atlas.counts.columns().items():
        np.testing.assert_array_equal(table[name].to_numpy(), column)


# --- forged: the sum is right ---


def seal(content):
    """Content with the right sum, if it has a place for it."""
    content = bytearray(content)
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    if footer >= container.SEAL.size and content[footer - 8 : footer] == container.MAGIC:
        container.seal(content)
    return bytes(content)


def forge(path, said, blob=b"", text=None):
    """A file that says anything of any bytes, and has the right sum; without a table, which is not looked at."""
    text = json.dumps(said).encode() if text is None else text
    content = b"PAR1" + text + blob + container.SEAL.pack(len(text), len(blob), bytes(32), container.MAGIC) + bytes(4) + b"PAR1"
    Path(path).write_bytes(seal(content))


def parts_of(path):
    """Columns, what is said about them, and arrays of a file, to be changed."""
    return container.read(Path(path))


def laid_out(columns, arrays):
    """Places and bytes of arrays, as a file has them."""
    places, blob = [], b""
    for name, array in {**{f"column.{name}": column for name, column in columns.items()}, **arrays}.items():
        places.append([name, array.dtype.str, list(array.shape), len(blob)])
        blob += array.tobytes()
    return places, blob


def test_the_forger_knows_his_trade(good, tmp_path):
    """A file that is forged without a change is taken: what the tests below see refused is refused for its content."""
    path, whole, atlas = good
    columns, about, arrays = parts_of(path)
    container.write(tmp_path / "one", columns, about, arrays)
    assert same(ar.load(tmp_path / "one"), atlas)
    places, blob = laid_out(columns, arrays)
    forge(tmp_path / "two", {"about": about, "arrays": places}, blob)
    assert same(ar.load(tmp_path / "two"), atlas)
    (tmp_path / "three").write_bytes(seal(whole))
    assert (tmp_path / "three").read_bytes() == whole


SEALED_FUZZ = """
import faulthandler, resource, sys, time
import numpy as np
import anyreward as ar
from pathlib import Path
from tests.test_files import seal
faulthandler.enable()
resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))
good, path, seed, many = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
original = ar.load(sys.argv[1])
rng, taken, slowest = np.random.default_rng(seed), 0, 0.0
footer = int.from_bytes(good[-8:-4], "little")
for i in range(many):
    content = bytearray(good)
    if i % 3 == 0:  # in the seal and what is right before and behind it
        places = [len(good) - 8 - footer - 56 + int(rng.integers(-200, 60)) for _ in range(2)]
    elif i % 3 == 1:  # in the text
        begin = good.index(b'{"about"')
        places = [begin + int(rng.integers(0, 3000)) for _ in range(int(rng.integers(1, 4)))]
    else:
        places = [int(rng.integers(0, len(good))) for _ in range(int(rng.integers(1, 8)))]
    for at in places:
        content[at] = int(rng.choice([0, 255, 128, 127, 1, int(rng.integers(256)), content[at] ^ (1 << int(rng.integers(8)))]))
    path.write_bytes(seal(content))
    begin = time.monotonic()
    try:
        again = ar.load(path)
        taken += 1
        assert again.certificate.check(again.counts), i
        assert again.counts == original.counts or again.certificate.digest != original.certificate.digest, i
    except ValueError as problem:
        text = str(problem)
        assert text.startswith(str(path)) and "\\n" not in text and len(text) < 2000, (i, text)
    except Exception as problem:
        sys.exit(f"{i} of seed {seed}: {type(problem).__name__}: {problem}")
    slowest = max(slowest, time.monotonic() - begin)
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(taken, slowest, peak / 2**20)
"""


def script(text, *arguments, timeout=100):
    return subprocess.run(
        [sys.executable, "-c", text, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=timeout
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_sealed_damage_never_crashes_or_hangs_the_reader(good, tmp_path, seed):
    """Bytes changed at random under a right checksum: what reaches the parser is anything."""
    done = script(SEALED_FUZZ, good[0], tmp_path / "it", seed, 600)
    assert done.returncode == 0, done.stdout + done.stderr
    _, slowest, gigabytes = (float(x) for x in done.stdout.split()[-3:])
    assert slowest < 5.0
    assert gigabytes < 1.0


# hostile ones, each in a process with little memory

HOSTILE = """
import os, resource, sys, time
import anyreward as ar
import anyreward, pyarrow.parquet
from anyreward.kernels import table, trajectory
def peak():  # of this process alone, in kB: ru_maxrss is inherited from the one that started it
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
def judge(path):
    before, begin = peak(), time.monotonic()
    resource.setrlimit(resource.RLIMIT_AS, (12 * 2**30, 12 * 2**30))
    try:
        ar.load(path)
        what = "taken"
    except ValueError as problem:
        text = str(problem)
        what = "refused" if text.startswith(path) and "\\n" not in text and len(text) < 2000 else "refused badly"
    except BaseException as problem:
        what = type(problem).__name__
    print(what, time.monotonic() - begin, (peak() - before) / 2**20, flush=True)
for path in sys.argv[1:]:
    if os.fork() == 0:
        judge(path)
        os._exit(0)
    status = os.wait()[1]
    if status:
        print(f"crashed-{status}", 0.0, 0.0, flush=True)
"""


def measured(*paths):
    """What loading each file came to, the seconds and the gigabytes it took: in processes of their own."""
    done = script(HOSTILE, *paths)
    assert done.returncode == 0, done.stderr[-2000:]
    results = [line.split() for line in done.stdout.splitlines()]
    assert len(results) == len(paths)
    return [(what, float(seconds), float(gigabytes)) for what, seconds, gigabytes in results]


def overlapping_arrays(path, columns, about, arrays):
    """Every array is all of the bytes."""
    size = 1_000_000
    forge(path, {"about": about, "arrays": [[f"{k}", "|u1", [size], 0] for k in range(2_000)]}, bytes(size))


def many_arrays(path, columns, about, arrays):
    forge(path, {"about": about, "arrays": [[f"{k}", "<f8", [0, 2**60], 0] for k in range(100_000)]})


def many_rows(path, columns, about, arrays):
    """As many rows as a file of 4 MB can have."""
    columns = {name: np.ones(60_000, np.int64 if name == "count" else np.int32) for name in ("h", "s", "a", "next", "count")}
    columns |= {name: np.ones(60_000) for name in ("payments", "paid", "least", "most")}
    places, blob = laid_out(columns, {})
    forge(path, {"about": about, "arrays": places}, blob)


def long_lists(path, columns, about, arrays):
    places, blob = laid_out(columns, arrays)
    forge(path, {"about": {**about, "history": [[]] * 900_000}, "arrays": places}, blob)


def with_setting(**setting):
    def make(path, columns, about, arrays):
        about["certificate"]["setting"].update(setting)
        container.write(path, columns, about, arrays)

    return make


def empty_with_setting(**setting):
    """No data, so that nothing contradicts a huge setting."""

    def make(path, columns, about, arrays):
        about["certificate"]["setting"].update(setting)
        about["certificate"]["digest"] = "0"
        about.update(known=[], policy=None, history=[])
        container.write(path, {name: column[:0] for name, column in columns.items()}, about, {})

    return make


def deep_json(path, columns, about, arrays):
    forge(path, None, text=b"[" * 200_000 + b"]" * 200_000)


def deep_source(path, columns, about, arrays):
    places, blob = laid_out(columns, arrays)
    text = json.dumps({"about": {**about, "source": "here"}, "arrays": places})
    forge(path, None, blob, text.replace('"here"', '{"x": ' * 100_000 + "1" + "}" * 100_000).encode())


def huge_number(path, columns, about, arrays):
    text = json.dumps({"about": {**about, "format": 0}, "arrays": []})
    forge(path, None, text=text.replace('"format": 0', '"format": ' + "9" * 100_000).encode())


BOMBS = {
    "arrays that overlap": overlapping_arrays,
    "many arrays": many_arrays,
    "many rows": many_rows,
    "long lists": long_lists,
    "a long horizon": empty_with_setting(horizon=2**28, n_states=1, n_actions=1, stationary=True, initial_state=0),
    "a longer horizon": with_setting(horizon=2**60, n_states=1),
    "many states": empty_with_setting(n_states=2**28, n_actions=1, horizon=1, stationary=True),
    "more states": with_setting(n_states=2**31 - 2),
    "many actions": empty_with_setting(n_states=1, n_actions=2**28, horizon=1, initial_state=0),
    "many steps and actions": empty_with_setting(n_states=1, n_actions=2**16, horizon=2**14, initial_state=0),
    "many of all": empty_with_setting(n_states=2**10, n_actions=2**18, horizon=2**17),
    "deep JSON": deep_json,
    "deep source": deep_source,
    "a huge number": huge_number,
}


@pytest.mark.slow
def test_a_small_file_takes_little_memory_and_little_time(good, tmp_path):
    paths = []
    for name, make in BOMBS.items():
        paths.append(tmp_path / name)
        make(paths[-1], *parts_of(good[0]))
        assert paths[-1].stat().st_size < 5_000_000, name
    wrong = {}
    for name, (what, seconds, gigabytes) in zip(BOMBS, measured(*paths), strict=True):
        if what not in ("refused", "taken") or gigabytes > 1.0 or seconds > 10:
            wrong[name] = f"{what}, {seconds:.1f} s, {gigabytes:.2f} GB"
    assert not wrong, listed(wrong)


def test_seals_and_lengths_that_lie_are_refused(good, tmp_path):
    _, whole, _ = good
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    place = footer - container.SEAL.size
    contents = {}
    for text, blob in ((2**64 - 1, 0), (0, 2**64 - 1), (2**63, 2**63), (0, 0), (len(whole), len(whole)), (1, len(whole) - 60)):
        contents[f"{text} {blob}"] = whole[:place] + container.SEAL.pack(text, blob, bytes(32), container.MAGIC) + whole[footer:]
    for size in (0, 1, 2**32 - 1, len(whole), len(whole) - 12):
        contents[f"footer {size}"] = whole[:-8] + size.to_bytes(4, "little") + b"PAR1"
    for name, content in contents.items():
        (tmp_path / name).write_bytes(seal(content))
        with pytest.raises(ValueError, match=r"restore it|not an atlas|valid atlas") as caught:
            ar.load(tmp_path / name)
        assert one_sentence(caught.value, tmp_path / name)


# --- contents that lie ---


def changed(good, path, change):
    columns, about, arrays = parts_of(good[0])
    columns = {name: column.copy() for name, column in columns.items()}
    change(columns, about, arrays)
    container.write(path, columns, about, arrays)
    return path


def put(where, name, value):
    def change(columns, about, arrays):
        place = {
            "columns": columns,
            "about": about,
            "certificate": about["certificate"],
            "setting": about["certificate"]["setting"],
        }
        place[where][name] = value(place[where].get(name)) if callable(value) else value

    return change


def at(i, value):
    def change(column):
        column = column.copy()
        column[i] = value
        return column

    return change


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


def test_what_is_not_a_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    begin = time.monotonic()
    for path, what in (
        (tmp_path, "it is a folder, not a file"),
        (tmp_path / "pipe", "it is a pipe or a device, not a file"),
        (tmp_path / "nothing", "is not there: an atlas file is needed"),
        (Path("/dev/zero"), "it is a pipe or a device, not a file"),
    ):
        with pytest.raises(ValueError, match=what):
            ar.load(path)
    assert time.monotonic() - begin < 5


def test_a_huge_file_that_is_no_atlas_is_not_read_whole(tmp_path):
    """The first bytes tell."""
    path = tmp_path / "it"
    with open(path, "wb") as file:
        file.truncate(200 * GIGABYTE)
    what, seconds, gigabytes = measured(path)[0]
    assert what == "refused"
    assert seconds < 5
    assert gigabytes < 1


def test_an_older_format_is_refused_with_a_sentence(tmp_path):
    pq.write_table(pa.table({"h": [0]}).replace_schema_metadata({"anyreward": '{"format": 1}'}), tmp_path / "it")
    with pytest.raises(ValueError, match="is a Parquet file but not an atlas of this version of anyreward"):
        ar.load(tmp_path / "it")


# --- going on from what was forged ---


def anywhere(name, value):
    """A state array with another value somewhere in the middle."""

    def change(columns, about, arrays):
        array = arrays[f"state.{name}"].copy()
        array.reshape(-1)[array.size // 2] = value
        arrays[f"state.{name}"] = array

    return change


def whole(name, make):
    def change(columns, about, arrays):
        array = arrays[f"state.{name}"]
        arrays[f"state.{name}"] = make(array)

    return change


def without(name):
    return lambda columns, about, arrays: arrays.pop(f"state.{name}")


def progress(key, value):
    def change(columns, about, arrays):
        about["progress"][key] = value(about["progress"][key]) if callable(value) else value

    return change


def generator(**values):
    return progress("world", lambda world: {**world, "generator": {**world["generator"], **values}})


LIES = {
    **{f"nodes {v}": anywhere("nodes", v) for v in (-1, 7, 2**31, 2**62, -(2**63))},
    **{f"edges {v}": anywhere("edges", v) for v in (-1, 0, 10**6, 2**62, -(2**63))},
    **{f"values {v}": anywhere("values", v) for v in (-1.0, 0.5, 2.0**60, np.nan, np.inf, -np.inf, 1e308)},
    "nodes twice": whole("nodes", lambda a: np.concatenate([a, a])),
    "nodes backwards": whole("nodes", lambda a: a[::-1].copy()),
    "nodes all the same": whole("nodes", lambda a: np.zeros_like(a)),
    "edges twice": whole("edges", lambda a: np.concatenate([a, a])),
    "edges to one node": whole("edges", lambda a: np.column_stack([a[:, 0], np.ones(len(a), np.int64)])),
    "edges turned": whole("edges", lambda a: a[:, ::-1].copy()),
    "edges backwards": whole("edges", lambda a: a[::-1].copy()),
    "no nodes": whole("nodes", lambda a: a[:0]),
    "no edges": whole("edges", lambda a: a[:0]),
    "flat": whole("nodes", lambda a: a.reshape(-1)),
    "float nodes": whole("nodes", lambda a: a.astype(float)),
    "counts of others": whole("values", lambda a: a + np.array([1.0, 0.0, 0.0])),
    "booked at -1": whole("booked_at", lambda a: a * 0 - 1),
    "booked at nothing": whole("booked_at", lambda a: a[:0]),
    "booked at nan": whole("booked_at", lambda a: np.array([np.nan])),
    "booked at 2^62": whole("booked_at", lambda a: a * 0 + 2**62),
    "known pairs": whole("known", lambda a: np.array([[10**9, 1]])),
    "known nan": whole("known", lambda a: np.array([[np.nan, 1.0]])),
    "Q nan": anywhere("Q", np.nan),
    "Q too short": whole("Q", lambda a: a[:, :-1].copy()),
    "Q too long": whole("Q", lambda a: np.concatenate([a, a], axis=1)),
    "Q more planes": whole("Q", lambda a: np.concatenate([a, a])),
    "settled short": whole("settled", lambda a: a[:, 1:].copy()),
    "settled nan": whole("settled", lambda a: np.full(a.shape, np.nan)),
    "unvisited nan": anywhere("unvisited", np.nan),
    "unvisited long": whole("unvisited", lambda a: np.concatenate([a, a])),
    "planned at nothing": whole("planned_at", lambda a: a[:0]),
    "planned at nan": whole("planned_at", lambda a: np.array([np.nan])),
    "planned at inf": whole("planned_at", lambda a: np.array([np.inf])),
    **{
        f"without {name}": without(name)
        for name in ("nodes", "edges", "values", "booked_at", "known", "Q", "settled", "planned_at")
    },
    "call": progress("call", 5),
    "call is a list": progress("call", []),
    "world": progress("world", None),
    "world is a list": progress("world", []),
    "no generator": progress("world", {}),
    "generator": progress("world", {"generator": 5}),
    "another generator": generator(bit_generator="MT19937"),
    "generator state": generator(state={"state": -1, "inc": 3}),
    "generator state huge": generator(state={"state": 2**200, "inc": 3}),
    "generator state text": generator(state={"state": "x", "inc": 3}),
    "generator has": generator(has_uint32=10**30),
    "generator word": generator(uinteger=10**30),
    "history ahead": lambda columns, about, arrays: about.update(history=[[10**15, 1.0]]),
    "history far ahead": lambda columns, about, arrays: about.update(history=[[10**30, 1.0]]),
    "history backwards": lambda columns, about, arrays: about.update(history=about["history"][::-1]),
    "history nan": lambda columns, about, arrays: about.update(history=[[0, float("nan")]]),
}
HARMLESS = {"history nan", "history backwards"}  # they may be taken: nothing is decided by them

GOING_ON = """
import os, resource, signal, sys, time, warnings
from pathlib import Path
import pyarrow.parquet
import anyreward as ar
from tests.test_files import KINDS, changed, explored_on, lies_of
class Late(BaseException):
    pass
def late(*_):
    raise Late("it goes on for ever")
def judge(kind, name, change, path):
    changed((where / kind, None, None), path, change)
    before = path.read_bytes()
    signal.signal(signal.SIGALRM, late)
    signal.alarm(2)
    resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            explored_on(kind, path)
        what = "taken"
    except ValueError as problem:
        kept = path.read_bytes() == before
        what = "refused" if str(problem).startswith(str(path)) and kept else f"refused badly: {problem}"
    except BaseException as problem:
        what = f"{type(problem).__name__}: {problem}"
    print(f"{kind}|{name}|{' '.join(what.split())}", flush=True)
where = Path(sys.argv[1])
for kind in KINDS:
    explored_on(kind, where / "warm")  # what has to be compiled is compiled before the clock runs
    (where / "warm").unlink()
for kind in KINDS:
    for name, change in lies_of(kind).items():
        pid = os.fork()
        if pid == 0:
            judge(kind, name, change, where / "it")
            os._exit(0)
        end = time.monotonic() + 8
        while not (done := os.waitpid(pid, os.WNOHANG))[0] and time.monotonic() < end:
            time.sleep(0.002)
        if not done[0]:
            os.kill(pid, signal.SIGKILL)
            done = os.waitpid(pid, 0)
        if done[1]:
            print(f"{kind}|{name}|crashed with {done[1]}", flush=True)
        (where / "it").unlink(missing_ok=True)
"""

KINDS = {
    "path": "path",
    "geometric": "geometric",
    "bpi": "bpi random",
    "frozen": "frozen lake",
    "rooms": "rooms end",
}


def explored_on(kind, path, more=40):
    return go(KINDS[kind], path, max_episodes=100 + more)


def bpi_lies():
    lies = {}
    for name in ("Q", "Q_lo", "V_lo", "u", "radius", "total", "up", "lo", "far"):
        lies[f"{name} nan"] = anywhere(name, np.nan)
        lies[f"{name} short"] = whole(name, lambda a: a[..., :-1].copy())
    return lies


def bpi_numbers():
    """Numbers that are none of theirs: they may be taken or not, but nothing hangs."""
    lies = {}
    for name in ("Q", "Q_lo", "V_lo", "u", "radius", "total", "up", "lo", "far"):
        for value in (np.inf, -np.inf, -1.0):
            lies[f"{name} all {value}"] = whole(name, lambda a, value=value: np.full(a.shape, value))
    lies["dirty 0"] = whole("dirty", lambda a: a * 0)
    lies["settled 0"] = whole("settled", lambda a: a * 0)
    return lies


def index_numbers():
    lies = {}
    for name in ("Q", "unvisited"):
        for value in (np.inf, -np.inf):
            lies[f"{name} all {value}"] = whole(name, lambda a, value=value: np.full(a.shape, value))
    for value in (-(2**63), -1, 0, 1, 2**62, 2**63 - 1):
        lies[f"planned at {value}"] = whole("planned_at", lambda a, value=value: np.array([value]))
    lies["settled 0"] = whole("settled", lambda a: a * 0)
    lies["settled 255"] = whole("settled", lambda a: a * 0 + 255)
    return lies


def world(**values):
    return progress("world", lambda world: {**world, **values})


def environment_lies(n_states):
    return {
        "alive": world(alive=[n_states + 5]),
        "alive below": world(alive=[-1]),
        "alive far": world(alive=[10**30]),
        "alive text": world(alive=["x"]),
        "ended": world(ended=5),
        "ended text": world(ended=["x"]),
        "ended out of range": world(ended=[10**9]),
        "nothing allowed": world(allowed=[[s, []] for s in range(n_states)]),
        "actions out of range": world(allowed=[[s, [99]] for s in range(n_states)]),
        "actions below": world(allowed=[[s, [-7]] for s in range(n_states)]),
        "allowed text": world(allowed=[["x", "y"]]),
        "allowed number": world(allowed=7),
        "no world": progress("world", {}),
    }


def label_lies():
    deep = "x"
    for _ in range(440):
        deep = {"t": [deep]}
    rooms = [f"room {i}" for i in range(10)]
    return {
        "more labels than states": world(labels=[f"x{i}" for i in range(5_000)] + rooms),
        "a few more": world(labels=["y", "z", "w", "v", *rooms]),
        "labels twice": world(labels=["room 1"] * 12),
        "labels list": world(labels=[["room 0"]]),
        "labels deep": world(labels=[deep]),
        "labels null": world(labels=None),
        "labels number": world(labels=3),
        "labels unhashable": world(labels=[{"t": [{}]}]),
        "labels bytes": world(labels=[{"b": "zz"}]),
        "labels bytes number": world(labels=[{"b": 5}]),
    }


def recording_lies():
    def put_recording(name, make):
        def change(columns, about, arrays):
            arrays[f"recording.{name}"] = make(arrays[f"recording.{name}"])

        return change

    return {
        "recorded states": put_recording("states", lambda a: a[:, :-1].copy()),
        "recorded fewer": put_recording("states", lambda a: a[:-1].copy()),
        "recorded flat": put_recording("states", lambda a: a.reshape(-1)),
        "recorded lengths": put_recording("lengths", lambda a: a * 0 - 3),
        "recorded out of range": put_recording("states", lambda a: a + 1000),
        "recorded rewards": put_recording("rewards", lambda a: a[:, :1].copy()),
    }


def lies_of(kind):
    lies = {"unchanged": lambda columns, about, arrays: None}
    if kind == "path":
        lies |= LIES
    elif kind == "bpi":
        lies |= {**bpi_lies(), **bpi_numbers()}
    elif kind == "frozen":
        lies |= environment_lies(16)
    elif kind == "rooms":
        lies |= {**environment_lies(13), **label_lies()}
    else:
        lies |= index_numbers()
    return lies


@pytest.mark.slow
def test_going_on_from_a_forged_state_never_crashes(tmp_path):
    """Out of range, out of order, out of shape: one sentence, and the file stays. In processes of their own, which may crash."""
    for kind, name in KINDS.items():
        go(name, tmp_path / kind, max_episodes=96)  # where a block of episodes ends
    done = script(GOING_ON, tmp_path)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr[-2000:]
    results = {tuple(line.split("|")[:2]): line.split("|", 2)[2] for line in done.stdout.splitlines()}
    assert set(results) == {(kind, name) for kind in KINDS for name in lies_of(kind)}
    may_be_taken = {*HARMLESS, *bpi_numbers(), *index_numbers(), "alive below", "ended out of range", "unchanged"}
    wrong = {k: v for k, v in results.items() if v != "refused" and not (v == "taken" and k[1] in may_be_taken)}
    # An environment that contradicts what is said of it may say so itself, in its own sentence.
    wrong = {k: v for k, v in wrong.items() if not (k[0] in ("frozen", "rooms") and v.startswith("refused badly: "))}
    wrong |= {k: v for k, v in results.items() if k[1] == "unchanged" and v != "taken"}
    assert not wrong, listed(wrong)


def test_going_on_with_a_forged_recording_is_refused(tmp_path):
    wrong = {}
    for name, change in recording_lies().items():
        path = tmp_path / "it"
        path.unlink(missing_ok=True)
        go("rooms", path, max_episodes=64)
        changed((path, None, None), path, change)
        try:
            go("rooms", path, max_episodes=96)
            wrong[name] = "taken"
        except ValueError as problem:
            if not str(problem).startswith(str(path)):
                wrong[name] = str(problem)
        except Exception as problem:
            wrong[name] = repr(problem)
    assert not wrong, listed(wrong)


def test_a_forged_history_does_not_outlast_max_episodes(tmp_path):
    path = tmp_path / "it"
    go("path", path, max_episodes=50)
    changed((path, None, None), path, lambda columns, about, arrays: about.update(history=[[20_000, 1.0]]))
    try:
        episodes = go("path", path, max_episodes=60).episodes
    except ValueError:
        episodes = 60  # refused is as good
    assert episodes <= 60


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


def test_bounds_of_a_checkpoint_are_those_of_its_counts(tmp_path):
    """Once, V_lo = inf in a file made epsilon -inf, and met."""
    mdp = ar.envs.double_chain(5)
    path = tmp_path / "it"

    def go_on(episodes):
        return ar.identify(mdp, mdp.reward, 3, epsilon=1e-3, max_episodes=episodes, checkpoint=path)

    go_on(40)
    good = path.read_bytes()
    for name, value in (("V_lo", np.inf), ("Q_lo", 2.9), ("far", 1.0), ("radius", 0.0), ("Q", -1.0)):
        path.write_bytes(good)

        def change(columns, about, arrays, name=name, value=value):
            arrays[f"state.{name}"][...] = value

        changed((path, None, None), path, change)
        with pytest.raises(ValueError, match="cannot be gone on from"):
            go_on(50)
    path.write_bytes(good)
    assert go_on(50).episodes == 50


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
        begin = time.monotonic()
        with_setting(**setting)(tmp_path / "it", *parts_of(good[0]))
        with pytest.raises(ValueError, match=r"may ask for|valid atlas"):
            ar.load(tmp_path / "it")
        assert time.monotonic() - begin < 5


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

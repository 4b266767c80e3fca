"""The container of an atlas file: damage is found by the checksum, and forged files are refused.

A forger computes the checksum as well, so everything behind it is tested with files whose checksum is right: whatever they say,
loading them neither crashes nor hangs nor takes memory out of proportion. A refusal is one sentence.
"""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anyreward as ar
from anyreward.atlas import container

from ..helpers.checkpoints import go, same, script
from ..helpers.forging import forge, laid_out, listed, one_sentence, parts_of, refused_or_equal, seal, with_setting
from ..helpers.waiting import little_work

GIGABYTE = 2**30


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


@pytest.mark.slow
def test_every_flipped_bit_is_noticed(good, tmp_path):
    _, whole, atlas = good
    path, rng = tmp_path / "it", np.random.default_rng(0)
    for at in [*range(40), *range(len(whole) - 600, len(whole)), *rng.integers(0, len(whole), 1_000).tolist()]:
        content = bytearray(whole)
        content[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)
        assert refused_or_equal(path, atlas), at


@pytest.mark.slow
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
from tests.helpers.forging import seal
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
    begin = time.process_time()
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
    slowest = max(slowest, time.process_time() - begin)
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(taken, slowest, peak / 2**20)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_sealed_damage_never_crashes_or_hangs_the_reader(good, tmp_path, seed):
    """Bytes changed at random under a right checksum: what reaches the parser is anything."""
    done = script(SEALED_FUZZ, good[0], tmp_path / "it", seed, 300)
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
    before, begin = peak(), time.process_time()
    resource.setrlimit(resource.RLIMIT_AS, (12 * 2**30, 12 * 2**30))
    try:
        ar.load(path)
        what = "taken"
    except ValueError as problem:
        text = str(problem)
        what = "refused" if text.startswith(path) and "\\n" not in text and len(text) < 2000 else "refused badly"
    except BaseException as problem:
        what = type(problem).__name__
    print(what, time.process_time() - begin, (peak() - before) / 2**20, flush=True)
for path in sys.argv[1:]:
    if os.fork() == 0:
        judge(path)
        os._exit(0)
    status = os.wait()[1]
    if status:
        print(f"crashed-{status}", 0.0, 0.0, flush=True)
"""


def measured(*paths):
    """What loading each file came to, the processor time and the gigabytes it took: in processes of their own."""
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


def test_what_is_not_a_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, what in (
        (tmp_path, "it is a folder, not a file"),
        (tmp_path / "pipe", "it is a pipe or a device, not a file"),
        (tmp_path / "nothing", "does not exist: an atlas file is needed"),
        (Path("/dev/zero"), "it is a pipe or a device, not a file"),
    ):
        with little_work(5), pytest.raises(ValueError, match=what):
            ar.load(path)


@pytest.mark.slow
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

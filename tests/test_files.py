"""Files from anywhere: damaged, forged or hostile. They are refused with one sentence, in little time and little memory.

Damage is found by the checksum. A forger computes the checksum as well, so everything behind it is tested with files whose sum
is right: whatever they say, loading neither crashes nor hangs nor takes memory out of proportion, and going on from them neither.
"""

import hashlib
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
from anyreward import files

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
    files.write(tmp_path / "it", columns, about, arrays)
    again, said, attached = files.read(tmp_path / "it")
    for name in columns:
        np.testing.assert_array_equal(again[name], columns[name])
    for name, array in arrays.items():
        assert attached[name].dtype == array.dtype
        assert attached[name].tobytes() == array.tobytes()
        assert attached[name].shape == array.shape
    assert {k: v for k, v in said.items() if k != "attached"} == {**about, "n": 3}


def test_the_same_content_is_the_same_file(good, tmp_path):
    path, whole, _ = good
    columns, about, arrays = files.read(path)
    about.pop("attached")
    files.write(tmp_path / "again", columns, about, arrays)
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


def test_metadata_of_other_kinds_is_never_unpickled(good, tmp_path):
    """pandas and Arrow keep schemas of their own in Parquet metadata, extension types among them: none is looked at."""
    _, whole, _ = good
    table = pq.read_table(pa.BufferReader(whole))
    about = json.loads(table.schema.metadata[b"anyreward"])
    forge(tmp_path / "it", table, about, extra={b"ARROW:schema": b"/////not a schema", b"pandas": b'{"index_columns": []}'})
    with pytest.raises(ValueError, match="it"):
        ar.load(tmp_path / "it")


# --- forged: the sum is right ---


def seal(content):
    """Content with the right sum."""
    content = bytearray(content)
    try:
        begin, end = files._mark(bytes(content))
    except LookupError:
        return bytes(content)
    content[begin:end] = files.BLANK
    content[begin:end] = hashlib.sha256(content).hexdigest().encode()
    return bytes(content)


def forge(path, table, about, extra=None, text=None, **options):
    """A file with any table and any metadata, and the right sum."""
    sink = pa.BufferOutputStream()
    options = {"compression": "none", "store_schema": False, **options}
    with pq.ParquetWriter(sink, table.schema.remove_metadata(), **options) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({**(extra or {}), files.KEY: text or json.dumps(about), files.SUM: files.BLANK})
    Path(path).write_bytes(seal(sink.getvalue().to_pybytes()))


def parts_of(path):
    """Table, metadata and attached arrays of a file, to be changed."""
    content = Path(path).read_bytes()
    table = pq.read_table(pa.BufferReader(content))
    columns, about, arrays = files.read(Path(path))
    del about["attached"]
    return table.replace_schema_metadata(None), columns, about, arrays


def test_the_forger_knows_his_trade(good, tmp_path):
    """A file that is forged without a change is taken: what the tests below see refused is refused for its content."""
    path, whole, atlas = good
    table, columns, about, arrays = parts_of(path)
    files.write(tmp_path / "one", columns, about, arrays)
    assert same(ar.load(tmp_path / "one"), atlas)
    forge(tmp_path / "two", table, {**about, "attached": json.loads(pq.read_metadata(path).metadata[b"anyreward"])["attached"]})
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
    if i % 3 == 0:  # in the footer but for the JSON
        back = [int(rng.integers(8, 400)), footer + 8 - int(rng.integers(0, footer // 3))]
        places = [len(good) - back[int(rng.random() < 0.7)] for _ in range(2)]
    elif i % 3 == 1:  # in the pages
        places = [4 + int(rng.integers(0, len(good) - footer - 8)) for _ in range(int(rng.integers(1, 4)))]
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
    """Bytes changed at random under a right checksum: what reaches the Parquet reader is anything."""
    done = script(SEALED_FUZZ, good[0], tmp_path / "it", seed, 800)
    assert done.returncode == 0, done.stdout + done.stderr
    _, slowest, gigabytes = (float(x) for x in done.stdout.split()[-3:])
    assert slowest < 5.0
    assert gigabytes < 1.0


# hostile ones, each in a process with little memory

HOSTILE = """
import os, resource, sys, time
import anyreward as ar
import anyreward.atlas, pyarrow.parquet
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


def repeated(value, rows):
    """A column of one value, as small as a dictionary makes it."""
    return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array([value]))


def strings_in_a_dictionary(path, table, about):
    forge(path, pa.table({"h": repeated(1, 15_000), "text": repeated("x" * 100_000, 15_000)}), about)


def strings_that_share_a_beginning(path, table, about):
    bomb = pa.table({"text": pa.array(["x" * 100_000] * 15_000, pa.large_string())})
    forge(path, bomb, about, use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"})


def one_blob_for_every_row(path, table, about):
    bomb = pa.table({"h": repeated(1, 15_000), "attached": repeated(bytes(100_000), 15_000)})
    forge(path, bomb, {**about, "attached": []})


def overlapping_arrays(path, table, about):
    """Every array is all of the blob."""
    size = 1_000_000
    column = pa.array([bytes(size)] + [None] * (len(table) - 1), pa.large_binary())
    i = table.column_names.index("attached")
    places = [[f"{k}", "|u1", [size], 0] for k in range(2_000)]
    forge(path, table.set_column(i, "attached", column), {**about, "attached": places})


def many_columns(path, table, about):
    """62 columns of one number, repeated 8 times for each byte of a file of 300 kB."""
    rows = 2_500_000
    columns = {f"{i}": repeated(0, rows) for i in range(62)}
    columns["attached"] = pa.array([bytes(rows // 8)] + [None] * (rows - 1), pa.large_binary())
    forge(path, pa.table(columns), {**about, "attached": []})


def many_rows(path, table, about):
    rows = 2_500_000
    columns = {name: repeated(1, rows) for name in ("h", "s", "a", "next", "count")}
    columns |= {name: repeated(1.0, rows) for name in ("payments", "paid", "least", "most")}
    columns["attached"] = pa.array([bytes(rows // 8)] + [None] * (rows - 1), pa.large_binary())
    forge(path, pa.table(columns), {**about, "attached": []})


def compressed(codec):
    def make(path, table, about):
        rows = 2**24
        forge(path, pa.table({"h": pa.array(np.zeros(rows, np.int8))}), about, compression=codec, use_dictionary=False)

    return make


def with_setting(**setting):
    def make(path, table, about):
        about["certificate"]["setting"].update(setting)
        forge(path, table, about)

    return make


def empty_with_setting(**setting):
    """No data, so that nothing contradicts a huge setting."""

    def make(path, table, about):
        about["certificate"]["setting"].update(setting)
        about["certificate"]["digest"] = "0"
        about.update(known=[], policy=None, attached=[])
        forge(path, table.drop_columns(["attached"]).slice(0, 0), about)

    return make


def deep_json(path, table, about):
    forge(path, table, about, text="[" * 200_000 + "]" * 200_000)


def deep_source(path, table, about):
    text = json.dumps({**about, "source": "here"}).replace('"here"', '{"x": ' * 100_000 + "1" + "}" * 100_000)
    forge(path, table, about, text=text)


def huge_number(path, table, about):
    forge(path, table, about, text=json.dumps({**about, "format": 0}).replace('"format": 0', '"format": ' + "9" * 100_000))


BOMBS = {
    "strings in a dictionary": strings_in_a_dictionary,
    "strings that share a beginning": strings_that_share_a_beginning,
    "one blob for every row": one_blob_for_every_row,
    "arrays that overlap": overlapping_arrays,
    "many columns": many_columns,
    "many rows": many_rows,
    "zstd": compressed("zstd"),
    "gzip": compressed("gzip"),
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
        table, _, about, _ = parts_of(good[0])
        make(paths[-1], table, about)
        assert paths[-1].stat().st_size < 5_000_000, name
    wrong = {}
    for name, (what, seconds, gigabytes) in zip(BOMBS, measured(*paths), strict=True):
        if what not in ("refused", "taken") or gigabytes > 1.0 or seconds > 10:
            wrong[name] = f"{what}, {seconds:.1f} s, {gigabytes:.2f} GB"
    assert not wrong, listed(wrong)


# --- a Parquet footer of one's own ---


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def zigzag(n):
    return varint(n * 2 if n >= 0 else -n * 2 - 1)


def text_field(content):
    return varint(len(content)) + content


def footer(schema, num_rows=0, extra=b""):
    """A file of a footer alone: schema elements as (name, children or None), with the right sum."""
    elements = b""
    for name, children in schema:
        if children is None:  # INT64, required
            elements += b"\x15" + zigzag(2) + b"\x25" + zigzag(0) + b"\x18" + text_field(name) + b"\x00"
        else:
            elements += b"\x35" + zigzag(0) + b"\x18" + text_field(name) + b"\x15" + zigzag(children) + b"\x00"
    many = b"\xfc" + varint(len(schema)) if len(schema) > 14 else bytes([len(schema) << 4 | 12])
    pairs = b""
    for key, value in ((files.KEY, b"{}"), (files.SUM, files.BLANK)):
        pairs += b"\x18" + text_field(key) + b"\x18" + text_field(value) + b"\x00"
    meta = (
        b"\x15" + zigzag(2) + b"\x19" + many + elements + b"\x16" + zigzag(num_rows) + b"\x19\x0c" + b"\x19\x2c" + pairs + extra
    )
    meta += b"\x00"
    return seal(b"PAR1" + meta + len(meta).to_bytes(4, "little") + b"PAR1")


def test_the_footer_of_ones_own_is_one(tmp_path):
    """So that what is refused below is refused for what it says."""
    (tmp_path / "it").write_bytes(footer([(b"schema", 1), (b"h", None)]))
    meta = pq.read_metadata(tmp_path / "it")
    assert meta.num_rows == 0
    assert meta.num_columns == 1
    with pytest.raises(ValueError, match="does not hold a valid atlas"):
        ar.load(tmp_path / "it")


FOOTERS = {
    "very deep": footer([(b"schema", 1), *[(b"x", 1)] * 200_000, (b"h", None)]),
    "deep": footer([(b"schema", 1), *[(b"x", 1)] * 20_000, (b"h", None)]),
    "too many": footer([(b"schema", 2**31 - 1), (b"h", None)]),
    "fewer than none": footer([(b"schema", -5), (b"h", None)]),
    "no columns": footer([(b"schema", 0)]),
    "nothing": footer([]),
    "rows": footer([(b"schema", 1), (b"h", None)], num_rows=2**62),
    "rows below zero": footer([(b"schema", 1), (b"h", None)], num_rows=-1),
    "wide": footer([(b"schema", 100_000), *[(b"x", None)] * 100_000]),
}


def lying_pages(path):
    """The number of values in a page header is raised to 2^31 - 1; the footer stays honest."""
    table = pa.table({"h": pa.array(np.zeros(64, np.int32)), "s": pa.array(np.arange(64, dtype=np.int32))})
    forge(path, table, {}, use_dictionary=["h"], write_statistics=False)
    honest = path.read_bytes()
    old, new = b"\x15" + zigzag(64) + b"\x15", b"\x15" + zigzag(2**31 - 1) + b"\x15"
    found = [at for at in range(len(honest)) if honest.startswith(old, at)]
    assert found
    return {f"page {at}": seal(honest[:at] + new + honest[at + len(old) :]) for at in found}


def unheard_codec(whole):
    """The codec of the column h is number -1, which Arrow answers with an exception that nobody catches."""
    at = whole.index(b"\x19\x18\x01h\x15\x00", len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")) + 5
    return {"codec": seal(whole[:at] + b"\x01" + whole[at + 1 :])}


def test_footers_and_pages_that_lie_are_refused(good, tmp_path):
    contents = {**FOOTERS, **lying_pages(tmp_path / "page"), **unheard_codec(good[1])}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    wrong = {}
    for name, (what, seconds, gigabytes) in zip(contents, measured(*(tmp_path / name for name in contents)), strict=True):
        if what != "refused" or seconds > 5 or gigabytes > 0.5:
            wrong[name] = f"{what}, {seconds:.1f} s, {gigabytes:.2f} GB"
    assert not wrong, listed(wrong)


# --- contents that lie ---


def changed(good, path, change):
    _, columns, about, arrays = parts_of(good[0])
    columns = {name: column.copy() for name, column in columns.items()}
    change(columns, about, arrays)
    files.write(path, columns, about, arrays)
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
        put("columns", "count", lambda n: n.astype(np.uint64)),
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
        put("about", "format", 3),
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
    _, columns, about, arrays = parts_of(good[0])
    change(columns, about, arrays)
    files.write(path, columns, about, arrays)
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
    table, _, about, _ = parts_of(good[0])
    for place in (["state.Q", "<f8", shape, 0], ["state.Q", "|u1", shape, 10**9], ["state.Q", "O", [1], 0], ["Q"], 5):
        forge(tmp_path / "it", table, {**about, "attached": [place]})
        with pytest.raises(ValueError, match="does not hold a valid atlas") as caught:
            ar.load(tmp_path / "it")
        assert one_sentence(caught.value, tmp_path / "it")


@pytest.mark.parametrize("kind", ["O", "|O", "|V8", "<U4", "<M8[s]", "<c16", ">f8", "float64", ["<f8"], None, "<f8,<f8"])
def test_attached_kinds_that_are_not_numbers_are_refused(good, tmp_path, kind):
    """Above all objects: an array of them would be an array of pointers out of the file."""
    table, _, about, _ = parts_of(good[0])
    forge(tmp_path / "it", table, {**about, "attached": [["state.Q", kind, [2], 0]]})
    with pytest.raises(ValueError, match="does not hold a valid atlas"):
        ar.load(tmp_path / "it")


def test_what_is_not_a_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    begin = time.monotonic()
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "nothing", Path("/dev/zero")):
        with pytest.raises(ValueError, match="is not there: an atlas file is needed"):
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

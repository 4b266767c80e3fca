"""Saving and loading: files come back whole, and damaged or foreign ones are refused."""

import errno
import os
import stat

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anyreward as ar
from anyreward import _files
from anyreward.atlas import container

from ..helpers.atlases import H, explored
from ..helpers.problems import random_mdp


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


def test_an_atlas_may_be_called_parquet_and_others_read_its_counts(tmp_path):
    """DuckDB knows a file by this ending. Everything that takes the name of an atlas takes this one."""
    import pandas as pd

    path = tmp_path / "it.atlas.parquet"
    ar.explore(ar.envs.double_chain(5), 4, max_episodes=20, checkpoint=path)
    atlas = ar.explore(ar.envs.double_chain(5), 4, max_episodes=30, checkpoint=path)
    assert atlas.episodes == 30
    assert ar.load(path) == atlas
    table, frame, counts = pq.read_table(path), pd.read_parquet(path), atlas.counts.columns()
    for name in ("h", "s", "a", "next", "count"):
        assert table[name].to_pylist() == frame[name].tolist() == counts[name].tolist()
    assert frame[frame.h >= 0].groupby("h")["count"].sum().tolist() == [30] * 4
    atlas.save(tmp_path / "again.atlas.parquet")
    assert ar.load(tmp_path / "again.atlas.parquet") == atlas
    assert sorted(os.listdir(tmp_path)) == ["again.atlas.parquet", "it.atlas.parquet"]


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


@pytest.mark.slow
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
    with pytest.raises(ValueError, match="does not exist"):
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


@pytest.mark.parametrize("kind", [{}, {"stationary": True}, {"structure": "mod"}])
def test_plans_are_the_same_to_the_bit_after_loading(tmp_path, kind):
    """Sums over successors do not depend on which of them was seen first, which a file does not know."""
    rng = np.random.default_rng(5)
    mdp = ar.TabularMDP(rng.dirichlet(np.full(8, 0.5), (8, 2)), initial=rng.dirichlet(np.ones(8)))
    if kind.get("structure"):
        kind = {"structure": ar.Structure(law=lambda s, a: (s, a), outcomes=8, successor=lambda s, a, x: x)}
    atlas = ar.explore(mdp, 5, max_episodes=60, **kind)
    atlas.save(tmp_path / "a.atlas")
    loaded = ar.load(tmp_path / "a.atlas")
    for _ in range(8):
        reward = rng.random((5, 8, 2))
        assert loaded.plan(reward) == atlas.plan(reward)
        assert tuple(loaded.reach([3]).value) == tuple(atlas.reach([3]).value)

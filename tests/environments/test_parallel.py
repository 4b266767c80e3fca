"""Episodes that are played side by side: the result depends on the seed and the size of a batch alone, whatever happens.

It watches `docs/theory.md`, 21.1.
"""

import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import anyreward as ar
from anyreward.atlas.format import read
from anyreward.environments.parallel import OWN_SEEDS
from anyreward.executors import cluster

from ..helpers.checkpoints import Rooms, same, script
from ..helpers.tabular import Tabular, box, transitions

pytestmark = pytest.mark.usefixtures("quick_look")
P = transitions(5, 3)
MASK = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1], [1, 1, 1], [1, 1, 1]])
ROOMS = {"max_states": 12, "record": True, "max_episodes": 150, "seed": 3}


def lossy():
    """Terminates in two states, after episodes of different lengths, with masks and rewards."""
    return Tabular(P, ends=(3, 4), mask=MASK, pay=lambda s, a, s_next: s + 10 * a + 100 * s_next)


class Hasty(Rooms):
    """Takes another time for every step, which its seed does not decide."""

    def step(self, action):
        time.sleep(random.SystemRandom().random() * 0.0005)
        return super().step(action)


class Disturbed(Rooms):
    """Does something, once or always, where an episode that began with a seed comes to a certain room."""

    def __init__(self, what, marker=None, room=6):
        super().__init__()
        self.what, self.marker, self.at = what, marker, room

    def reset(self, *, seed=None, options=None):
        self.armed = seed is not None
        return super().reset(seed=seed)

    def step(self, action):
        answer = super().step(action)
        if self.armed and self.room == self.at and (self.marker is None or not self.marker.exists()):
            if self.marker is not None:
                self.marker.touch()
            self.what()
        return answer


def kill_worker(driver):
    if os.getpid() != driver:
        os.kill(os.getpid(), signal.SIGKILL)


# The same for every number of workers


@pytest.mark.parametrize(
    ("env", "options"),
    [
        (Hasty, ROOMS),
        (Hasty, {**ROOMS, "terminal": "end", "stationary": True, "batch": 5}),
        (lossy, {"max_episodes": 150}),
        (lossy, {"max_episodes": 150, "terminal": "state", "action_masks": MASK, "algorithm": "bpi-ucrl", "rewards": "random"}),
        (lambda: Tabular(P, **box(5)), {"max_episodes": 60, "bins": [5]}),
    ],
    ids=["numbered as it appears", "ends", "masks", "masks known", "bins"],
)
@pytest.mark.filterwarnings("ignore:.*divided into bins")
def test_the_result_does_not_depend_on_who_plays(tmp_path, env, options):
    """Not the atlas, and not a byte of the checkpoint: observations are numbered in the order of episodes, too."""
    options = {"batch": 8, "reward_range": (0, 500), **options} if "algorithm" in options else {"batch": 8, **options}
    with ThreadPoolExecutor(3) as threads:
        ways = [{}, {"workers": 1}, {"workers": 3}, {"executor": threads}]
        files = [tmp_path / str(i) for i in range(len(ways))]
        atlases = [ar.explore(env, 5, checkpoint=file, **options, **way) for file, way in zip(files, ways, strict=True)]
    for atlas, file in zip(atlases[1:], files[1:], strict=True):
        assert same(atlases[0], atlas)
        assert file.read_bytes() == files[0].read_bytes()
    assert OWN_SEEDS in atlases[0].certificate.assumptions


def test_the_size_of_a_batch_matters():
    one, other = (ar.explore(Rooms, 5, **ROOMS, batch=batch) for batch in (1, 8))
    assert one != other


def test_within_a_batch_policies_are_fixed_and_break_ties_differently():
    """Nothing is known in the first batch: all its policies are drawn, and none depends on another's episode."""

    class Watched(ar.RFTrajectory):
        asked: ClassVar = []

        def ask_ahead(self, k):
            self.asked.append((self.episodes, k))
            return super().ask_ahead(k)

    atlas = ar.explore(lossy, 5, max_episodes=20, batch=8, algorithm=Watched, record=True)
    assert Watched.asked == [(t // 8 * 8, t % 8) for t in range(20)]
    assert len(np.unique(atlas.recording.actions[:8], axis=0)) > 1
    assert [t for t, _ in atlas.history] == [0, 8, 16, 20]


def test_episodes_of_a_batch_are_independent_draws():
    uniform = np.full((50, 1, 50), 1 / 50)
    states = ar.explore(lambda: Tabular(uniform), 3, max_episodes=400, record=True, stationary=True, batch=64).recording.states
    assert len(np.unique(states[:, 1:], axis=0)) >= 395


# Randomness


class Shared:
    """The generators that Python and NumPy share, which processes that are forked inherit."""

    def integers(self, low, high):
        return np.random.randint(low, high)  # noqa: NPY002

    def random(self):
        return random.random()


class Careless(Rooms):
    """Draws from them, and takes no notice of its seed."""

    def reset(self, *, seed=None, options=None):
        answer = super().reset(seed=seed)
        self.np_random = Shared()
        return answer


def test_an_environment_that_draws_from_generators_that_are_shared_is_seeded_too():
    before = random.getstate()
    here, there = ar.explore(Careless, 5, **ROOMS, batch=8), ar.explore(Careless, 5, **ROOMS, workers=2)
    assert same(here, there)
    assert len(np.unique(here.recording.states[:8], axis=0)) > 1
    random.setstate(before)
    ar.explore(Rooms, 5, **ROOMS, batch=8)
    assert random.getstate() == before  # what a program draws from them is its own business


def test_an_environment_with_randomness_of_its_own_is_refused():
    class Own(Tabular):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=None)

    with pytest.raises(ValueError, match="a copy of Own plays another episode when it is reset to the same seed"):
        ar.explore(lambda: Own(transitions(50, 2)), 5, max_episodes=20, workers=2)


# What goes wrong


def test_a_worker_that_dies_changes_nothing(tmp_path):
    """It is killed in the middle of a batch, once; its episodes are played again."""
    driver, marker = os.getpid(), tmp_path / "killed"
    atlas = ar.explore(lambda: Disturbed(lambda: kill_worker(driver), marker), 5, **ROOMS, workers=2)
    assert marker.exists()
    assert same(atlas, ar.explore(lambda: Disturbed(lambda: None), 5, **ROOMS, batch=8))


def test_an_episode_that_kills_whoever_plays_it_ends_the_exploration(tmp_path):
    driver, file = os.getpid(), tmp_path / "it.atlas"
    with pytest.raises(ar.EnvironmentFailure, match=r"the workers that play Disturbed died.*memory\?") as failed:
        ar.explore(lambda: Disturbed(lambda: kill_worker(driver), room=8), 5, **ROOMS, workers=2, checkpoint=file)
    assert "the same call resumes from there" in failed.value.__notes__[0]
    assert failed.value.atlas.episodes % 8 == 0
    assert same(failed.value.atlas, ar.load(file))


def test_an_environment_that_raises_stops_it_as_in_one_process(tmp_path):
    """The sentence is the same wherever it is played, and so are the batches before, which are kept."""
    kept = []
    for i, way in enumerate(({"batch": 8}, {"workers": 1}, {"workers": 3})):
        file = tmp_path / f"{i}.atlas"
        with pytest.raises(ar.EnvironmentFailure) as failed:
            ar.explore(lambda: Disturbed(lambda: 1 / 0, room=8), 5, **ROOMS, **way, checkpoint=file)
        kept.append((str(failed.value), failed.value.atlas, file.read_bytes()))
        assert "in step" in "".join(failed.value.__cause__.__notes__)  # the traceback from where it was played
    assert len({text for text, _, _ in kept}) == len({text for _, _, text in kept}) == 1
    assert kept[0][0].endswith("ZeroDivisionError, division by zero.")
    atlas = kept[0][1]
    assert atlas.episodes > 0
    assert atlas.episodes % 8 == 0
    assert same(atlas, ar.explore(Rooms, 5, **{**ROOMS, "max_episodes": atlas.episodes}, batch=8))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ({"pay": lambda *_: float("nan")}, "paid nan at step 0"),
        ({"cut": 3}, "truncated after 3 steps"),
        ({"observe": lambda s: s + 3, "space": spaces.Discrete(5)}, "is not in the space, which goes from 0 to 4"),
        ({"mask": np.ones((5, 2))}, r"info\['action_mask'\] has 2 entries"),
    ],
)
def test_bad_answers_are_refused_in_the_same_words(damage, says):
    texts = set()
    for way in ({}, {"batch": 4}, {"workers": 2}):
        with pytest.raises(ValueError, match=says) as refused:
            ar.explore(lambda: Tabular(P, **damage), 5, max_episodes=20, **way)
        texts.add(str(refused.value))
    assert len(texts) == 1


class Locked(Tabular):
    def __init__(self):
        super().__init__(P)
        self.lock = threading.Lock()  # which cannot be pickled


def test_an_environment_that_cannot_be_sent_is_one_sentence():
    with pytest.raises(ValueError, match=r"Locked cannot be sent to workers: .*Pass its id, or a function that makes it\.$"):
        ar.explore(Locked(), 5, max_episodes=20, workers=2)


def test_an_environment_that_is_another_one_whenever_it_is_made_is_refused():
    with pytest.raises(ValueError, match="is another environment whenever it is made"):
        ar.explore("FrozenLake-v1", 5, max_episodes=20, workers=2, env_args={"desc": None, "map_name": None})


def test_an_environment_that_a_worker_cannot_make_is_one_sentence(tmp_path):
    driver = os.getpid()

    def make():
        if os.getpid() != driver:
            raise OSError("no licence")
        return Rooms()

    file = tmp_path / "it.atlas"
    assert ar.explore(make, 5, **ROOMS, batch=8, checkpoint=file).episodes == 150
    with pytest.raises(ValueError, match="env is a function that makes no environment: OSError, no licence") as failed:
        ar.explore(make, 5, **{**ROOMS, "max_episodes": 170}, workers=2, checkpoint=file)
    assert "the same call resumes from there" in failed.value.__notes__[0]
    assert ar.explore(make, 5, **{**ROOMS, "max_episodes": 170}, batch=8, checkpoint=file).episodes == 170


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"workers": 0}, "workers is 0: it has to be at least 1"),
        ({"workers": 2.5}, "workers is 2.5"),
        ({"batch": 0}, "batch is 0: it has to be at least 1"),
        ({"workers": 9}, "workers is 9, but a batch has only 8 episodes to share out"),
        ({"workers": 2, "executor": ThreadPoolExecutor(1)}, "workers is given with executor"),
        ({"executor": "tcp://here:8786"}, "executor is 'tcp://here:8786': it has to be a Dask client"),
        ({"workers": 2, "algorithm": "jin2020"}, "workers is given, but .* cannot play episodes side by side"),
    ],
)
def test_what_does_not_go_together_is_said_before_anything_is_played(options, says):
    with pytest.raises(ValueError, match=says):
        ar.explore(Rooms, 5, max_episodes=20, max_states=12, **options)


def test_a_known_model_needs_no_workers():
    with pytest.raises(ValueError, match="workers is for Gymnasium environments: a known model is simulated at compiled speed"):
        ar.explore("double-chain", 5, max_episodes=20, workers=2)


# Durable


def test_another_batch_is_another_exploration(tmp_path):
    file = tmp_path / "it.atlas"
    ar.explore(Rooms, 5, **ROOMS, batch=8, checkpoint=file)
    for other in ({"batch": 4}, {}):
        with pytest.raises(ValueError, match="its batch is not the same"):
            ar.explore(Rooms, 5, **ROOMS, **other, checkpoint=file)


DRIVER = """
import os, signal, sys
import anyreward as ar
from anyreward.environments.parallel import ParallelEnvironment
from tests.helpers.checkpoints import Rooms

file, moment, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
replayed, count = ParallelEnvironment._replayed, 0

def counting(self, *arguments):
    global count
    count += 1
    if count == moment:
        os.kill(os.getpid(), signal.SIGKILL)
    return replayed(self, *arguments)

ParallelEnvironment._replayed = counting
options = {"max_states": 12, "record": True, "max_episodes": 200, "seed": 3}
ar.explore(Rooms, 5, **options, workers=workers, checkpoint=file, checkpoint_every=1e-9)
"""


@pytest.mark.slow
def test_a_driver_that_is_killed_resumes_to_the_same_bytes(tmp_path):
    """kill -9 in the middle of a batch, again and again, with other numbers of workers each time; none of them matters."""
    whole, cut = tmp_path / "whole.atlas", tmp_path / "cut.atlas"
    for moment, workers in ((45, 2), (30, 3), (61, 1)):
        assert script(DRIVER, cut, moment, workers).returncode == -signal.SIGKILL
        assert read(cut)[0].episodes % 8 == 0
    assert script(DRIVER, cut, -1, 2).returncode == 0
    ar.explore(Rooms, 5, **{**ROOMS, "max_episodes": 200}, batch=8, checkpoint=whole)
    assert cut.read_bytes() == whole.read_bytes()


def test_ctrl_c_ends_with_a_whole_batch(tmp_path):
    file = tmp_path / "it.atlas"

    told = []

    def interrupt(t, _):
        if t >= 24 and not told:
            told.append(t)
            os.killpg(0, signal.SIGINT) if os.getpgrp() == os.getpid() else signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        atlas = ar.explore(Rooms, 5, **ROOMS, workers=2, checkpoint=file, progress=interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    assert 24 <= atlas.episodes < 150
    assert atlas.episodes % 8 == 0
    assert same(ar.explore(Rooms, 5, **ROOMS, workers=2, checkpoint=file), ar.explore(Rooms, 5, **ROOMS, batch=8))


def test_gymnasium_is_what_it_is(tmp_path):
    """Taxi, with its masks: in one process or in two."""
    assert isinstance(gymnasium.make("Taxi-v3"), gymnasium.Env)
    options = {"max_episodes": 40, "stationary": True}
    assert same(ar.explore("Taxi-v3", 20, **options, batch=8), ar.explore("Taxi-v3", 20, **options, workers=2))


# Vector environments


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
@pytest.mark.parametrize("env", [lossy, lambda: Tabular(P, mask=MASK, cut=5, start=np.full(5, 0.2))], ids=["ends", "is cut off"])
def test_a_vector_environment_plays_the_same(kind, mode, env):
    """Whatever it does with parts that have ended, and although its parts do not share out a batch of 8 evenly."""
    vector = kind([env] * 3, autoreset_mode=mode)
    atlas, expected = (ar.explore(it, 5, max_episodes=70, batch=8) for it in (vector, env))
    vector.close()
    assert same(atlas, expected)
    assert atlas.certificate == expected.certificate


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_vector_without_shared_memory_plays_the_same_or_is_refused(mode):
    """Gymnasium's first step after a reset is another reset there, in one mode: it would be counted as a transition."""
    vector = AsyncVectorEnv([Rooms] * 3, autoreset_mode=mode, shared_memory=False)
    if mode is AutoresetMode.NEXT_STEP:
        with pytest.raises(ValueError, match=r"make it with autoreset_mode=AutoresetMode\.SAME_STEP"):
            ar.explore(vector, 5, **ROOMS, batch=8)
    else:
        assert same(ar.explore(vector, 5, **ROOMS, batch=8), ar.explore(Rooms, 5, **ROOMS, batch=8))
    vector.close()


@pytest.mark.parametrize("env", [Rooms, Careless])
def test_n_envs_make_a_vector(env):
    assert same(ar.explore(env, 5, **ROOMS, n_envs=3), ar.explore(env, 5, **ROOMS, batch=8))


def test_a_vector_whose_parts_differ_is_refused():
    slippery, dry = (lambda wet=wet: gymnasium.make("FrozenLake-v1", is_slippery=wet) for wet in (True, False))
    with pytest.raises(ValueError, match="env is a vector whose parts differ"):
        ar.explore(SyncVectorEnv([slippery, dry]), 5, max_episodes=20)
    larger = transitions(6, 3, seed=0)
    sizes = SyncVectorEnv([lambda: Tabular(P), lambda: Tabular(larger)], observation_mode="different")
    with pytest.raises(ValueError, match="env is a vector whose parts differ"):
        ar.explore(sizes, 5, max_episodes=20)
    other = transitions(5, 3, seed=1)
    with pytest.raises(ValueError, match="a copy of Tabular plays another episode"):
        ar.explore(SyncVectorEnv([lambda: Tabular(P), lambda: Tabular(other)]), 5, max_episodes=20)


def test_a_vector_of_other_kinds_is_refused():
    class Own(gymnasium.vector.VectorEnv):
        num_envs = 2

    with pytest.raises(ValueError, match="env is a Own, whose parts cannot be had one by one"):
        ar.explore(Own(), 5, max_episodes=20)


@pytest.mark.filterwarnings("ignore")  # Gymnasium's own, about the error
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_vector_that_raises_stops_it_with_whole_batches(kind, tmp_path):
    file = tmp_path / "it.atlas"

    def broken():
        return Disturbed(lambda: 1 / 0, room=8)

    env, options = (SyncVectorEnv([broken] * 2), {}) if kind == "sync" else (broken, {"n_envs": 2})
    with pytest.raises(ar.EnvironmentFailure, match=r"Disturbed failed, playing .*division by zero\.") as failed:
        ar.explore(env, 5, **ROOMS, **options, checkpoint=file)
    assert failed.value.atlas.episodes > 0
    assert failed.value.atlas.episodes % 8 == 0
    assert same(failed.value.atlas, ar.load(file))


def test_what_does_not_go_with_a_vector_is_said():
    vector = SyncVectorEnv([Rooms] * 3)
    for options, says in (
        ({"workers": 2}, "workers is given with a vector environment"),
        ({"batch": 2}, "the vector has 3 environments, but a batch has only 2 episodes"),
        ({"step_timeout": 5.0}, "step_timeout is given with a vector environment"),
        ({"algorithm": "jin2020"}, "env is a vector environment, but .* cannot play episodes side by side"),
    ):
        with pytest.raises(ValueError, match=says):
            ar.explore(vector, 5, max_episodes=20, max_states=12, **options)
    with pytest.raises(ValueError, match="n_envs is 9, but a batch has only 8 episodes"):
        ar.explore(Rooms, 5, max_episodes=20, max_states=12, n_envs=9)


@pytest.mark.parametrize("address", ["nonsense", "tcp://nowhere", "tcp://here:there"])
def test_a_scheduler_that_is_no_address_is_refused_at_once(address):
    pytest.importorskip("distributed")
    with pytest.raises(ValueError, match=f"there is no Dask scheduler at {address}: "), cluster(address):
        pass

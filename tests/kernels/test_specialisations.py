"""How much is compiled for the first use, which a new user waits for: in functions, since seconds depend on the machine."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from ..helpers.waiting import PATIENCE

COUNT = """
import json
from numba.core import event
import anyreward as ar

class Listener(event.Listener):
    def on_start(self, about):
        function = about.data["dispatcher"].py_func
        names.append(f"{function.__module__}.{function.__qualname__}")
    def on_end(self, about):
        pass

found, mdp = [], ar.envs.double_chain(5)
with event.install_listener("numba:compile", Listener()):
    for use in USES:
        names = []
        exec(use)
        found.append(names)
print(json.dumps(found))
"""
EXPLORE = "ar.explore(mdp, 4, max_episodes=50).plan(mdp.reward)"
CALIBRATED = "ar.explore(mdp, 4, epsilon=2.0, bounds='calibrated', max_episodes=5_000).plan(mdp.reward)"
NEVER = "write_policy", "with_pay", "argsort", "quicksort", "unicode"
IDENTIFY = "ar.identify(mdp, mdp.reward, 4, epsilon=1.0, max_episodes=50)"
FORMS = """
import numpy as np
import anyreward as ar
from anyreward import kernels

def forms():
    modules = [getattr(kernels, name) for name in kernels.__all__]
    found = {(m.__name__, name): kernel for m in modules for name, kernel in vars(m).items() if hasattr(kernel, "signatures")}
    return {name: len(kernel.signatures) for name, kernel in found.items()}

def plan(reward=None, **options):
    atlas = ar.explore(mdp, 4, **{"max_episodes": 50, **options})
    return atlas.plan(mdp.reward if reward is None else reward)

mdp = ar.envs.double_chain(5)
plan()
before = forms()
USES
after = forms()
print([name for name in after if after[name] > max(1, before[name])], sum(before.values()))
"""
THE_SAME = """
plan(stationary=True)
plan(discount=np.float32(0.5))
plan(discount=1)
plan(epsilon=1)
plan(epsilon=np.float32(1))
plan(max_episodes=np.int32(50), seed=np.int64(2))
plan(max_successors=np.int16(3))
plan(deterministic=False, bounds="tight", delta=np.float32(0.25))
plan(replan="every")
plan(np.zeros((5, 2), int))
plan(np.asfortranarray(np.zeros((4, 5, 2))))
plan(np.zeros((4, 5, 2), np.float32)[::-1])
ar.explore(ar.TabularMDP(mdp.dense(), initial=np.full(5, 0.2)), 4, max_episodes=50).plan(np.zeros(5)).policy
"""


def output_of(script, folder, cache=None):
    """With a cache of its own, everything is compiled: the same functions, but optimised as little as possible, to save time."""
    settings = os.environ if cache is None else {**os.environ, "NUMBA_CACHE_DIR": str(cache), "NUMBA_OPT": "0"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=settings, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """What is compiled for each use, one after the other in one process; so for the later ones what the earlier ones left."""
    folder, uses = tmp_path_factory.mktemp("cache"), {"calibrated": CALIBRATED, "explore": EXPLORE, "identify": IDENTIFY}
    lists = json.loads(output_of(COUNT.replace("USES", repr(list(uses.values()))), folder, folder))
    return dict(zip(uses, map(Counter, lists), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("use", "most", "twice", "of_numba", "never"),
    [
        ("calibrated", 122, 10, 40, ("trajectory.search", "is_above", "rollout_each", *NEVER)),
        ("explore", 33, 2, 16, NEVER),
        ("identify", 34, 4, 4, ("argsort", "unicode")),
    ],
)
def test_little_is_compiled_for_the_first_use(compiled, use, most, twice, of_numba, never):
    """When this was written: 110 of our functions and 37 of Numba's for exploring and planning, 62 and 13 for BPI-UCRL. To make
    them so few halved the time of the first use. After calibrated bounds, which take 120 and 30, they are 33 and 13 more for
    exploring and planning, and then 32 and 1 more for BPI-UCRL. What this would notice:

    - A constant, an int32 or a uint32 that is handed from kernel to kernel makes another form of all that it reaches: the second
      limit, on how many forms there are beyond the first of each function.
    - A NumPy function that is convenient in a kernel and takes a second to compile: an assignment of one slice to another formats
      an error message, and a sort has many parts. The third limit, and the names.
    - A branch that is compiled but not taken, as writing policies down or rewards on arrival would be: the first limit, and the
      names.
    """
    found = compiled[use]
    ours = Counter({name: times for name, times in found.items() if name.startswith("anyreward.")})
    assert 20 < ours.total() <= most
    assert ours.total() - len(ours) <= twice
    assert found.total() - ours.total() <= of_numba
    assert not [name for name in found if any(part in name for part in never)]


def test_what_is_compiled_does_not_depend_on_how_something_is_written(tmp_path):
    """NumPy numbers in place of whole numbers, or a reward in Fortran order, once had everything compiled again."""
    new, known = output_of(FORMS.replace("USES", THE_SAME), tmp_path).rsplit(maxsplit=1)
    assert int(known) > 8
    assert new == "[]"


def test_another_form_is_noticed(tmp_path):
    """The test above can fail."""
    new = output_of(FORMS.replace("USES", "kernels.radii.kl_up(0.5, 1); kernels.radii.kl_up(0.5, 1.0)"), tmp_path)
    assert "kl_up" in new

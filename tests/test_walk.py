"""How far one has to walk through the code to follow an episode or a plan: the calls that lead from one file to another.

A call counts if the caller and the called function are Python of this library, in different files. The limits are half of what
the walk once was (125 and 34). Whoever adds a call to it sees the whole walk in the error; what is checked already need not be
checked again, what does not change need not be asked for again, and what two files share belongs in one of them.
"""

import os
import sys

import numpy as np
import pytest

import anyreward as ar

ROOT = os.path.dirname(ar.__file__)
LIMITS = {"an episode of explore": 62, "a plan": 16}
H = 20


def walk(what):
    """The calls from one file of the library to another while `what` is called, in order."""
    calls = []

    def note(frame, event, _):
        here, back = frame.f_code, frame.f_back
        if event == "call" and here.co_filename.startswith(ROOT) and back is not None:
            there = back.f_code
            if there.co_filename.startswith(ROOT) and there.co_filename != here.co_filename:
                names = [os.path.relpath(code.co_filename, ROOT) + ": " + code.co_qualname for code in (there, here)]
                calls.append(" -> ".join(names))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        what()
    finally:
        sys.setprofile(before)
    return calls


@pytest.fixture(scope="module")
def walks():
    mdp = ar.envs.double_chain()
    atlas = ar.explore(mdp, H, max_episodes=100, progress=False)
    atlas.plan(mdp.reward)  # what an atlas finds out for its first plan serves all others
    other = np.linspace(0.0, 1.0, mdp.n_states)
    return {  # all is compiled and imported now
        "an episode of explore": walk(lambda: ar.explore(mdp, H, max_episodes=1)),
        "a plan": walk(lambda: atlas.plan(other)),
    }


def test_only_calls_between_files_of_the_library_count(walks):
    assert walk(lambda: np.linspace(0.0, 1.0, 3)) == []
    assert walk(lambda: ar.Setting(n_states=2, n_actions=2, horizon=2, initial_state=0)) == []  # in one file
    calls = walk(lambda: ar.Counts(ar.Setting(n_states=2, n_actions=2, horizon=2)))
    assert calls == ["data/counts.py: Counts.__init__ -> data/declarations.py: marks_of"]


@pytest.mark.parametrize("what", LIMITS)
def test_the_walk_through_the_code_is_short(what, walks):
    calls = walks[what]
    assert len(calls) <= LIMITS[what], f"{what} changes the file {len(calls)} times:\n" + "\n".join(calls)
    assert len(calls) > LIMITS[what] // 2  # otherwise they are not counted, or the limit should come down

"""A checkpoint of another exploration, or a file that is none: refused, with the difference named, and left alone."""

import gymnasium
import numpy as np
import pytest

import anyreward as ar

from ..helpers.checkpoints import H, Wanderer, chain, go, reward


def refused(path, names, call):
    before = path.read_bytes()
    with pytest.raises(ValueError, match=names) as caught:
        call()
    text = str(caught.value)
    assert str(path) in text
    assert text.endswith(".")
    assert "\n" not in text
    assert path.read_bytes() == before
    return True


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"env": ar.envs.double_chain(length=7, fail_prob=0.2)}, "env"),
        ({"env": ar.envs.double_chain(length=5)}, "env|setting"),
        ({"env": "FrozenLake-v1"}, "env"),
        ({"horizon": H + 1}, "setting|horizon"),
        ({"discount": 0.9}, "setting|discount"),
        ({"stationary": True}, "setting|stationary"),
        ({"arrival_rewards": True}, "setting|arrival_rewards"),
        ({"absorbing_states": (0,)}, "env|setting|absorbing_states"),
        ({"delta": 0.2}, "delta"),
        ({"algorithm": "rf-ucrl"}, "algorithm"),
        ({"algorithm": Wanderer}, "algorithm"),
        ({"bounds": "paper"}, "bounds"),
        ({"max_successors": 3}, "bounds|max_successors"),
        ({"transfer": False}, "bounds|transfer"),
        ({"seed": 12}, "seed"),
        ({"replan": "every"}, "options|replan"),
        ({"ties": "first"}, "options|ties"),
        ({"growth": 1.5}, "options|growth"),
        ({"record": True}, "record"),
    ],
)
def test_the_checkpoint_of_another_exploration_is_refused_and_the_difference_named(tmp_path, change, names):
    path = tmp_path / "it"
    call = {"env": chain(), "horizon": H, "max_episodes": 50, "seed": 11, "progress": False, "checkpoint": path}
    ar.explore(**call)
    if change == {"absorbing_states": (0,)}:  # a state that is never left, said or not
        P = np.full((3, 2, 3), 1 / 3)
        P[0] = [1, 0, 0]
        call["env"] = ar.TabularMDP(P, initial=1)
        path.unlink()
        ar.explore(**call)
    assert refused(
        path, f"checkpoint of another exploration, its ({names}) (is|are) not the same", lambda: ar.explore(**{**call, **change})
    )


def closure(pay):
    return lambda h, s, a: pay if s == 6 else 0.0


def test_a_reward_that_is_another_one_is_noticed(tmp_path):
    """Also when both are functions with the same name: going on would certify one reward with the values of another."""
    for i, (one, other) in enumerate(
        [
            (reward(), reward() / 2),
            (reward()[:, 0], reward()[:, 1]),
            (closure(1.0), closure(0.25)),
            ("state == 6", "state == 5"),
        ]
    ):
        path = tmp_path / f"{i}"
        go("bpi known", path, 0.01, reward=one)
        assert go("bpi known", path, 0.01, reward=one).episodes == 100
        assert refused(path, "another exploration", lambda path=path, other=other: go("bpi known", path, 0.02, reward=other))


class Line(gymnasium.Env):
    """A place in [0, 1]."""

    def __init__(self):
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0.5
        return np.array([self.x]), {}

    def step(self, action):
        self.x = self.np_random.random()
        return np.array([self.x]), 0.0, False, False, {}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*divided into bins")
@pytest.mark.parametrize("change", [{"bins": [[0.2, 0.8]]}, {"bins": [3]}, {"terminal": "end"}, {"initial_state": 1}])
def test_an_environment_that_is_seen_otherwise_is_noticed(tmp_path, change):
    """Other bins number other states: counts of both together would be counts of nothing."""
    path = tmp_path / "it"
    call = {"env": Line, "horizon": 3, "max_episodes": 40, "progress": False, "checkpoint": path, "bins": [[0.4, 0.6]]}
    call["terminal"] = "state"
    ar.explore(**call)
    assert refused(path, "another exploration", lambda: ar.explore(**{**call, "max_episodes": 80, **change}))


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"env_args": {"is_slippery": False}}, {"env_args": {"map_name": "8x8"}}, {"max_states": 16}])
def test_an_environment_made_otherwise_is_noticed(tmp_path, change):
    path = tmp_path / "it"
    go("frozen lake", path, 0.05)
    assert refused(path, "another exploration", lambda: go("frozen lake", path, 0.1, **change))


def test_an_atlas_that_is_no_checkpoint_is_refused(tmp_path):
    path = tmp_path / "it"
    go("path", None, 0.01).save(path)
    assert refused(path, "is an atlas, but not a checkpoint that can be resumed", lambda: go("path", path))


@pytest.mark.parametrize("content", [b"", b"notes of mine\n", b"PAR1", b"PAR1" * 100, bytes(range(256)) * 40])
def test_a_file_that_is_no_atlas_is_neither_taken_up_nor_overwritten(tmp_path, content):
    path = tmp_path / "it"
    path.write_bytes(content)
    assert refused(path, "atlas|cut short|damaged", lambda: go("path", path, 0.01))


@pytest.mark.slow
def test_a_checkpoint_that_is_damaged_is_neither_taken_up_nor_overwritten(tmp_path):
    path = tmp_path / "it"
    go("path", path, 0.01)
    whole = path.read_bytes()
    for at in range(0, len(whole), 211):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        assert refused(path, "is not an atlas|is damaged|was cut short|is a Parquet file but not", lambda: go("path", path, 0.05))
        path.write_bytes(whole[:at])
        assert refused(path, "is not an atlas|was cut short", lambda: go("path", path, 0.05))

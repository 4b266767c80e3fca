"""Forgeries with a purpose: each of these once gave a certificate or an interval that was false, or took time without bound."""

import time

import numpy as np
import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.atlas import container
from anyreward.cli import app
from anyreward.data.counts import Counts
from anyreward.environments.tabular import is_ahead

from ..helpers.tabular import Tabular, transitions

pytestmark = pytest.mark.usefixtures("quick_look")


def forged(path, change):
    """A file whose parts were changed, with the right checksum."""
    columns, about, arrays = container.read(path)
    change(columns, about, arrays)
    container.write(path, columns, about, arrays)
    return path


def of_counts(path, setting, columns, known=None, **certificate):
    """A file of invented counts with an honest certificate, but for what is said otherwise."""
    counts = Counts.from_columns(setting, {name: np.array(column) for name, column in columns.items()}, known)
    ar.Atlas(counts, ar.certify(counts, 0.1)).save(path)
    return forged(path, lambda columns, about, arrays: about["certificate"].update(certificate))


def test_a_generator_is_that_of_the_seed(tmp_path):
    """With a state of zeros, every later draw of a model was the same: an interval [0.008, 0.127] where the optimum is 1."""
    mdp = ar.TabularMDP(np.full((2, 1, 2), 0.5), 0)
    path = tmp_path / "it.atlas"
    ar.explore(mdp, 3, max_episodes=4, checkpoint=path, seed=1)
    honest = path.read_bytes()
    draws = np.random.default_rng(5).integers(2**63, size=4).tolist()
    for number in (0, 1, 2**127 + 1, draws[0] * 2**64 + draws[1]):
        for inc in (0, None):
            path.write_bytes(honest)

            def change(columns, about, arrays, number=number, inc=inc):
                state = about["progress"]["world"]["generator"]["state"]
                state.update(state=number, inc=state["inc"] if inc is None else inc)

            forged(path, change)
            with pytest.raises(ValueError, match="its generator is not that of its seed"):
                ar.explore(mdp, 3, max_episodes=400, checkpoint=path, seed=1)
    path.write_bytes(honest)
    assert ar.explore(mdp, 3, max_episodes=400, checkpoint=path, seed=1).episodes == 400


@pytest.mark.parametrize("draws", [0, 1, 2, 3, 1000, 2**33 + 7, 2**63])
def test_how_far_a_generator_is_ahead(draws):
    a, b = np.random.default_rng(3).bit_generator, np.random.default_rng(3).bit_generator
    b.advance(draws)
    assert is_ahead(a.state, b.state)
    assert draws == 0 or not is_ahead(b.state, a.state)
    assert not is_ahead(np.random.default_rng(4).bit_generator.state, b.state)


@pytest.mark.parametrize(
    "lie",
    [
        {"met": True},
        {"met": True, "target": 1e-9},
        {"episodes": 10**12},
        {"reward_range": [0.0, 1e9]},
        {"reward_range": [-1.0, 1.0]},
        {"reward_range": [0.0, 1e9], "epsilon": 0.01},
    ],
)
def test_every_field_of_a_certificate_for_one_reward_is_checked(tmp_path, lie):
    path = tmp_path / "it.atlas"
    ar.identify("double-chain", "state == 1", 5, max_episodes=300).save(path)
    assert not ar.load(path).certificate.met
    forged(path, lambda columns, about, arrays: about["certificate"].update(lie))
    with pytest.raises(ValueError, match="its certificate does not follow"):
        ar.load(path)


@pytest.mark.parametrize("lie", [{"reward_range": [-5.0, 1e9], "epsilon": 1e-3}, {"reward_range": [0.0, 0.5]}])
def test_a_claimed_range_does_not_make_the_check_of_another_reward_tolerant(tmp_path, lie):
    """A reward outside [0, 1]: its range is stated, and rounding is that of the reward, whatever range a file claims."""
    path = tmp_path / "it.atlas"
    ar.identify("double-chain", "10 * (state == 1) - 5", 5, max_episodes=300, reward_range=(-5, 5)).save(path)
    forged(path, lambda columns, about, arrays: about["certificate"].update(lie))
    with pytest.raises(ValueError, match=r"does not follow|its reward is damaged"):
        ar.load(path)


def test_ends_and_masks_of_states_that_were_never_met_are_printed_as_declared(tmp_path):
    """Once, marks on states that no episode had seen gave epsilon 0 after one episode, and no word about it."""
    setting = ar.Setting(n_states=5, n_actions=2, horizon=3, initial_state=0, terminal="state")
    columns = {"h": [-1, 0, 1, 2], "s": [0] * 4, "a": [0] * 4, "next": [0] * 4, "count": [1] * 4}
    known = np.array([[pair, 1] for pair in range(10)])
    path = of_counts(tmp_path / "it.atlas", setting, columns, known)
    assert "never left, as declared: states 1, 2, 3 and 4" in str(ar.load(path).certificate)
    forged(path, lambda columns, about, arrays: about["certificate"].update(assumed=[]))
    with pytest.raises(ValueError, match="does not follow"):
        ar.load(path)
    setting = ar.Setting(n_states=5, n_actions=2, horizon=3, initial_state=0, hidden_masks=True)
    known = np.array([[pair, 0 if pair < 2 else 2 * (pair % 2)] for pair in range(10)])
    path = of_counts(tmp_path / "it.atlas", setting, columns, known)
    assert "illegal actions as declared: in states 1, 2, 3 and 4" in str(ar.load(path).certificate)


def test_what_an_environment_told_is_what_the_counts_say(tmp_path):
    """Masks that were only in the counts of a checkpoint were never compared with those of the environment."""
    path = tmp_path / "it.atlas"
    ar.explore(Tabular(transitions(3, 2)), 3, max_episodes=32, checkpoint=path)
    again = tmp_path / "again.atlas"
    again.write_bytes(path.read_bytes())

    def mark(columns, about, arrays):
        rows = arrays["state.known"]
        unseen = rows[rows[:, 0] % 2 == 1, 0]
        assert len(unseen)
        world = about["progress"]["world"]
        world["allowed"] = [[int(pair) // 2, [0]] for pair in unseen]

    forged(again, mark)
    with pytest.raises(ValueError, match="cannot be resumed"):
        ar.explore(Tabular(transitions(3, 2)), 3, max_episodes=64, checkpoint=again)

    def less(columns, about, arrays):
        about["progress"]["world"]["alive"] = [[], []]

    forged(path, less)
    with pytest.raises(ValueError, match="not what it says that the environment told"):
        ar.explore(Tabular(transitions(3, 2)), 3, max_episodes=64, checkpoint=path)


def test_nothing_is_paid_for_a_start(tmp_path):
    """Payments on the row of a start once replaced those of the last step."""
    setting, n = ar.Setting(n_states=1, n_actions=1, horizon=1, initial_state=0), 1000
    columns = {"h": [0, -1], "s": [0, 0], "a": [0, 0], "next": [0, 0], "count": [n, n]}
    path = of_counts(tmp_path / "it.atlas", setting, columns)

    def pay(columns, about, arrays):
        start = columns["h"] == -1
        for name, value in (("payments", n), ("paid", n * start), ("least", 1 * start), ("most", 1 * start)):
            columns[name] = np.zeros(2) + value

    forged(path, pay)
    with pytest.raises(ValueError, match="observed rewards is damaged"):
        ar.load(path)


@pytest.mark.parametrize("delta", [5e-324, 1e-305])
def test_a_delta_that_cannot_be_shared_is_refused(tmp_path, delta):
    with pytest.raises(ValueError, match="it has to be at least 1e-300"):
        ar.explore("double-chain", 3, max_episodes=5, delta=delta)
    path = tmp_path / "it.atlas"
    ar.explore("double-chain", 3, max_episodes=5).save(path)
    forged(path, lambda columns, about, arrays: about["certificate"].update(delta=delta, transition_delta=delta))
    with pytest.raises(ValueError, match="its certificate is damaged"):
        ar.load(path)


@pytest.mark.parametrize("number", [float("nan"), 2.5, True, "3", 0, None])
def test_a_format_is_a_whole_number(tmp_path, number):
    path = tmp_path / "it.atlas"
    ar.explore("double-chain", 3, max_episodes=5).save(path)
    forged(path, lambda columns, about, arrays: about.update(format=number))
    with pytest.raises(ValueError, match="does not name its format"):
        ar.load(path)


@pytest.mark.parametrize(("n_states", "horizon"), [(64, 2**16), (2048, 2**16)])
def test_a_small_stationary_file_asks_for_little_time(tmp_path, n_states, horizon):
    """The horizon of pooled counts is no size of theirs, but of every pass over them."""
    setting = ar.Setting(n_states=n_states, n_actions=1, horizon=2, initial_state=0, stationary=True)
    edges = min(n_states, 4000)
    rows = np.arange(edges)
    columns = {
        "h": np.append(-1, 0 * rows), "s": np.append(0, rows % 60), "a": np.zeros(edges + 1, int),
        "next": np.append(0, rows // 60 % n_states), "count": np.append(1, 0 * rows + 1),
    }  # fmt: skip
    path = of_counts(tmp_path / "it.atlas", setting, columns)
    forged(path, lambda columns, about, arrays: about["certificate"]["setting"].update(horizon=horizon))
    begin = time.process_time()
    with pytest.raises(ValueError, match=r"does not hold a valid atlas"):
        ar.load(path)
    assert time.process_time() - begin < 5


def test_runs_of_no_episodes_are_not_counted_one_by_one(tmp_path):
    path = tmp_path / "it.atlas"
    ar.explore("double-chain", 3, max_episodes=2, record=True).save(path)
    forged(path, lambda columns, about, arrays: about.update(recorded=[0] * 20_000 + [2]))
    with pytest.raises(ValueError, match="its recording is damaged"):
        ar.load(path)


def test_a_great_expression_on_many_cells_is_refused():
    from anyreward.rewards.expressions import reward_of

    text = "max(" + ", ".join(["exp(0*state*action*step)"] * 60) + ")"
    with pytest.raises(ValueError, match="too many parts for its"):
        reward_of(text, 10_000, 10, 200)


def test_a_grid_that_no_terminal_could_show_is_not_shown(tmp_path):
    setting = ar.Setting(n_states=2**20, n_actions=1, horizon=1, initial_state=0)
    columns = {"h": [-1, 0], "s": [0, 0], "a": [0, 0], "next": [0, 0], "count": [1, 1]}
    path = of_counts(tmp_path / "it.atlas", setting, columns)
    forged(path, lambda columns, about, arrays: about.update(source={"grid": [2**20, 1]}))
    result = CliRunner().invoke(app, ["info", str(path)])
    assert result.exit_code == 0
    assert len(result.output) < 5000


@pytest.mark.parametrize("name", ["epsilon", "delta", "discount"])
def test_numbers_of_hundreds_of_digits_are_one_sentence(name):
    with pytest.raises(ValueError, match=f"{name} is 1000.*: it has to be a number"):
        ar.explore("double-chain", 3, **{"epsilon": 1.0, name: 10**400})


def test_what_an_environment_raises_when_it_is_made_or_looked_at_is_one_sentence():
    class Odd(Tabular):
        @property
        def observation_space(self):
            raise RuntimeError("not yet")

        @observation_space.setter
        def observation_space(self, space):
            pass

    with pytest.raises(ValueError, match="the spaces of Odd cannot be looked at: RuntimeError, not yet"):
        ar.explore(Odd(transitions(3, 2)), 3, max_episodes=5)
    with pytest.raises(ValueError, match="env is a function that makes no environment: ZeroDivisionError"):
        ar.explore(lambda: 1 / 0, 3, max_episodes=5)
    with pytest.raises(ValueError, match="'FrozenLake-v1' cannot be made: KeyError, 'x'"):
        ar.explore("FrozenLake-v1", 3, max_episodes=5, env_args={"map_name": "x"})

"""Environments of one's own on the command line: package.module:Name."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.cli import app

SHOP = '''
import gymnasium
import anyreward as ar

class Shop(gymnasium.Env):
    """Stock grows by action 1, most of the time, and a full shelf pays."""

    def __init__(self, size=3):
        self.size = size
        self.observation_space = gymnasium.spaces.Discrete(size)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.stock = 0
        return 0, {}

    def step(self, action):
        self.stock = min(self.size - 1, self.stock + 1) if action and self.np_random.random() < 0.9 else 0
        return self.stock, float(self.stock == self.size - 1), False, False, {}

class Shops:
    corner = Shop

gymnasium.register("AnyrewardShop-v0", Shop)
model = ar.envs.double_chain
ready = ar.envs.double_chain(5)
binned = ar.Gymnasium(Shop(4), initial_state=0)
number = 3
steps = ar.Structure(law=lambda s, a: a, outcomes=(-1, 1), successor=lambda s, a, x: min(max(s + x, 0), 4))

def nothing():
    return number

def ends():
    raise SystemExit("no")

def made():
    return steps
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with modules of a user's own."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "anyreward_shop.py").write_text(SHOP)
    (folder / "anyreward_torn.py").write_text("raise RuntimeError('torn\\nin two')\n")
    (folder / "anyreward_chain").mkdir()
    (folder / "anyreward_chain" / "__init__.py").write_text("")
    (folder / "anyreward_chain" / "shops.py").write_text("from anyreward_shop import Shop\n")
    return folder


@pytest.fixture
def here(folder, monkeypatch):
    """The same folder as the current one; the path is as it was afterwards."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return folder


def said(*arguments, code=0):
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


@pytest.mark.parametrize(
    ("env", "states"),
    [
        (("anyreward_shop:Shop",), "Shop: 3 states"),
        (("anyreward_shop:Shop", "--env-arg", "size=5"), "Shop: 5 states"),
        (("anyreward_shop:Shops.corner",), "Shop: 3 states"),
        (("anyreward_chain.shops:Shop",), "Shop: 3 states"),
        (("anyreward_shop:AnyrewardShop-v0",), "AnyrewardShop-v0: 3 states"),
        (("anyreward_shop:AnyrewardShop-v0", "--env-arg", "size=5"), "AnyrewardShop-v0: 5 states"),
        (("anyreward_shop:model", "--env-arg", "length=7"), ": 7 states"),
        (("anyreward_shop:ready",), ": 5 states"),
        (("anyreward_shop:binned",), "Shop: 4 states"),
    ],
)
def test_a_module_of_ones_own_is_audited(here, env, states):
    assert states in said("audit", *env, "--horizon", "3")


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        (("anyreward_shop:Shp",), "the module anyreward_shop has no 'Shp'; perhaps 'Shop' is meant."),
        (("anyreward_shop:number",), "anyreward_shop:number is of the type int: it has to be an environment, or make one."),
        (("anyreward_shop:nothing",), "made something of the type int: it has to make a Gymnasium environment or a TabularMDP."),
        (("anyreward_shop:ends",), "anyreward_shop:ends cannot be made: SystemExit, no."),
        (("anyreward_shop:Shop", "--env-arg", "height=3"), "unexpected keyword argument 'height'."),
        (("anyreward_shop:ready", "--env-arg", "length=3"), "--env-arg is for classes and functions"),
        (("anyreward_nowhere:Shop",), "the module anyreward_nowhere cannot be imported: ModuleNotFoundError"),
        (("anyreward_torn:Shop",), "the module anyreward_torn cannot be imported: RuntimeError, torn in two."),
        (("anyreward_shop:",), "ENV is 'anyreward_shop:': write package.module:Name"),
        (("any-reward:Shop",), "write package.module:Name"),
    ],
)
def test_what_cannot_be_made_is_said_in_one_sentence(here, env, sentence):
    errors = said("audit", *env, "--horizon", "3", code=2)
    assert sentence in errors
    assert errors.count("\n") == 1


def test_a_name_without_a_colon_imports_nothing_and_leaves_the_path_alone(here):
    before = list(sys.path)
    assert "5 states" in said("audit", "double-chain", "--env-arg", "length=5", "--horizon", "3")
    assert sys.path == before


@pytest.mark.slow
def test_the_script_explores_what_lies_in_the_current_folder_and_resumes(folder, tmp_path):
    """In a process of its own, whose path does not have the current folder."""
    call = [
        sys.executable,
        "-P",
        "-m",
        "anyreward",
        "explore",
        "anyreward_shop:Shop",
        "--horizon",
        "3",
        "--out",
        "shop.atlas",
        "--quiet",
    ]
    for budget in (("--max-episodes", "20"), ("--max-episodes", "40", "--resume")):
        assert subprocess.run([*call, *budget], cwd=folder, check=False).returncode == 3  # which says nothing yet
    atlas = ar.load(folder / "shop.atlas")
    assert atlas.episodes == 40
    assert atlas.source["env"] == "Shop"


@pytest.mark.parametrize("structure", ["anyreward_shop:steps", "anyreward_shop:made", "own"])
def test_a_structure_of_ones_own_is_declared(here, structure, tmp_path):
    out = tmp_path / "some.atlas"
    arguments = ("anyreward_shop:ready", "--horizon", "6", "--max-episodes", "300", "--structure", structure, "--out", str(out))
    assert "10 states and actions share 2 laws" in said("explore", *arguments)
    assert ar.load(out).episodes == 300
    assert (
        ar.load(out).certificate.epsilon
        < ar.explore(ar.envs.double_chain(5), 6, max_episodes=300, stationary=True).certificate.epsilon
    )


@pytest.mark.parametrize(
    ("structure", "sentence"),
    [
        ("steps", "--structure is 'steps': write package.module:Name for a structure of your own."),
        ("anyreward_shop:stps", "the module anyreward_shop has no 'stps'; perhaps 'steps' is meant."),
        ("anyreward_shop:number", "anyreward_shop:number is of the type int: it has to be an ar.Structure, or to make one."),
        ("anyreward_shop:nothing", "anyreward_shop:nothing is of the type int: it has to be an ar.Structure, or to make one."),
        ("anyreward_shop:ends", "anyreward_shop:ends cannot be made: SystemExit, no."),
    ],
)
def test_what_is_no_structure_is_said_in_one_sentence(here, structure, sentence, tmp_path):
    arguments = ("anyreward_shop:ready", "--horizon", "6", "--max-episodes", "9", "--out", str(tmp_path / "some.atlas"))
    errors = said("explore", *arguments, "--structure", structure, code=2)
    assert sentence in errors
    assert errors.count("\n") == 1

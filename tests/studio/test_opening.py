"""`ar.studio`: what it takes, where it listens, and that it can be called however its package was imported."""

import builtins
import subprocess
import sys
import urllib.request
import webbrowser

import pytest

import anyreward as ar
from anyreward.studio import opening


def test_the_package_can_be_called_however_it_was_imported():
    code = (
        "import sys, anyreward as ar; assert callable(ar.studio); "
        "assert not {'starlette', 'uvicorn', 'anywidget', 'jinja2'} & set(sys.modules); "
        "import anyreward.studio.asking, anyreward.studio.opening as o; from anyreward.studio import drawing; "
        "assert callable(ar.studio) and ar.studio.opening is o\n"
        "try: ar.studio('chain.atlas')\n"
        "except ValueError as problem: print(problem)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "'chain.atlas': the studio shows an atlas" in done.stdout


def test_it_is_served_on_this_machine_until_it_is_closed(grid):
    with ar.studio(grid, wait=False, browser=False, out=None) as serving:
        assert serving.url.startswith("http://127.0.0.1:")
        assert serving._socket.getsockname()[0] == "127.0.0.1"
        with urllib.request.urlopen(serving.url) as page:
            assert b"Reward studio" in page.read()
        with pytest.raises(ValueError, match="cannot listen"):
            ar.studio(grid, wait=False, browser=False, port=serving.port)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(serving.url, timeout=2)
    with ar.studio(grid, wait=False, browser=False, out=None) as another:
        assert another.token != serving.token


def test_a_browser_is_opened_if_it_is_wanted(grid, monkeypatch, capsys):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(opening.Serving, "wait", lambda self: None)
    assert ar.studio(grid, out=None) is None
    assert opened
    assert opened[0] in capsys.readouterr().out
    ar.studio(grid, out=None, browser=False)
    assert len(opened) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"atlas": 7}, "shows an atlas"),
        ({"atlas": {}}, "no atlas"),
        ({"port": 70000}, "from 0"),
        ({"port": 1.5}, "whole number"),
        ({"grid": (7, 7)}, "7 x 7"),
        ({"browser": "no"}, "True or False"),
        ({"host": "192.0.2.1"}, "cannot listen"),
    ],
)
def test_what_cannot_be_is_one_sentence(grid, given, said):
    given = {"atlas": grid, "browser": False, "wait": False, "out": None, **given}
    with pytest.raises(ValueError, match=said):
        ar.studio(given.pop("atlas"), **given)


def test_what_is_missing_is_said(grid, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "uvicorn":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ValueError, match=r"anyreward\[studio\]"):
        ar.studio(grid, browser=False, wait=False)

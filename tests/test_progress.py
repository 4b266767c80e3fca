"""The display of long explorations."""

from anyreward.progress import Progress


def test_a_function_hears_of_every_look_and_of_nothing_else():
    heard = []
    with Progress(lambda *report: heard.append(report), target=1.0, max_episodes=None) as show:
        show(0, 4.0)
        show(5)
        show(10, 2.0)
    assert heard == [(0, 4.0), (10, 2.0)]


def test_a_display_shows_episodes_and_epsilon(capfd):
    with Progress(True, target=0.5, max_episodes=100) as show:
        show(0, 4.0)
        show(70, 0.0)  # as certain as can be: the bar is full, nothing is divided by zero
    out, err = capfd.readouterr()
    assert out == ""
    assert "exploring" in err
    assert "0.5" in err


def test_no_display_unless_asked_where_nobody_looks(capfd):
    """stderr is no terminal here."""
    show = Progress(None, target=0.5, max_episodes=100)
    show._start -= 1_000  # patience is long over
    with show:
        show(0, 4.0)
        show(10, 2.0)
    assert capfd.readouterr() == ("", "")

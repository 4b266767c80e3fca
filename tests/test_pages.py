"""HTML pages and cards: well formed, without script, with every text escaped, and true."""

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from jinja2 import UndefinedError

import anyreward as ar
from anyreward import pages, plots
from anyreward.outline import Outline
from anyreward.pages import Markup, interval_bar, part, plan_page, rendered

EVIL = """<script>alert("1")</script><img src=x onerror='x'>&amp;"""
TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "div", "p", "h1", "h2", "span", "i", "b", "br", "code", "dl", "dt",
    "dd", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "svg", "rect", "text",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "name", "content", "class", "style", "role", "aria-label", "scope", "x", "y", "width", "height", "fill",
    "fill-opacity", "viewbox", "font-size", "text-anchor", "dominant-baseline", "opacity",
}  # fmt: skip


class Reader(HTMLParser):
    """Reads a page as a browser does; raises if an element is not closed where it has to be, or is not one of ours."""

    def __init__(self, page):
        super().__init__()
        self.open, self.said = [], ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        assert tag in TAGS
        assert {name for name, _ in attributes} <= ATTRIBUTES
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.said += data + " "


def hostile():
    """An atlas in which everything that has a name is called something evil."""
    rng = np.random.default_rng(0)
    mdp = ar.TabularMDP(
        rng.dirichlet(np.ones(3), size=(3, 2)),
        state_names=[f"{EVIL} {i}" for i in range(3)],
        action_names=[f"{EVIL} a{i}" for i in range(2)],
    )
    atlas = ar.explore(mdp, 3, max_episodes=20)
    atlas.source.update(env=EVIL, algorithm=EVIL, alarms=[EVIL])
    return atlas


@pytest.fixture(scope="module")
def atlas():
    return hostile()


@pytest.fixture(scope="module")
def chain():
    return ar.explore(ar.envs.double_chain(5), 4, 1.0)


def all_pages(atlas):
    plan = atlas.plan("state == 1")
    yield from (thing._repr_html_() for thing in (atlas, atlas.certificate, plan))
    yield plan_page(plan, EVIL)
    yield plan_page(plan, EVIL, (1, 3))


def test_whatever_things_are_called_there_is_no_script_and_everything_is_displayed_literally(atlas):
    card, _, plan, page, grid = map(Reader, all_pages(atlas))
    for reader in (card, plan, page, grid):
        assert EVIL in reader.said
    assert f"{EVIL} 1" in page.said
    assert f"{EVIL} a" in page.said
    assert page.said.count(EVIL) >= 7  # three states, an action in each, the reward


def answers(atlas):
    """All that questions to an atlas return, besides plans."""
    plan = atlas.plan("state == 1")
    yield atlas.evaluate(plan.policy, "state == 1")
    yield atlas.reach("state == 1")
    yield atlas.plan("state == 1", subject_to=[("action == 1", "<=", atlas.counts.setting.horizon)])
    yield atlas.trade_off("state == 0", "state == 1", points=3)
    yield atlas.explain("state == 1")
    yield atlas.watch(atlas.counts)


def test_answers_are_cards_that_say_what_is_printed(atlas, chain):
    for found in answers(chain):
        said = Reader(found._repr_html_()).said
        for line in str(found).removeprefix(f"{type(found).__name__}(").removesuffix(")").splitlines():
            for phrase in line.split("; assumes: "):
                assert " ".join(phrase.split()) in " ".join(said.split())
    assert EVIL in Reader(atlas.explain("state == 1")._repr_html_()).said  # and nothing that was named is markup


def test_a_page_needs_nothing_from_elsewhere_and_follows_the_reader(atlas):
    page = plan_page(atlas.plan("state == 1"), "state == 1")
    assert not re.search(r"url\(|@import|http", page)
    assert "prefers" in page or "color-scheme: light dark" in page
    assert "@media print" in page
    assert "width=device-width" in page


@pytest.mark.parametrize("text", ["<b>", "a & b", '"', "'", "\x1b[31m", "‮evil", "\x00"])
def test_parts_escape(text):
    """As a text and as the value of an attribute; what is markup already is not escaped again."""
    made = part("facts", [(text, [text, text])])
    assert isinstance(made, Markup)
    assert made.count("<") == made.count(">") == 12  # the tags of dl, dt, dd, ul and two li, and no others
    bar = part("bar", 0, 1, None, text, text, text)
    assert bar.count("<") == bar.count(">") == 10
    assert not {"\x1b", "\u202e", "\x00"} & set(made + bar)
    assert bar.count('"') == 10  # around the values of five attributes
    assert made in part("listed", made)


def test_every_value_of_every_template_is_escaped_and_none_may_be_missing():
    with pytest.raises(UndefinedError):
        rendered("audit.html", head="x")
    for template in (Path(pages.__file__).parent / "templates").iterdir():
        assert "|safe" not in template.read_text().replace(" ", "")
        assert "autoescape" not in template.read_text()


def test_the_interval_is_said_outward_with_what_it_means(chain):
    plan = chain.plan("state == 4")
    said = Reader(plan_page(plan, "state == 4")).said
    found = re.search(
        r"With probability at least 0\.9, an episode of this plan earns (\S+) to (\S+) on average, and no policy earns more than "
        r"(\S+): it is at most (\S+) worse than the best\.",
        said,
    )
    lower, upper, most, worse = map(float, found.groups())
    assert lower <= plan.lower <= plan.value <= plan.upper <= upper == most
    assert worse >= plan.regret_bound
    assert upper - lower <= plan.regret_bound + 2e-3
    assert "every episode starts in state 2" in said
    assert str(chain.certificate) in said


def test_a_plan_about_which_nothing_is_known_is_called_that():
    atlas = ar.explore(ar.TabularMDP(np.full((5, 2, 5), 0.2), initial=np.full(5, 0.2)), 4, max_episodes=0)
    plan = atlas.plan("state == 4")
    assert (plan.lower, plan.upper) == (0, 4)
    assert "The data say nothing yet" in Reader(plan._repr_html_()).said
    assert "Nothing is certified yet" in Reader(atlas._repr_html_()).said
    assert "Thin data" in Reader(plan_page(plan, "state == 4")).said
    constant = atlas.plan("1")
    assert "earns 4 to 4 on average" in Reader(constant._repr_html_()).said


def test_bars_are_where_their_numbers_are():
    bar = interval_bar(2.0, 5.0, 0.0, 10.0, 4.0)
    assert "left:20.0%;width:30.0%" in bar
    assert "left:40.0%" in bar
    assert "left:0.0%;width:100.0%" in interval_bar(1.0, 1.0, 1.0, 1.0)
    assert ">0</span>" in interval_bar(0.0, 1.0, -2e-11, 20 + 2e-11)  # what rounding adds is not shown
    assert ">20</span>" in interval_bar(0.0, 1.0, -2e-11, 20 + 2e-11)


def test_states_that_matter_come_first_and_no_state_is_left_out_silently(chain, monkeypatch):
    plan = chain.plan("state == 4")
    what = Outline(plan)
    rows = re.findall(r'<th scope="row">(.*?)</th>', plan_page(plan, "state == 4"))
    assert rows == [str(s) for s in what.states]
    assert rows[0] == str(plan.reach.sum(axis=0).argmax())
    monkeypatch.setattr(pages, "PAGE_LINES", 2)
    page = plan_page(plan, "state == 4")
    said = Reader(page).said
    assert re.findall(r'<th scope="row">(.*?)</th>', page)[:2] == [str(s) for s in what.states[:2]]
    share = float(re.search(rf"{what.going - 2} more states are not shown, in which the plan spends (\S+)% of its time", said)[1])
    assert share >= 100 * what.time_in(2, what.going) / 4
    assert share <= 1.1 * 100 * what.time_in(2, what.going) / 4


def test_equal_stretches_are_merged_and_thin_data_are_marked(atlas):
    plan = atlas.plan("state == 1")
    page = plan_page(plan, "state == 1")
    for line in Outline(plan).lines():
        for stretch in line.stretches:
            if len(line.stretches) > 1:
                assert f"{stretch.steps}: " in page
            if stretch.thin:
                assert f"seen {stretch.seen}×" in page or "never seen" in page
    assert "rely on an action that was seen fewer than 20 times there" in page


def test_a_grid_is_drawn(chain):
    lake = ar.explore("FrozenLake-v1", 6, max_episodes=300, stationary=True)
    page = plan_page(lake.plan("own"), "own", plots.grid_of(lake))
    Reader(page)
    assert page.count("<text") == 16
    assert set(re.findall(r"<text[^>]*>(.)</text>", page)) <= set("←↓→↑·")
    assert "<text" not in plan_page(chain.plan("state == 4"), "state == 4")


def test_other_settings_are_said(chain):
    said = Reader(ar.explore(ar.envs.double_chain(5), 4, max_episodes=9, discount=0.5).plan("state == 4")._repr_html_()).said
    assert "on average, discounted" in said or "say nothing yet" in said
    said = Reader(chain.certificate._repr_html_()).said
    assert "Every plan for every reward is within" in said
    assert "1, reached" in said


@pytest.mark.slow
def test_a_certificate_for_one_reward_is_about_its_policy():
    one = ar.identify(ar.envs.double_chain(5), "state == 4", 4, 1.0)
    assert "The recommended policy is within" in Reader(one._repr_html_()).said


def test_an_audit_is_a_card_whose_warnings_are_marked():
    audit = ar.audit("FrozenLake-v1", 5, steps=200)
    audit.warnings.append(EVIL)
    card = audit._repr_html_()
    assert EVIL in Reader(card).said
    assert all(line.strip() in Reader(card).said for line in audit.lines())
    assert card.count('class="thin"') == len([line for line in audit.lines() if line.startswith("warning")])

"""Who may talk to the server, as attacks: wrong hosts and origins, no key, huge and damaged bodies, paths; and what it says."""

import http.client
import json
import logging
import re
import socket

import pytest

from anyreward.studio import server
from anyreward.studio.opening import Serving

from .conftest import formula, painted

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def serving(grid, hostile):
    from anyreward.studio.desk import Desk

    with Serving(Desk({"grid": grid, "hostile": hostile})) as serving:
        yield serving


def request(serving, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=20)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content


def ask(serving, name, asked, **headers):
    """A question as the page asks it, but for some headers."""
    sent = {"Content_Type": "application/json", "X_Anyreward_Token": serving.token, "Origin": f"http://127.0.0.1:{serving.port}"}
    sent = {key: value for key, value in {**sent, **headers}.items() if value is not None}
    body = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
    answer, content = request(serving, "POST", f"/api/{name}", body, **sent)
    return answer.status, json.loads(content)


def test_the_page_and_its_files_are_served_with_a_strict_policy(serving):
    for path, kind in (("/", "text/html"), ("/static/studio.js", "javascript"), ("/static/studio.css", "text/css")):
        answer, content = request(serving, "GET", path)
        assert answer.status == 200
        assert kind in answer.headers["Content-Type"]
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert "Server" not in answer.headers
        assert not re.search(rb"(?:src|href|from|import|url)\W{1,3}(?:https?:)?//", content)  # nothing from elsewhere


def test_a_question_of_the_page_is_answered(serving):
    status, answer = ask(serving, "plan", {"reward": painted(([29], 1))})
    assert status == 200
    assert answer["lower"] <= answer["value"] <= answer["upper"]
    assert ask(serving, "plan", {"reward": painted(([29], 1))}, Origin=None)[0] == 200  # not every browser names its own origin


@pytest.mark.parametrize("token", [None, "", "wrong", "é", "x" * 10_000])
def test_nothing_is_answered_without_the_key(serving, token):
    status, answer = ask(serving, "hello", {}, X_Anyreward_Token=token)
    assert status == 401
    assert "key" in answer["error"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1:{port}.evil.example", ""]
)
def test_names_of_others_that_lead_here_are_of_no_use(serving, host):
    """DNS rebinding: the browser believes it talks to another site, and says so."""
    host = host.format(port=serving.port)
    assert ask(serving, "hello", {}, Host=host, Origin=None)[0] == 421
    assert request(serving, "GET", "/", Host=host)[0].status == 421
    status, _ = ask(serving, "hello", {}, Host=host, Origin=f"http://{host}")
    assert status == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1", "http://localhost:{port}"]
)
def test_other_sites_may_not_ask(serving, origin):
    assert ask(serving, "hello", {}, Origin=origin.format(port=serving.port))[0] == 403
    assert ask(serving, "hello", {}, Origin=None, Sec_Fetch_Site="cross-site")[0] == 403
    preflight, _ = request(serving, "OPTIONS", "/api/plan", Origin="http://evil.example", Access_Control_Request_Method="POST")
    assert preflight.status == 403
    assert not any(name.lower().startswith("access-control") for name in preflight.headers)


def test_two_hosts_or_two_keys_are_none(serving):
    raw = f"POST /api/hello HTTP/1.1\r\nHost: 127.0.0.1:{serving.port}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
    for more in (f"X-Anyreward-Token: {serving.token}\r\nX-Anyreward-Token: {serving.token}x\r\n", "Host: evil.example\r\n"):
        with socket.create_connection(("127.0.0.1", serving.port), timeout=10) as connection:
            connection.sendall(f"{raw}{more}Connection: close\r\n\r\n{{}}".encode())
            assert re.match(rb"HTTP/1.1 4\d\d", connection.recv(1000))


def test_bodies_are_json_of_limited_size(serving):
    assert ask(serving, "hello", {}, Content_Type="text/plain")[0] == 415
    assert ask(serving, "hello", {}, Content_Type="application/x-www-form-urlencoded")[0] == 415
    assert ask(serving, "hello", {}, Content_Type=None)[0] == 415
    for body in (b"", b"{", b"[]", b"7", b'{"x": NaN}', b"\xff", b'{"a":' * 5000):
        assert ask(serving, "hello", body)[0] == 400, body[:10]
    big = b'{"x": "' + b"a" * server.MAX_BODY + b'"}'
    assert ask(serving, "hello", big)[0] == 413
    assert (
        ask(serving, "upload", {"name": "a.csv", "content": "A" * (server.MAX_BODY + 1)})[0] == 422
    )  # larger ones are allowed there


def test_a_body_that_does_not_say_its_size_is_cut_off_as_well(serving):
    connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=20)
    connection.putrequest("POST", "/api/hello")
    for name, value in {**JSON, "X-Anyreward-Token": serving.token, "Transfer-Encoding": "chunked"}.items():
        connection.putheader(name, value)
    connection.endheaders()
    part, sent = b"a" * 2**16, 0
    try:
        while sent <= 2 * server.MAX_BODY:
            connection.send(b"%x\r\n%s\r\n" % (len(part), part))
            sent += len(part)
        connection.send(b"0\r\n\r\n")
        assert connection.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # it was hung up on: as good
    connection.close()
    assert ask(serving, "hello", {})[0] == 200


@pytest.mark.parametrize(
    "path",
    ["/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py", "/static//etc/passwd", "/../pyproject.toml"],
)
def test_no_other_file_can_be_had(serving, path):
    answer, content = request(serving, "GET", path)
    assert answer.status in (400, 404)
    assert b"def " not in content
    assert answer.headers["Content-Security-Policy"]


def test_bad_questions_are_one_sentence_and_change_nothing(serving):
    for asked in (
        {},
        {"reward": 7},
        {"reward": {"terms": []}},
        {"reward": {"terms": [{}]}},
        {"reward": {"terms": [formula("x")]}},
        {"atlas": "gone"},
    ):
        status, answer = ask(serving, "plan", asked)
        assert status == 422
        assert answer["error"].endswith(".")
    assert ask(serving, "nothing", {})[0] == 422
    assert ask(serving, "plan", {"reward": painted(([29], 1))})[0] == 200


def test_the_key_is_in_no_log(grid, capfd, caplog):
    from anyreward.studio.desk import Desk

    caplog.set_level(logging.DEBUG)
    with Serving(Desk({"grid": grid})) as serving:
        assert serving.url.endswith(f"#key={serving.token}")
        assert ask(serving, "hello", {})[0] == 200
        assert ask(serving, "hello", {}, X_Anyreward_Token="wrong")[0] == 401
        assert ask(serving, "plan", {"reward": 7})[0] == 422
    said = caplog.text + "".join(capfd.readouterr())
    assert serving.token not in said


def test_a_mistake_of_ours_is_not_told_to_the_page(grid, caplog):
    from anyreward.studio.desk import Desk

    desk = Desk({"grid": grid})
    desk.answer = lambda name, asked: 1 / 0
    with Serving(desk) as serving:
        status, answer = ask(serving, "hello", {})
    assert status == 500
    assert "division" not in answer["error"]
    assert "ZeroDivisionError" in caplog.text

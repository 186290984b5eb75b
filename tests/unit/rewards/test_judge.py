"""Judges over HTTP: against a real server on loopback that answers, refuses, stalls and lies."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from trainers.errors import RewardError
from trainers.recipes.context import ScoredInput
from trainers.rewards.calls import JudgeCalls
from trainers.rewards.egress import SETTING, Egress, HostRefused, is_public
from trainers.rewards.judging import messages
from trainers.rewards.scorer import Scorer, row_problem, try_reward
from trainers.rewards.spec import Judge, RewardSpec

KEY = "sk-very-secret"
Answer = Callable[[dict[str, Any], int], "tuple[int, Any]"]


class JudgeServer(ThreadingHTTPServer):
    """``answer(body, number)`` gives status and body of the n-th request (from 1); ``seen`` are bodies and headers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: Answer = lambda body, number: says("7")
        self.seen: list[tuple[dict[str, Any], dict[str, str]]] = []
        self.lock = threading.Lock()
        self.under_way = self.most_under_way = 0
        self.retry_after: str | None = None
        self.release = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is a part of these tests."""


class _Handler(BaseHTTPRequestHandler):
    server: JudgeServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.seen.append((body, dict(self.headers)))
            number = len(server.seen)
            server.under_way += 1
            server.most_under_way = max(server.most_under_way, server.under_way)
        try:
            assert self.path == "/v1/chat/completions"
            status, content = server.answer(body, number)
        finally:
            with server.lock:
                server.under_way -= 1
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        if server.retry_after:
            self.send_header("Retry-After", server.retry_after)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


def says(text: Any, read: int = 0, written: int = 0) -> tuple[int, Any]:
    usage = {"prompt_tokens": read, "completion_tokens": written}
    return 200, {"choices": [{"message": {"role": "assistant", "content": text}}], "usage": usage}


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    made = JudgeServer()
    thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.release.set()
    made.shutdown()
    made.server_close()
    thread.join()


def component(server: JudgeServer, **more: Any) -> dict[str, Any]:
    return {
        "kind": "judge",
        "endpoint": server.url,
        "model": "referee",
        "secret": "judge-key",
        "prompt": "Q: {prompt} A: {completion}",
        **more,
    }


def calls(folder: Path | None = None, **more: Any) -> JudgeCalls:
    more = {"secrets": {"judge-key": KEY}, "egress": Egress(("127.0.0.1",)), "first_wait_s": 0.001, **more}
    return JudgeCalls(folder=folder, **more)


def rows(*completions: str) -> list[ScoredInput]:
    return [ScoredInput("2+2?", completion, "4", {"topic": "sums"}) for completion in completions]


def score(part: dict[str, Any], *completions: str, judges: JudgeCalls | None = None) -> list[float]:
    with Scorer(RewardSpec.model_validate({"components": [part]}), judges=judges or calls()) as scorer:
        return [score.reward for score in scorer.score(rows(*completions))]


def error_of(part: dict[str, Any], *completions: str, judges: JudgeCalls | None = None) -> RewardError:
    with pytest.raises(RewardError) as caught:
        score(part, *(completions or ("4",)), judges=judges)
    assert KEY not in caught.value.message + caught.value.advice
    return caught.value


def test_a_judge_is_asked_once_for_every_different_completion(server: JudgeServer) -> None:
    server.answer = lambda body, number: says("8/10" if "A: four" in body["messages"][-1]["content"] else "Score: 3")
    assert score(component(server, system="Be strict."), "four", "five", "four") == pytest.approx([0.8, 0.3, 0.8])
    assert len(server.seen) == 2
    body, headers = server.seen[0]
    assert headers["Authorization"] == f"Bearer {KEY}" and headers["Host"] == server.url.split("/")[2]
    assert body["model"] == "referee" and body["temperature"] == 0 and body["messages"][0]["content"] == "Be strict."


def test_what_the_model_wrote_is_no_part_of_the_template(server: JudgeServer) -> None:
    part = Judge.model_validate(component(server, prompt='{"q": "{prompt}"} {completion} {row.topic} {answer} {other}'))
    [message] = messages(part, ScoredInput("{answer}", "{prompt} {answer}", "4", {"topic": ["a"]}))
    assert message["content"] == '{"q": "{answer}"} {prompt} {answer} ["a"] 4 {other}'
    assert row_problem(RewardSpec(components=(part,)), "4", {}) is not None
    assert row_problem(RewardSpec(components=(part,)), None, {"topic": 1}) is not None
    assert row_problem(RewardSpec(components=(part,)), "4", {"topic": 1}) is None


def test_the_score_is_read_by_a_rule(server: JudgeServer) -> None:
    replies = {"json": 'So: {"score": 4, "why": "fine"}', "pattern": "Grade [[2]] of 5, in 3 steps"}
    for read, reply in replies.items():
        server.answer = lambda body, number, reply=reply: says(reply)
        part = component(server, read=read, pattern=r"\[\[(\d+)\]\]", lowest=0, highest=5)
        assert score(part, "x") == pytest.approx([0.8 if read == "json" else 0.4])


@pytest.mark.parametrize("reply", ["No idea.", "11", "-1", "7/8", "Score: NaN", ""])
def test_a_reply_without_a_score_is_a_named_error_or_a_chosen_value(server: JudgeServer, reply: str) -> None:
    server.answer = lambda body, number: says(reply)
    error = error_of(component(server, name="taste"), "x")
    assert "'taste'" in error.message and "from 0 to 10" in error.message and "unreadable" in error.advice
    assert score(component(server, unreadable=0.5), "x") == [0.5]


def test_passing_failures_are_tried_again(server: JudgeServer) -> None:
    answers: list[tuple[int, Any]] = [(429, {"error": "slow down"}), (503, b"busy"), (200, b"<html>"), says("9")]
    server.answer = lambda body, number: answers[number - 1]
    assert score(component(server), "x") == [0.9]
    assert len(server.seen) == 4


def test_the_time_that_a_server_asks_for_is_waited(server: JudgeServer) -> None:
    server.retry_after = "1"
    server.answer = lambda body, number: says("9") if number > 1 else (429, {})
    begun = time.monotonic()
    assert score(component(server), "x") == [0.9]
    assert time.monotonic() - begun >= 1


def test_a_judge_that_never_recovers_is_a_named_error(server: JudgeServer) -> None:
    server.answer = lambda body, number: (500, {"error": f"the key {KEY} broke me\x1b[31m"})
    error = error_of(component(server, retries=2), "x")
    assert "after 3 tries" in error.message and "500" in error.message and "\x1b" not in error.message
    assert len(server.seen) == 3


@pytest.mark.parametrize(("status", "words"), [(401, "refused by the judge (401)"), (302, "(302)"), (404, "(404)")])
def test_a_refusal_is_not_tried_again(server: JudgeServer, status: int, words: str) -> None:
    server.answer = lambda body, number: (status, {"error": "no"})
    assert words in error_of(component(server), "x").message
    assert len(server.seen) == 1


def test_a_slow_judge_runs_into_its_time_limit(server: JudgeServer) -> None:
    def stall(body: dict[str, Any], number: int) -> tuple[int, Any]:
        server.release.wait(10)
        return says("5")

    server.answer = stall
    begun = time.monotonic()
    error = error_of(component(server, timeout_s=0.2, retries=1), "x")
    assert "longer than 0.2 s" in error.message and time.monotonic() - begun < 5


def test_a_judge_that_is_down_and_one_that_floods_are_named(server: JudgeServer) -> None:
    server.answer = lambda body, number: (200, b" " * (2 << 20))
    assert "more than 1 MiB" in error_of(component(server, retries=0), "x").message
    closed = component(server, retries=1)
    server.shutdown()
    server.server_close()
    assert "connection failed" in error_of(closed, "x").message


def test_only_so_many_requests_are_under_way_at_once(server: JudgeServer) -> None:
    def wait_for_others(body: dict[str, Any], number: int) -> tuple[int, Any]:
        deadline = time.monotonic() + 0.3
        while server.under_way < 3 and time.monotonic() < deadline:
            threading.Event().wait(0.005)
        return says("5")

    server.answer = wait_for_others
    assert score(component(server, concurrency=3), *map(str, range(12))) == [0.5] * 12
    assert 1 < server.most_under_way <= 3


def test_replies_are_kept_for_the_same_question_model_and_key(server: JudgeServer, tmp_path: Path) -> None:
    judges = calls(tmp_path)
    assert score(component(server), "x", judges=judges) == [0.7]
    server.answer = lambda body, number: says("1")
    again = calls(tmp_path)
    assert score(component(server), "x", judges=again) == [0.7] and again.metrics()["judge/cache_hit_rate"] == 1
    assert score(component(server), "y", judges=calls(tmp_path)) == [0.1]
    assert score(component(server, model="other"), "x", judges=calls(tmp_path)) == [0.1]
    other = calls(tmp_path, secrets={"judge-key": "sk-another"})
    assert score(component(server), "x", judges=other) == [0.1]
    assert not any(KEY.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_budget_in_requests_or_money_ends_the_batch(server: JudgeServer) -> None:
    server.answer = lambda body, number: says("5", read=1_000_000, written=100_000)
    error = error_of(component(server, max_calls=2, concurrency=1), "a", "b", "c")
    assert "budget of 2 requests" in error.message and len(server.seen) == 2
    judges = calls()
    part = component(server, max_cost=3, input_price=1, output_price=10, concurrency=1)
    error = error_of(part, "a", "b", "c", judges=judges)
    assert "4 of 3 is spent" in error.message
    assert judges.metrics()["judge/cost"] == pytest.approx(4) and judges.metrics()["judge/tokens"] == 2_200_000


def test_a_secret_that_is_not_there_is_named(server: JudgeServer) -> None:
    error = error_of(component(server, secret="missing-key"), "x")
    assert "'missing-key'" in error.message and server.seen == []
    assert "KEY" not in json.dumps(RewardSpec.model_validate({"components": [component(server)]}).secrets)
    assert RewardSpec.model_validate({"components": [component(server)]}).secrets == ["judge-key"]


def test_a_bench_shows_what_the_judge_said(server: JudgeServer) -> None:
    server.answer = lambda body, number: says("Because of this: 6")
    reward = RewardSpec.model_validate({"components": [component(server)]})
    [tried] = try_reward(reward, rows("x"), judges=calls())
    assert tried["total"] == 0.6 and "Because of this" in tried["printed"]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",
        "::1", "fe80::1%eth0", "fc00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::",
        "::", "255.255.255.255", "198.18.0.1",
    ],
)  # fmt: skip
def test_addresses_of_private_networks_are_refused(address: str) -> None:
    assert not is_public(address)


def test_public_addresses_are_not() -> None:
    assert is_public("93.184.216.34") and is_public("2606:4700::1111")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "0x7f.1", "2130706433", "[::1]", "[::ffff:127.0.0.1]"])
def test_a_judge_on_this_machine_is_refused_unless_an_operator_allows_it(server: JudgeServer, host: str) -> None:
    port = server.server_address[1]
    part = component(server, endpoint=f"http://{host}:{port}/v1")
    error = error_of(part, judges=calls(egress=Egress()))
    assert "may not speak to its endpoint" in error.message and server.seen == []


def test_the_list_of_an_operator_is_the_whole_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "127.0.0.1:8000, *.example.com")
    egress = Egress.from_environment()
    assert egress.address("127.0.0.1", 8000) == "127.0.0.1"
    for host, port in (("127.0.0.1", 8001), ("93.184.216.34", 443), ("example.com.evil.test", 443)):
        with pytest.raises(HostRefused):
            egress.address(host, port)
    assert Egress(("*",)).address("93.184.216.34", 443) == "93.184.216.34"
    with pytest.raises(HostRefused):
        Egress(("*",)).address("127.0.0.1", 80)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"endpoint": "ftp://x/v1"}, "write an address"),
        ({"endpoint": "https://user:pass@x/v1"}, "keep the key as a secret"),
        ({"endpoint": "https://x/v1?key=1"}, "no ? or #"),
        ({"prompt": "How good?"}, "{completion}"),
        ({"read": "pattern"}, "needs a pattern"),
        ({"lowest": 5, "highest": 5}, "below highest"),
        ({"max_cost": 1}, "prices"),
    ],
)
def test_a_judge_that_cannot_work_is_refused(change: dict[str, Any], words: str) -> None:
    base = {"kind": "judge", "endpoint": "https://x/v1", "model": "m", "prompt": "{completion}"}
    with pytest.raises(ValidationError, match=words.replace("?", r"\?").replace("{", r"\{")):
        Judge.model_validate({**base, **change})

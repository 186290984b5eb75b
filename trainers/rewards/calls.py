"""Requests to judging models: OpenAI-compatible chat completions with a cache, retries, time limits and a budget."""

from __future__ import annotations

import hashlib
import json
import math
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from trainers.cache import ContentCache, content_key
from trainers.rewards.egress import Egress, HostRefused
from trainers.rewards.spec import Judge

CACHE_BYTES = 256 << 20
REPLY_BYTES = 1 << 20
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


class JudgeFailed(Exception):
    """A judge that gives no reply: ``reason`` goes on where "The reward component 'x'" stops; ``advice`` what to do."""

    def __init__(self, reason: str, advice: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason, self.advice, self.detail = reason, advice, detail


@dataclass(slots=True)
class Spent:
    """What one component has asked for so far. ``cost`` is in the unit of its prices."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0


class JudgeCalls:
    """The connection of one scorer to its judges. Safe to use from several threads.

    ``secrets``: the API keys by the names that components give; they are sent and never stored, shown or logged.
    ``folder``: where replies are kept (None: they are not).
    """

    def __init__(
        self,
        *,
        secrets: Mapping[str, str] | None = None,
        folder: Path | None = None,
        egress: Egress | None = None,
        first_wait_s: float = FIRST_WAIT_S,
    ) -> None:
        self._secrets = dict(secrets or {})
        self._egress = egress or Egress.from_environment()
        self._first_wait_s = first_wait_s
        self._lock = threading.Lock()
        self._clients: dict[str, httpx.Client] = {}
        self.cache = ContentCache(folder / "judge", CACHE_BYTES) if folder is not None else None
        self.spent: dict[str, Spent] = {}

    def close(self) -> None:
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    def ask(self, judge: Judge, messages: list[dict[str, str]], deadline: float = math.inf) -> str:
        """The judge's reply, out of the cache where the same has been asked before. Raises :class:`JudgeFailed`."""
        body = {
            "model": judge.model,
            "messages": messages,
            "temperature": judge.temperature,
            "max_tokens": judge.max_tokens,
        }
        secret = self._secret(judge)
        # Who pays for another key does not get what this one has paid for.
        owner = hashlib.sha256((secret or "").encode()).hexdigest()
        key = content_key({"endpoint": judge.endpoint, "owner": owner, "body": body})
        if self.cache is not None and (kept := self.cache.get(key)) is not None:
            return kept.decode()
        reply = self._asked(judge, body, secret, deadline)
        if self.cache is not None:
            self.cache.put(key, reply.encode())
        return reply

    def metrics(self) -> dict[str, float]:
        """``judge/calls``, ``judge/tokens``, ``judge/cost`` and ``judge/cache_hit_rate`` so far; empty if unused."""
        if not self.spent and (self.cache is None or not self.cache.hits):
            return {}
        total = self.spent.values()
        return {
            "judge/calls": float(sum(spent.calls for spent in total)),
            "judge/tokens": float(sum(spent.tokens for spent in total)),
            "judge/cost": sum(spent.cost for spent in total),
            "judge/cache_hit_rate": self.cache.hit_rate if self.cache is not None else 0.0,
        }

    def _secret(self, judge: Judge) -> str | None:
        if judge.secret is None:
            return None
        if not self._secrets.get(judge.secret):
            detail = f"the workspace has no secret called {judge.secret!r}"
            raise JudgeFailed("cannot be computed", "Add the secret in the settings of the workspace.", detail)
        return self._secrets[judge.secret]

    def _asked(self, judge: Judge, body: dict[str, Any], secret: str | None, deadline: float) -> str:
        wait = self._first_wait_s
        for attempt in range(judge.retries + 1):
            self._charge_call(judge)
            try:
                return self._once(judge, body, secret, deadline)
            except _Passing as failure:
                pause = max(failure.wait_s, random.uniform(0, wait))
                wait = min(2 * wait, LONGEST_WAIT_S)
                if attempt == judge.retries or time.monotonic() + pause > deadline:
                    tried = f" after {attempt + 1} tries" if attempt else ""
                    advice = "Check that the endpoint is up, and its limits; raise `retries` or `timeout_s`."
                    raise JudgeFailed(f"got no reply from the judge{tried}", advice, str(failure)) from failure
                time.sleep(pause)
        raise AssertionError("the loop returns or raises")

    def _once(self, judge: Judge, body: dict[str, Any], secret: str | None, deadline: float) -> str:
        status, content, headers = self._sent(judge, body, secret, deadline)
        if status in _PASSING:
            raise _Passing(f"it answered {status}{_excerpt(content, secret)}", _retry_after(headers))
        if status != 200:
            advice = "Check the endpoint, the model's name and the key."
            if 300 <= status < 400:
                advice = "Write the address that it leads to: redirects are not followed."
            raise JudgeFailed(f"was refused by the judge ({status})", advice, _excerpt(content, secret).lstrip(": "))
        try:
            answer = json.loads(content)
            text = answer["choices"][0]["message"]["content"]
        except (ValueError, RecursionError, LookupError, TypeError):
            answer, text = {}, None
        self._charge_tokens(judge, answer.get("usage") if isinstance(answer, dict) else None)
        if not isinstance(text, str):
            raise _Passing("it answered with something that is no chat completion" + _excerpt(content, secret))
        return text

    def _sent(
        self, judge: Judge, body: dict[str, Any], secret: str | None, deadline: float
    ) -> tuple[int, bytes, Mapping[str, str]]:
        """One request, to the address that was checked. Returns status, the first megabyte of the body, headers."""
        parts = urlsplit(judge.endpoint)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        try:
            address = self._egress.address(host, port)
        except HostRefused as error:
            advice = "Use the public address of the endpoint, or ask who runs this platform."
            raise JudgeFailed("may not speak to its endpoint", advice, str(error)) from error
        literal = f"[{address}]" if ":" in address else address
        headers = {"Host": parts.netloc, "Content-Type": "application/json", "Accept-Encoding": "identity"}
        if secret is not None:
            headers["Authorization"] = f"Bearer {secret}"
        end = min(time.monotonic() + judge.timeout_s, deadline)
        try:
            with self._client(parts.netloc).stream(
                "POST",
                f"{parts.scheme}://{literal}:{port}{parts.path}/chat/completions",
                content=json.dumps(body).encode(),
                headers=headers,
                timeout=max(0.01, end - time.monotonic()),
                extensions={"sni_hostname": host},
            ) as response:
                content = bytearray()
                for block in response.iter_raw():
                    content += block
                    if len(content) > REPLY_BYTES:
                        raise _Passing("its answer has more than 1 MiB")
                    if time.monotonic() > end:
                        raise _Passing(f"it took longer than {judge.timeout_s:g} s")
                return response.status_code, bytes(content), response.headers
        except httpx.TimeoutException as error:
            raise _Passing(f"it took longer than {judge.timeout_s:g} s") from error
        except httpx.HTTPError as error:
            raise _Passing(f"the connection failed ({type(error).__name__})") from error
        except (ValueError, httpx.InvalidURL) as error:  # a key with a line break in it, for one
            raise JudgeFailed("cannot be asked", "Check the endpoint and the secret.", type(error).__name__) from error

    def _client(self, host: str) -> httpx.Client:
        """A client for one host alone: connections are kept by address, and two names may share one."""
        with self._lock:
            if host not in self._clients:
                limits = httpx.Limits(max_connections=64, max_keepalive_connections=16)
                # No proxy, no .netrc: where a request goes is for the check of addresses alone to say.
                self._clients[host] = httpx.Client(trust_env=False, follow_redirects=False, limits=limits)
            return self._clients[host]

    def _charge_call(self, judge: Judge) -> None:
        with self._lock:
            spent = self.spent.setdefault(_identity(judge), Spent())
            advice = "Raise the budget of this component, or train for fewer steps."
            if judge.max_calls is not None and spent.calls >= judge.max_calls:
                raise JudgeFailed(f"has used up its budget of {judge.max_calls:,} requests", advice)
            if judge.max_cost is not None and spent.cost >= judge.max_cost:
                raise JudgeFailed(f"has used up its budget: {spent.cost:.4g} of {judge.max_cost:g} is spent", advice)
            spent.calls += 1

    def _charge_tokens(self, judge: Judge, usage: Any) -> None:
        read, written = (_count(usage, name) for name in ("prompt_tokens", "completion_tokens"))
        with self._lock:
            spent = self.spent[_identity(judge)]
            spent.tokens += read + written
            spent.cost += (read * judge.input_price + written * judge.output_price) / 1e6


class _Passing(Exception):
    """A failure that may be gone at the next try."""

    def __init__(self, message: str, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.wait_s = wait_s


def _identity(judge: Judge) -> str:
    return judge.name or judge.kind


def _count(usage: Any, name: str) -> int:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and 0 <= value < 10**9 else 0


def _retry_after(headers: Mapping[str, str]) -> float:
    value = headers.get("retry-after", "")
    return min(float(value), LONGEST_WAIT_S) if value.isascii() and value.isdigit() and len(value) < 6 else 0.0


def _excerpt(content: bytes, secret: str | None) -> str:
    """The beginning of an answer as part of a message, without the key should the endpoint have sent it back."""
    text = content[:2000].decode("utf-8", "replace")
    if secret:
        text = text.replace(secret, "…")
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return f": {text[:200]}" if text else ""

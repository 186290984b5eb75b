"""A small real OpenID Connect provider on loopback: discovery, code flow with PKCE, signed tokens, userinfo."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode
from wsgiref.simple_server import WSGIRequestHandler, make_server

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

CLIENT_ID, CLIENT_SECRET = "tuneyard", "the secret of the provider"


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None: ...


@dataclass
class Provider:
    """What it says about the person who is at it; ``bend`` changes the claims of an ID token before it is signed."""

    url: str
    key: RSAPrivateKey
    person: dict[str, Any] = field(default_factory=dict)
    userinfo: dict[str, Any] = field(default_factory=dict)
    issuer: str = ""
    bend: Callable[[dict[str, Any]], None] = lambda claims: None
    sign: Callable[[dict[str, Any]], str] | None = None
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)

    def answer(self, environ: dict[str, Any], start: Any) -> list[bytes]:
        path = environ["PATH_INFO"]
        self.seen.append(path)
        size = int(environ.get("CONTENT_LENGTH") or 0)
        text = environ["wsgi.input"].read(size).decode() if size else environ.get("QUERY_STRING", "")
        values = {name: items[0] for name, items in parse_qs(text).items()}
        if path == "/authorize":
            code = secrets.token_urlsafe(8)
            self.codes[code] = values
            back = f"{values['redirect_uri']}?{urlencode({'code': code, 'state': values['state']})}"
            start("302 Found", [("Location", back)])
            return [b""]
        known = {
            "/.well-known/openid-configuration": self._discovery,
            "/jwks": self._keys,
            "/token": lambda: self._token(values, environ.get("HTTP_AUTHORIZATION", "")),
            "/userinfo": lambda: self.person | self.userinfo,
        }
        status, body = ("200 OK", known[path]()) if path in known else ("404 Not Found", {})
        if "error" in body:
            status = "400 Bad Request"
        start(status, [("Content-Type", "application/json")])
        return [json.dumps(body).encode()]

    def _discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer or self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "jwks_uri": f"{self.url}/jwks",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }

    def _keys(self) -> dict[str, Any]:
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [public | {"kid": "one", "alg": "RS256", "use": "sig"}]}

    def _token(self, values: dict[str, str], basic: str) -> dict[str, Any]:
        asked = self.codes.pop(values.get("code", ""), None)
        if asked is None or values.get("client_secret") != CLIENT_SECRET:
            return {"error": "invalid_grant"}
        digest = hashlib.sha256(values.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != asked.get("code_challenge"):
            return {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT_ID, "iat": now, "exp": now + 60, "jti": secrets.token_hex(8)}
        claims |= self.person
        self.bend(claims)
        token = self.sign(claims) if self.sign else self.signed(claims)
        return {"access_token": "access", "token_type": "Bearer", "expires_in": 60, "id_token": token}

    def signed(self, claims: dict[str, Any], key: Any = None, algorithm: str = "RS256") -> str:
        return jwt.encode(claims, key or self.key, algorithm=algorithm, headers={"kid": "one"})


@contextmanager
def running_provider() -> Iterator[Provider]:
    provider = Provider("", generate_private_key(65537, 2048))
    server = make_server("127.0.0.1", 0, lambda environ, start: provider.answer(environ, start), handler_class=_Quiet)
    provider.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield provider
    server.shutdown()
    server.server_close()
    thread.join(5)

"""How people may sign in to this installation, read from the environment, and what that means for django-allauth."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import environ

from config.launcher.problems import Problem

ROLES = ("viewer", "editor", "admin")
LOOPBACK = {("http", "localhost"), ("http", "127.0.0.1")}
DOMAIN = re.compile(r"^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]$")
APPS = [
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.mfa",
    "allauth.usersessions",
]


@dataclass(frozen=True)
class SignUp:
    """Who may make an account without an invitation: everybody (``open``), or people with addresses of ``domains``."""

    open: bool = False
    domains: tuple[str, ...] = ()

    @property
    def possible(self) -> bool:
        return self.open or bool(self.domains)

    def allows(self, email: str) -> bool:
        return self.open or email.rpartition("@")[2].lower() in self.domains


@dataclass(frozen=True)
class SingleSignOn:
    """The OpenID Connect provider people may sign in through.

    ``domains`` empty: any verified address. ``workspace`` is the slug of the team that new people join with ``role``;
    empty: none.
    """

    name: str
    issuer: str
    client_id: str
    client_secret: str
    domains: tuple[str, ...] = ()
    new_people: bool = True
    workspace: str = ""
    role: str = "viewer"

    def allows(self, email: str) -> bool:
        return not self.domains or email.rpartition("@")[2].lower() in self.domains


def sign_up(env: environ.Env) -> SignUp:
    """``SIGN_UP``: closed, open, or domains with commas between them. Raises :class:`Problem` for anything else."""
    text = env.str("SIGN_UP", default="closed").strip().lower()
    if text in ("", "closed"):
        return SignUp()
    if text == "open":
        return SignUp(open=True)
    return SignUp(domains=_domains("SIGN_UP", text))


def single_sign_on(env: environ.Env) -> SingleSignOn | None:
    """What the ``OIDC_`` variables say; None without ``OIDC_ISSUER``. Raises :class:`Problem` for what cannot be."""
    issuer = env.str("OIDC_ISSUER", default="").strip().rstrip("/")
    if not issuer:
        return None
    parts = urlsplit(issuer)
    if parts.scheme != "https" and (parts.scheme, parts.hostname) not in LOOPBACK:
        raise Problem(f"OIDC_ISSUER must begin with https://; it is {issuer!r}.")
    needed = {name: env.str(name, default="").strip() for name in ("OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET")}
    if missing := [name for name, value in needed.items() if not value]:
        raise Problem(f"OIDC_ISSUER is set, so {' and '.join(missing)} must be set too; the provider gives both.")
    role = env.str("OIDC_ROLE", default="viewer").strip().lower()
    if role not in ROLES:
        raise Problem(f"OIDC_ROLE is one of {', '.join(ROLES)}; it is {role!r}.")
    text = env.str("OIDC_DOMAINS", default="").strip().lower()
    return SingleSignOn(
        name=env.str("OIDC_NAME", default="").strip() or "single sign-on",
        issuer=issuer,
        client_id=needed["OIDC_CLIENT_ID"],
        client_secret=needed["OIDC_CLIENT_SECRET"],
        domains=_domains("OIDC_DOMAINS", text) if text else (),
        new_people=env.bool("OIDC_NEW_PEOPLE", default=True),
        workspace=env.str("OIDC_WORKSPACE", default="").strip(),
        role=role,
    )


def _domains(name: str, text: str) -> tuple[str, ...]:
    found = tuple(part.strip().removeprefix("@") for part in text.split(",") if part.strip())
    if wrong := [part for part in found if not DOMAIN.match(part)]:
        raise Problem(f"{name}: {wrong[0]!r} is no domain such as example.org.")
    return found


def providers(sso: SingleSignOn | None) -> dict[str, Any]:
    """The provider as django-allauth describes it."""
    if sso is None:
        return {}
    app = {
        "provider_id": "sso",
        "name": sso.name,
        "client_id": sso.client_id,
        "secret": sso.client_secret,
        "settings": {"server_url": sso.issuer, "oauth_pkce_enabled": True},
    }
    return {"openid_connect": {"APPS": [app]}}


def allauth(public_url: str) -> dict[str, Any]:
    """Settings of django-allauth that do not depend on how people may sign in.

    Its rate limits count in each process alone; ours, in Postgres, stand in their place (``workspaces.limits``).
    """
    places = "workspaces.sign_in"
    return {
        "ACCOUNT_ADAPTER": f"{places}.adapters.AccountAdapter",
        "ACCOUNT_USER_MODEL_USERNAME_FIELD": None,
        "ACCOUNT_LOGIN_METHODS": {"email"},
        "ACCOUNT_SIGNUP_FIELDS": ["email*", "password1*"],
        "ACCOUNT_EMAIL_VERIFICATION": "mandatory",
        "ACCOUNT_CHANGE_EMAIL": True,
        "ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS": False,
        "ACCOUNT_EMAIL_NOTIFICATIONS": True,
        "ACCOUNT_EMAIL_SUBJECT_PREFIX": "",
        "ACCOUNT_SESSION_REMEMBER": True,
        "ACCOUNT_REAUTHENTICATION_METHODS": ["password", "mfa"],
        "ACCOUNT_REAUTHENTICATION_REQUIRED": True,
        "ACCOUNT_LOGOUT_REDIRECT_URL": "sign-in",
        "ACCOUNT_RATE_LIMITS": False,
        "ACCOUNT_FORMS": {
            "signup": f"{places}.forms.SignUpForm",
            "reset_password": f"{places}.forms.ForgottenForm",
            "reauthenticate": f"{places}.forms.PasswordAgainForm",
            "add_email": f"{places}.forms.NewAddressForm",
        },
        "MFA_ADAPTER": f"{places}.adapters.FactorsAdapter",
        "MFA_SUPPORTED_TYPES": ["totp", "recovery_codes", "webauthn"],
        "MFA_PASSKEY_LOGIN_ENABLED": True,
        "MFA_TOTP_ISSUER": "Tuneyard",
        "MFA_TOTP_TOLERANCE": 1,
        # Browsers let pages without TLS use passkeys on localhost only.
        "MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN": not public_url.startswith("https://"),
        "MFA_RATE_LIMITS": False,
        "MFA_FORMS": {
            "authenticate": f"{places}.forms.CodeForm",
            "reauthenticate": f"{places}.forms.CodeAgainForm",
            "activate_totp": f"{places}.forms.FirstCodeForm",
        },
        "SOCIALACCOUNT_ADAPTER": f"{places}.adapters.SsoAdapter",
        "SOCIALACCOUNT_EMAIL_VERIFICATION": "none",
        "SOCIALACCOUNT_EMAIL_AUTHENTICATION": True,
        "SOCIALACCOUNT_EMAIL_AUTHENTICATION_AUTO_CONNECT": True,
        # The provider's page comes next, which asks; a form here could not lead there under our policy for forms.
        "SOCIALACCOUNT_LOGIN_ON_GET": True,
        "SOCIALACCOUNT_STORE_TOKENS": False,
        "SOCIALACCOUNT_REQUESTS_TIMEOUT": 10,
    }

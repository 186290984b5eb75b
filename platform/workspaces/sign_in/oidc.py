"""Single sign-on by OpenID Connect: the authorization code flow with PKCE, every token checked in full.

https://openid.net/specs/openid-connect-core-1_0.html, sections 3.1.3.7 (ID token) and 5.3.2 (userinfo).
"""

from __future__ import annotations

from typing import Any

import requests
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.internal import jwtkit
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponseBase, QueryDict
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from workspaces.sign_in.adapters import refused

PROVIDER = "sso"
# The library makes addresses by the provider's id; ours, with one provider, do not show it.
NAMED = {"provider_id": PROVIDER}
# Signatures by a key that only the provider has; never by a shared secret, never none.
ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})


class CheckingAdapter(OpenIDConnectOAuth2Adapter):
    """Checks the ID token's signature even where TLS would do, its issuer against ours, and userinfo against it."""

    def complete_login(self, request: HttpRequest, app: Any, token: Any, **kwargs: Any) -> Any:
        if not kwargs["response"].get("id_token"):
            raise OAuth2Error("the provider sent no ID token")
        login = super().complete_login(request, app, token, **kwargs)
        data = login.account.extra_data
        if data.get("userinfo", {}).get("sub") != data["id_token"].get("sub"):
            raise OAuth2Error("userinfo is about somebody else than the ID token")
        return login

    def _decode_id_token(self, app: Any, id_token: str) -> dict[str, Any]:
        sso = settings.OIDC
        if sso is None or self.openid_config.get("issuer", "").rstrip("/") != sso.issuer:
            raise OAuth2Error("the provider calls itself by another name than OIDC_ISSUER")
        try:
            if jwtkit.jwt.get_unverified_header(id_token).get("alg") not in ALGORITHMS:
                raise OAuth2Error("the ID token is not signed by a key of the provider")
            return jwtkit.verify_and_decode(
                credential=id_token,
                keys_url=self.openid_config["jwks_uri"],
                issuer=self.openid_config["issuer"],
                audience=app.client_id,
                lookup_kid=jwtkit.lookup_kid_jwk,
            )
        except (KeyError, ValueError, TypeError, jwtkit.jwt.PyJWTError) as error:
            raise OAuth2Error(f"the ID token cannot be read: {error}") from error

    def _fetch_user_info(self, access_token: str) -> dict[str, Any]:
        found = super()._fetch_user_info(access_token)
        if not isinstance(found, dict):
            raise OAuth2Error("userinfo is no JSON object")
        return found


def _answered(view: Any, request: HttpRequest) -> HttpResponseBase:
    """The answer of one step, or the page that says that the provider cannot be reached or makes no sense."""
    if settings.OIDC is None:
        raise Http404
    try:
        response: HttpResponseBase = view.adapter_view(CheckingAdapter(request, PROVIDER))(request)
    except ImmediateHttpResponse as error:
        return error.response
    except (requests.RequestException, OAuth2Error, KeyError, ValueError):
        return refused(request, _("%(name)s cannot be reached. Try again later.") % {"name": settings.OIDC.name})
    return response


@login_not_required
@never_cache
@require_safe
def start(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """On to the provider's page. Of the query only ``next`` counts: the rest could change what is asked for."""
    wanted = QueryDict(mutable=True)
    if "next" in request.GET:
        wanted["next"] = request.GET["next"]
    request.GET = wanted  # type: ignore[assignment]  # a request of our own making from here on
    return _answered(OAuth2LoginView, request)


@login_not_required
@never_cache
@require_safe
def callback(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """Back from the provider, with a code that is exchanged for who the person is."""
    return _answered(OAuth2CallbackView, request)

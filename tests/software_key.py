"""A security key made of software: credentials as a browser would hand them over, good enough to be stored."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from fido2.cose import ES256
from fido2.utils import websafe_encode
from fido2.webauthn import AttestationObject, AttestedCredentialData, AuthenticatorData


def new_credential(site: str = "testserver") -> dict[str, Any]:
    """The answer of ``navigator.credentials.create`` for a passkey of ``site``, without attestation."""
    identity = secrets.token_bytes(16)
    key = ES256.from_cryptography_key(generate_private_key(SECP256R1()).public_key())
    flags = AuthenticatorData.FLAG.UP | AuthenticatorData.FLAG.UV | AuthenticatorData.FLAG.AT
    data = AuthenticatorData.create(
        hashlib.sha256(site.encode()).digest(), flags, 0, AttestedCredentialData.create(bytes(16), identity, key)
    )
    client = json.dumps({"type": "webauthn.create", "challenge": "", "origin": f"https://{site}"}).encode()
    return {
        "id": websafe_encode(identity),
        "rawId": websafe_encode(identity),
        "type": "public-key",
        "clientExtensionResults": {"credProps": {"rk": True}},
        "response": {
            "clientDataJSON": websafe_encode(client),
            "attestationObject": websafe_encode(AttestationObject.create("none", data, {})),
        },
    }

"""A client's keys, the key that two clients agree on, boxes that only the receiver can open, and commitments.

A key pair (X25519) is derived from a seed of 16 bytes, so only the seed must be shared to recover it.
"""

import hashlib
import importlib.util
import os

from understudy.errors import UserError, missing_extra

SEED, PUBLIC, NONCE, TAG, COMMITMENT = 16, 32, 12, 16, 32  # lengths in bytes
DOMAIN = b"understudy secure aggregation/"


def need_packages() -> None:
    """Refuses in one sentence if the extra's packages are missing."""
    missing = [name for name in ("cryptography", "Crypto") if importlib.util.find_spec(name) is None]
    if missing:
        raise missing_extra("secure-aggregation", "secure")


def fresh_seed() -> bytes:
    """From the operating system, whatever the run's seed."""
    return os.urandom(SEED)


def public_key(seed: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(_derived(seed, "private key")).public_key().public_bytes_raw()


def agreed_key(seed: bytes, public: bytes, purpose: str) -> bytes:
    """32 bytes that the owners of ``seed`` and of ``public`` can both compute, and nobody else."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    mine = X25519PrivateKey.from_private_bytes(_derived(seed, "private key"))
    try:
        common = mine.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise UserError("A public key in the exchange of secure-aggregation is not valid.") from None
    return _derived(common, purpose)


def seal(key: bytes, content: bytes, about: str) -> bytes:
    """Encrypted and authenticated; it opens only with the same ``about``."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(NONCE)
    return nonce + AESGCM(key).encrypt(nonce, content, about.encode())


def unseal(key: bytes, box: bytes, about: str) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(box[:NONCE], box[NONCE:], about.encode())
    except InvalidTag:
        raise UserError(f"The {about} of secure-aggregation were changed in transit, or are not for us.") from None


def commitment(secret: bytes, about: str) -> bytes:
    """It reveals nothing about a secret of 16 random bytes, and nobody can find another secret that matches."""
    return hashlib.sha256(DOMAIN + about.encode() + b"/" + secret).digest()


def _derived(secret: bytes, purpose: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), length=32, salt=None, info=DOMAIN + purpose.encode()).derive(secret)

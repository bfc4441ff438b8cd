"""Key pairs for signatures, as files in PEM form."""

from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The files of a private key and of its public one."""

    private: Path
    public: Path


def elliptic_pair(
    folder: Path, name: str = "key", *, curve: ec.EllipticCurve | None = None, password: str = ""
) -> KeyPair:
    """Makes a pair on P-256 unless another curve is given."""
    key = ec.generate_private_key(curve or ec.SECP256R1())
    return _written(folder, name, key, password)


def rsa_pair(folder: Path, name: str = "rsa") -> KeyPair:
    """Makes a pair of a kind that cannot sign a checkpoint."""
    return _written(folder, name, rsa.generate_private_key(65537, 2048), "")


def _written(
    folder: Path, name: str, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, password: str
) -> KeyPair:
    folder.mkdir(parents=True, exist_ok=True)
    pair = KeyPair(folder / f"{name}-private.pem", folder / f"{name}-public.pem")
    lock: KeySerializationEncryption = NoEncryption()
    if password:
        lock = BestAvailableEncryption(password.encode())
    pair.private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    pair.public.write_bytes(public)
    return pair

"""Signs folders as users do, with key pairs in PEM form."""

from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from model_signing import hashing, signing

from model.files import SIGNATURE


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The files of a private key and of its public one."""

    private: Path
    public: Path


def sign(folder: Path, keys: KeyPair, form: hashing.Config | None = None) -> None:
    """Writes `model.sig` as the command `model_signing sign key` does."""
    form = form or hashing.Config().set_ignored_paths(paths=[SIGNATURE], ignore_git_paths=True)
    signer = signing.Config().use_elliptic_key_signer(private_key=keys.private)
    signer.set_hashing_config(form).sign(folder, folder / SIGNATURE)


def elliptic_pair(
    folder: Path, name: str = "key", *, curve: ec.EllipticCurve | None = None
) -> KeyPair:
    """Makes a pair on P-256 unless another curve is given."""
    return _written(folder, name, ec.generate_private_key(curve or ec.SECP256R1()))


def rsa_pair(folder: Path, name: str = "rsa") -> KeyPair:
    """Makes a pair of a kind that cannot sign a checkpoint."""
    return _written(folder, name, rsa.generate_private_key(65537, 2048))


def _written(
    folder: Path, name: str, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
) -> KeyPair:
    folder.mkdir(parents=True, exist_ok=True)
    pair = KeyPair(folder / f"{name}-private.pem", folder / f"{name}-public.pem")
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pair.private.write_bytes(private)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    pair.public.write_bytes(public)
    return pair

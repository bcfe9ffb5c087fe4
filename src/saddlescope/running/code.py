"""Digests of the code that results depend on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

_HOME = Path(__file__).parents[1]
LIBRARIES = (
    "diffrax",
    "equinox",
    "jax",
    "jaxlib",
    "matplotlib",
    "numpy",
    "optax",
    "scipy",
    "xarray",
)


def digest_code(rooms: Iterable[str], own: Iterable[Path] = ()) -> str:
    """Of all modules of some rooms, of those above them, of others, and of the libraries."""
    digest = hashlib.sha256(modules_digest(rooms, own).encode())
    for name in LIBRARIES:
        digest.update(f"{name}=={version(name)}\n".encode())
    return digest.hexdigest()[:16]


def modules_digest(rooms: Iterable[str], own: Iterable[Path] = ()) -> str:
    """Of all modules of some rooms, of those above them, and of others."""
    digest = hashlib.sha256()
    files = [path for room in rooms for path in (_HOME / room).rglob("*.py")]
    for path in sorted([*files, *_HOME.glob("*.py"), *own]):
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]

"""Text from any file or folder, by default the Python standard library's own sources."""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, UInt
from numpy.typing import ArrayLike

from saddlescope.checks import whole_number, word_of
from saddlescope.errors import InvalidInput
from saddlescope.setting.kinds import kind
from saddlescope.transformer.sources.base import AbstractSource, Description
from saddlescope.transformer.sources.bpe import BytePairs

ENDINGS = (".py", ".txt", ".md")

# Pairs are counted on this many bytes at most: enough for a thousand merges, in seconds.
_BYTES_TO_TRAIN_PAIRS = 500_000
_HELD_OUT_SHARE = 0.1
# Parts of the library's folder that are not the library, or are tables rather than code.
_LEFT_OUT = {
    "__pycache__", "dist-packages", "encodings", "pydoc_data", "site-packages", "test", "tests",
}  # fmt: skip


class Encoding(StrEnum):
    """What a token of a text is: a byte, or a piece made by byte-pair encoding.

    >>> [encoding.value for encoding in Encoding]
    ['bytes', 'bpe']
    """

    bytes = "bytes"
    bpe = "bpe"


@kind("value", "text")
class Text(AbstractSource):
    """Passages of a text, as bytes or as pairs of bytes.

    - `path`: a file, or a folder of which all files with one of the `endings` are read, in an order
      that depends on their names alone; None for the standard library of this Python.
    - `encoding`: `"bytes"` (256 tokens) or `"bpe"` (`vocabulary` tokens, trained on the text).
    - `most_bytes`: how many bytes of it to read at most.

    The last tenth is held out. A passage starts anywhere.

    `digest` is that of the text, by which results are known to be of it.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".txt") as file:
    ...     _ = file.write(b"a b c d e " * 100); file.flush()
    ...     Text(file.name, context=8).batch(jax.random.key(0), 2).shape
    (2, 9)
    """

    train: UInt[Array, " train"]
    test: UInt[Array, " test"]
    vocabulary: int = eqx.field(static=True)
    context: int = eqx.field(static=True)
    encoding: Encoding = eqx.field(static=True)
    digest: str = eqx.field(static=True)
    pairs: BytePairs | None = eqx.field(static=True)

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        context: object = 128,
        encoding: object = Encoding.bytes,
        vocabulary: object = 512,
        most_bytes: object = 4_000_000,
        endings: Sequence[str] = ENDINGS,
    ) -> None:
        self.context = whole_number("context", context, at_least=4)
        self.encoding = word_of("encoding", encoding, Encoding)
        data = read(path, whole_number("most_bytes", most_bytes), tuple(endings))
        if self.encoding is Encoding.bpe:
            self.pairs = BytePairs.train(data[:_BYTES_TO_TRAIN_PAIRS], vocabulary)
            tokens, self.vocabulary = self.pairs.encode(data), self.pairs.vocabulary
        else:
            tokens, self.vocabulary = np.frombuffer(data, np.uint8), 256
            self.pairs = None
        self.digest = hashlib.sha256(tokens.tobytes()).hexdigest()[:16]
        border = int(len(tokens) * (1 - _HELD_OUT_SHARE))
        if len(tokens) - border <= self.context:
            raise InvalidInput(
                "path",
                path,
                f"must hold more than {10 * (self.context + 1)} tokens, not {len(tokens)}",
            )
        # Small whole numbers, so that megabytes of text stay megabytes on the device.
        tokens = tokens.astype(np.uint8 if self.vocabulary <= 256 else np.uint16)
        self.train, self.test = jnp.asarray(tokens[:border]), jnp.asarray(tokens[border:])

    def batch(self, key: PRNGKeyArray, size: int) -> Int[Array, "S T"]:
        """Passages to train on."""
        return self._passages(self.train, key, size)

    def held_out(self, key: PRNGKeyArray, size: int) -> Int[Array, "S T"]:
        """Passages of the last tenth."""
        return self._passages(self.test, key, size)

    def decode(self, tokens: ArrayLike) -> bytes:
        """The text of some tokens."""
        if self.pairs is not None:
            return self.pairs.decode(tokens)
        return np.asarray(tokens, dtype=np.uint8).tobytes()

    def written(self) -> Description:
        """Identifies the source."""
        return {
            "vocabulary": self.vocabulary,
            "context": self.context,
            "encoding": self.encoding,
            "text_digest": self.digest,
        }

    def _passages(
        self, tokens: UInt[Array, " tokens"], key: PRNGKeyArray, size: int
    ) -> Int[Array, "S T"]:
        starts = jax.random.randint(key, (size,), 0, tokens.shape[0] - self.context)
        index = starts[:, None] + jnp.arange(self.context + 1, dtype=starts.dtype)[None, :]
        return tokens[index].astype(jnp.int32)


def read(path: str | Path | None, most_bytes: int, endings: tuple[str, ...] = ENDINGS) -> bytes:
    """Up to so many bytes of a file or of the files in a folder, None for the standard library."""
    root = Path(sysconfig.get_path("stdlib") if path is None else path)
    if root.is_file():
        with root.open("rb") as opened:
            return opened.read(most_bytes)
    if not root.is_dir():
        raise InvalidInput("path", str(path), "must be a file or a folder that can be read")
    files = [
        file
        for file in root.rglob("*")
        if file.suffix in endings
        and not _LEFT_OUT & set(file.relative_to(root).parts)
        and file.is_file()
    ]
    # By a digest of the name: neighbours in a folder are alike, and the last tenth should be too.
    files.sort(key=lambda file: hashlib.sha256(str(file.relative_to(root)).encode()).digest())
    parts: list[bytes] = []
    missing = most_bytes
    for file in files:
        if missing <= 0:
            break
        parts.append(file.read_bytes()[:missing])
        missing -= len(parts[-1])
    if not parts:
        raise InvalidInput("path", str(root), f"must hold files that end in {', '.join(endings)}")
    return b"".join(parts)

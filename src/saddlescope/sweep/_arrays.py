"""A store's arrays as the files that zarr would write, so that each is written atomically."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.checks import AnyArray
from saddlescope.sweep._manifest import Manifest
from saddlescope.sweep.kernel import BatchResult
from saddlescope.sweep.subjects import REASON, STATUS, Column, Status

if TYPE_CHECKING:
    import zarr
    from zarr.abc.codec import BytesBytesCodec

ABOUT = "about"
_ROOT = "saddlescope_sweep"
_TEXT = "zarr.json"


class Arrays:
    """The arrays of a store, over rows in batch order: columns, `status`, `reason`, coordinates.

    They are made in memory; `metadata` and `encode` return the files of a store.

    `grown` are the columns of every plan of the store, from the first to the latest. The first
    determine the chunks: batches of larger points have several files per array, and the files of
    smaller ones stay as they are.
    """

    def __init__(
        self,
        manifest: Manifest,
        labels: Mapping[str, AnyArray],
        grown: Sequence[tuple[Column, ...]],
    ) -> None:
        import zarr

        self.manifest = manifest
        self._sizes = [{one.name: one.sizes for one in columns} for columns in grown]
        self._ends = np.cumsum(manifest.counts)
        self._files: dict[str, object] = {}
        store = zarr.storage.MemoryStore(self._files)  # type: ignore[arg-type]
        attributes = {"coordinates": " ".join(labels), _ROOT: manifest.to_dict()}
        root = zarr.create_group(store, zarr_format=3, attributes=attributes)
        root.create_group(ABOUT)
        self._arrays = {one.name: self._create(root, one, float, np.nan) for one in self.columns}
        self._arrays[REASON] = self._create(root, Column(REASON), str, "")
        # Written last: a batch counts once this file exists.
        self._arrays[STATUS] = self._create(root, Column(STATUS), np.int8, int(Status.MISSING))
        for name, values in labels.items():
            _keep_labels(root, name, values)
        self._plain = dict(self._bytes())

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of every row."""
        return self.manifest.columns

    @property
    def metadata(self) -> dict[str, bytes]:
        """The files of an empty store, by path."""
        return self._plain

    def status_path(self, number: int) -> str:
        """The path of the file of a batch that is written last."""
        return self._paths(STATUS, number)[0]

    def _paths(self, name: str, number: int) -> list[str]:
        """The paths of the files of an array for a batch."""
        array = self._arrays[name]
        pieces = [
            range(-(-size // room))
            for size, room in zip(self._row_sizes(name, number), array.chunks[1:], strict=True)
        ]
        encode = array.metadata.encode_chunk_key
        return [f"{name}/{encode((number, *piece))}" for piece in product(*pieces)]

    def _row_sizes(self, name: str, number: int) -> tuple[int, ...]:
        """The sizes of an array's rows in the plan that added a batch."""
        plan = int(np.searchsorted(self._ends, number, side="right"))
        return self._sizes[plan].get(name, ())

    def encode(self, result: BatchResult) -> Iterator[tuple[str, bytes]]:
        """The files of a batch, in the order in which to write them."""
        chunk, number = self.manifest.chunk, result.number
        whole: dict[str, AnyArray] = {
            **result.columns,
            REASON: np.array(result.reasons, dtype=object),
            STATUS: result.status,
        }
        for name, array in self._arrays.items():
            values = whole[name]
            filled = np.full((chunk, *values.shape[1:]), array.fill_value, dtype=values.dtype)
            filled[: len(values)] = values
            array[number * chunk : (number + 1) * chunk, *map(slice, values.shape[1:])] = filled
            for path in self._paths(name, number):
                yield path, _as_bytes(self._files.pop(path))

    def read_status(self, folder: Path, number: int) -> AnyArray | None:
        """The status of a batch's rows; None where a file of it is missing or damaged."""
        chunk = self.manifest.chunk
        rows = slice(number * chunk, (number + 1) * chunk)
        paths = [path for name in self._arrays for path in self._paths(name, number)]
        try:
            for path in paths:
                self._files[path] = _buffer((folder / path).read_bytes())
            status = [np.asarray(array[rows]) for array in self._arrays.values()][-1]
        except Exception:
            # Whatever a damaged file makes zarr's codecs raise.
            wait_for_reads()
            return None
        finally:
            for path in paths:
                self._files.pop(path, None)
        return status if status.any() else None

    def _create(self, root: zarr.Group, column: Column, kind: object, fill: object) -> zarr.Array:
        chunk = self.manifest.chunk
        return root.create_array(
            column.name,
            shape=(self.manifest.batches * chunk, *column.sizes),
            chunks=(chunk, *self._sizes[0].get(column.name, ())),
            dtype=kind,  # type: ignore[arg-type]
            fill_value=fill,
            dimension_names=("row", *column.axes),
            compressors=_codecs(),
            config={"write_empty_chunks": True},
        )

    def _bytes(self) -> Iterator[tuple[str, bytes]]:
        # The root comes first: it identifies the store.
        for name in sorted(self._files, key=lambda name: (name != _TEXT, name)):
            yield name, _as_bytes(self._files[name])


def manifest_in(text: str) -> Manifest | None:
    """The copy of the manifest in the root of a store's arrays, if there is one."""
    try:
        return Manifest.from_dict(json.loads(text)["attributes"][_ROOT])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def wait_for_reads() -> None:
    """Wait for the chunks that zarr is still reading after one of them has failed.

    asyncio would complain of them on standard error when the process ends.
    """
    from zarr.core.sync import sync

    async def wait() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    sync(wait())


def _keep_labels(root: zarr.Group, name: str, values: AnyArray) -> None:
    texts = values.dtype.kind in "OUT"
    array = root.create_array(
        name,
        shape=values.shape,
        chunks=(max(len(values), 1),),
        dtype=str if texts else values.dtype,
        fill_value="" if texts else 0,
        dimension_names=("row",),
        compressors=_codecs(),
        config={"write_empty_chunks": True},
    )
    array[:] = values


def _codecs() -> list[BytesBytesCodec]:
    from zarr.codecs import Crc32cCodec, ZstdCodec

    return [ZstdCodec(level=1), Crc32cCodec()]


def _buffer(content: bytes) -> object:
    from zarr.core.buffer import default_buffer_prototype

    return default_buffer_prototype().buffer.from_bytes(content)


def _as_bytes(buffer: object) -> bytes:
    content: bytes = buffer.to_bytes()  # type: ignore[attr-defined]
    return content

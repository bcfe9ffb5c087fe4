"""Normal numbers of a seed, the same on any machine: the bits of a counter, and one map of them.

The bits are those of Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw 2011), keyed by the
seed; the map is the normal distribution's inverse (Wichura 1988, AS 241). Both stand here, in
operations that NumPy and JAX share, so that no version, flag or device changes a seed's bits, nor
its numbers by more than their last digits (four units in the last place).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, UInt32

from saddlescope.arrays import Array, namespace
from saddlescope.checks import AnyArray, FloatArray
from saddlescope.running.cores import on_all_cores

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA

_Ratio: TypeAlias = tuple[float, tuple[float, ...], tuple[float, ...]]


def _from_zero(above: tuple[float, ...], below: tuple[float, ...]) -> _Ratio:
    """A ratio of polynomials a(x)/b(x), b(0) = 1, as its value at 0 and the way w(x)/b(x) from it.

    The way is the shorter part, so that its roundings, which differ with a machine's own way to
    multiply and add, matter less.
    """
    first = Fraction(above[0])
    pairs = zip(above[1:], below[1:], strict=True)
    return above[0], tuple(float(Fraction(a) - first * Fraction(b)) for a, b in pairs), below


# AS 241's ratios of polynomials, constant terms first: in the middle, and in two parts of the tail.
_MIDDLE = _from_zero(
    (
        3.3871328727963666080e0,
        1.3314166789178437745e2,
        1.9715909503065514427e3,
        1.3731693765509461125e4,
        4.5921953931549871457e4,
        6.7265770927008700853e4,
        3.3430575583588128105e4,
        2.5090809287301226727e3,
    ),
    (
        1.0,
        4.2313330701600911252e1,
        6.8718700749205790830e2,
        5.3941960214247511077e3,
        2.1213794301586595867e4,
        3.9307895800092710610e4,
        2.8729085735721942674e4,
        5.2264952788528545610e3,
    ),
)
_NEAR = _from_zero(
    (
        1.42343711074968357734e0,
        4.63033784615654529590e0,
        5.76949722146069140550e0,
        3.64784832476320460504e0,
        1.27045825245236838258e0,
        2.41780725177450611770e-1,
        2.27238449892691845833e-2,
        7.74545014278341407640e-4,
    ),
    (
        1.0,
        2.05319162663775882187e0,
        1.67638483018380384940e0,
        6.89767334985100004550e-1,
        1.48103976427480074590e-1,
        1.51986665636164571966e-2,
        5.47593808499534494600e-4,
        1.05075007164441684324e-9,
    ),
)
_FAR = _from_zero(
    (
        6.65790464350110377720e0,
        5.46378491116411436990e0,
        1.78482653991729133580e0,
        2.96560571828504891230e-1,
        2.65321895265761230930e-2,
        1.24266094738807843860e-3,
        2.71155556874348757815e-5,
        2.01033439929228813265e-7,
    ),
    (
        1.0,
        5.99832206555887937690e-1,
        1.36929880922735805310e-1,
        1.48753612908506148525e-2,
        7.86869131145613259100e-4,
        1.84631831751005468180e-5,
        1.42151175831644588870e-7,
        2.04426310338993978564e-15,
    ),
)
# The middle reaches this far to either side; the tail changes where √(−ln p) is this large.
_MIDDLE_REACH, _NEAR_REACH = 0.425, 5.0

# Numbers of one compiled call: one shape for all, so that a number has the same digits wherever it
# stands among others.
_BLOCK = 2**15
# Draws of a block or less that are kept: sixteen megabytes at most.
_KEPT_DRAWS = 64
_WORD = np.uint64(0xFFFFFFFF)


def standard_normals(seeds: AnyArray, stream: int, count: int) -> FloatArray:
    """`count` normal numbers of each of `seeds`, [S, count]; every `stream` holds others.

    A number depends on its seed, stream and position alone: not on how many are drawn.

    >>> standard_normals(np.array([0, 7]), 0, 2)[1] == standard_normals(np.array([7]), 0, 3)[0, :2]
    array([ True,  True])
    """
    if len(seeds) * count > _BLOCK:
        return _draw(seeds, stream, count)
    # Settings that differ in anything but their shape begin at the same few numbers.
    return _draw_again(tuple(seeds.tolist()), stream, count).copy()


@lru_cache(_KEPT_DRAWS)
def _draw_again(seeds: tuple[int, ...], stream: int, count: int) -> FloatArray:
    return _draw(np.array(seeds), stream, count)


def _draw(seeds: AnyArray, stream: int, count: int) -> FloatArray:
    block = _compiled_block()
    drawn = np.empty(len(seeds) * count)

    def fill(start: int) -> None:
        part = drawn[start : start + _BLOCK]
        # What the last block lacks is filled with its last number once more.
        index = np.minimum(np.arange(start, start + _BLOCK), drawn.size - 1)
        row = index // count
        own, position = seeds[row].astype(np.uint64), (index - row * count).astype(np.uint32)
        low, high = (word.astype(np.uint32) for word in (own & _WORD, own >> np.uint64(32)))
        part[:] = block(low, high, position, np.full_like(position, stream))[: part.size]

    on_all_cores(fill, range(0, drawn.size, _BLOCK))
    return drawn.reshape(len(seeds), count)


@cache
def _compiled_block() -> Callable[[AnyArray, AnyArray, AnyArray, AnyArray], FloatArray]:
    # JAX takes a second to import: whoever draws no start is spared it.
    import jax

    from saddlescope.precision import in_float64

    draw = in_float64(jax.jit(counted_normals))
    try:
        processor = jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        # JAX was told to know nothing but its accelerator.
        return draw

    def on_processor(*words: AnyArray) -> FloatArray:
        # Blocks are small for a GPU, which would spend its time on sending them.
        with jax.default_device(processor):
            return draw(*words)

    return on_processor


def counted_normals(
    low: UInt32[Array, "*#S"],
    high: UInt32[Array, "*#S"],
    position: UInt32[Array, "*#S"],
    stream: UInt32[Array, "*#S"],
) -> Float[Array, "*S"]:
    """The normal numbers of seeds, two words each, at positions of streams."""
    xp = namespace(low)
    first, second = threefry((low, high), (position, stream))
    # 52 bits, and a half of the last one: exact in float64, and symmetric about zero.
    upper = (first >> np.uint32(6)).astype(xp.float64)
    lower = (second >> np.uint32(6)).astype(xp.float64)
    return _inverse_normal((upper - 2.0**25) * 2.0**-26 + (lower + 0.5) * 2.0**-52)


def threefry(
    key: tuple[UInt32[Array, "*#S"], UInt32[Array, "*#S"]],
    counter: tuple[UInt32[Array, "*#S"], UInt32[Array, "*#S"]],
) -> tuple[UInt32[Array, "*#S"], UInt32[Array, "*#S"]]:
    """Threefry-2x32 with 20 rounds: two random words for every key and counter."""
    words = (*key, key[0] ^ key[1] ^ np.uint32(_PARITY))
    first, second = counter[0] + words[0], counter[1] + words[1]
    # In place under NumPy, where these are new arrays.
    for turn in range(5):
        for shift in _ROTATIONS[turn % 2]:
            first += second
            turned = second << np.uint32(shift)
            second >>= np.uint32(32 - shift)
            second |= turned
            second ^= first
        first += words[(turn + 1) % 3]
        second += words[(turn + 2) % 3] + np.uint32(turn + 1)
    return first, second


def _inverse_normal(centred: Float[Array, "*S"]) -> Float[Array, "*S"]:
    """The normal distribution's inverse at a probability less a half, each below 1/2 in size."""
    xp = namespace(centred)
    normal = centred * _ratio(_MIDDLE, _MIDDLE_REACH**2 - centred * centred)
    outside = xp.abs(centred) > _MIDDLE_REACH
    if xp is not np:
        return xp.where(outside, _tail(centred), normal)
    normal[outside] = _tail(centred[outside])
    return normal


def _tail(centred: Float[Array, "*S"]) -> Float[Array, "*S"]:
    xp = namespace(centred)
    depth = xp.sqrt(-xp.log(0.5 - xp.abs(centred)))
    near, far = _ratio(_NEAR, depth - 1.6), _ratio(_FAR, depth - _NEAR_REACH)
    return xp.copysign(xp.where(depth <= _NEAR_REACH, near, far), centred)


def _ratio(coefficients: _Ratio, at: Float[Array, "*S"]) -> Float[Array, "*S"]:
    first, way, below = coefficients
    return first + at * (_polynomial(way, at) / _polynomial(below, at))


def _polynomial(coefficients: Sequence[float], at: Float[Array, "*S"]) -> Float[Array, "*S"]:
    total = coefficients[-1] * at
    for coefficient in coefficients[-2:0:-1]:
        total += coefficient
        total *= at
    total += coefficients[0]
    return total

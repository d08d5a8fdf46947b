"""Kernel `quantize`: codes of 8 bits with the scales of a tensor, of rows, or of blocks."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from tilewright.dtypes import DType, fp8_e4m3, fp8_e5m2, fp32, int8
from tilewright.errors import UnsupportedError
from tilewright.hardware import Hardware
from tilewright.jit.source import CudaType, TranslationUnit, translation_unit
from tilewright.kernels.kernel import MAX_TILES, ConfigError, Constants, Launch
from tilewright.kernels.parameters import (
    SAME_PARAMETERS,
    GemmParameters,
    LaunchShape,
    MatrixParameters,
    TensorMapSpec,
    words_of,
)
from tilewright.problem import MAX_BATCH_DIMS, Matrix
from tilewright.rounding import ceil_div, round_up

NAME = "quantize"
HEADER = "kernels/quantize.cuh"

CODES = {fp8_e4m3: "E4m3Codes", fp8_e5m2: "E5m2Codes", int8: "Int8Codes"}
"""The types that codes may have, and what CUDA calls their rounding."""

BLOCK = 128
"""Rows and columns of a block that has a scale of its own, or its columns alone."""

WARP = 32
SM_REGISTERS = 65536
OTHER_REGISTERS = 44
"""What a thread needs at most besides the elements that it keeps, by ptxas."""

CHUNK_BYTES = 16
"""What a thread loads at once."""

MOST_THREADS = 512
"""Of a CTA, so that two have room on an SM."""

AHEAD_BYTES = 80 * 1024
"""What passes through L2, for each SM, from when a tile is brought there until it is loaded; twice is too far."""

ROW_CHUNKS = 4
"""What a thread usually keeps of a row that a CTA has for itself."""

LONGEST_ROW = 32768
"""The longest row that a CTA keeps in registers; for longer ones, x is read twice."""


class Quantization(NamedTuple):
    """The question: x as it lies in memory, and what is made of it.

    rows, columns: of x; neighbors in a row are neighbors in memory, if any are. codes and scale are those of x,
    transposed_codes and transposed_scale those of x.T; codes that are not wanted are None.
    by_line: whether each row of x has scales of its own, and each one of x.T; if not, `scale` is for both. whole:
    whether a scale is for the whole row, or all of x, and not for 128 columns, or 128 x 128 elements.
    given: whether the scales are there. power_of_two, saturate: as `tilewright.quantize` takes them.
    """

    rows: int
    columns: int
    batch: tuple[int, ...]
    x: Matrix
    dtype: DType
    codes: Matrix | None
    scale: Matrix | None
    transposed_codes: Matrix | None
    transposed_scale: Matrix | None
    by_line: bool
    whole: bool
    given: bool = False
    power_of_two: bool = False
    saturate: bool = True

    @property
    def transposed(self) -> "Quantization":
        """The same of x.T."""
        shared = not self.by_line and self.scale is not None
        return self._replace(
            rows=self.columns,
            columns=self.rows,
            x=self.x.transposed,
            codes=self.transposed_codes,
            scale=self.scale.transposed if shared and self.scale else self.transposed_scale,
            transposed_codes=self.codes,
            transposed_scale=None if shared else self.scale,
        )

    @property
    def batch_count(self) -> int:
        """Number of matrices."""
        return prod(self.batch)

    @property
    def row_in_tile(self) -> bool:
        """Whether a scale is for a row that a CTA can keep, so that x is read once."""
        return self.by_line and self.whole and self.transposed_codes is None and self.columns <= LONGEST_ROW

    @property
    def maxima_count(self) -> int:
        """How many largest magnitudes a launch ahead finds: none if each scale is for one tile, or given."""
        if self.given or not self.whole or self.row_in_tile:
            return 0
        return self.batch_count * (self.rows + self.columns) if self.by_line else 1

    @property
    def maxima_bytes(self) -> int:
        """What these take in a workspace, which must be zero before."""
        return self.maxima_count * fp32.nbytes


@dataclass(frozen=True, slots=True)
class QuantizeConfig:
    """How x is cut: a CTA of `threads` threads takes a (`tile_m`, `tile_n`) tile of x as it lies in memory.

    ahead: tiles of each SM from now to the one that a CTA brings to L2; 0 for none.
    """

    tile_m: int = BLOCK
    tile_n: int = BLOCK
    threads: int = 256
    ahead: int = 0


def config_of(question: Quantization) -> QuantizeConfig:
    """The usual Config: square tiles, or whole rows, some of which are brought to L2 ahead."""
    config = _tile_of(question)
    return replace(config, ahead=tiles_in(AHEAD_BYTES, question, config))


def tiles_in(nbytes: int, question: Quantization, config: QuantizeConfig) -> int:
    """How many tiles are read and written by that many bytes in L2, at least one."""
    codes = (question.codes is not None) + (question.transposed_codes is not None)
    return max(1, nbytes // (config.tile_m * config.tile_n * (question.x.dtype.nbytes + codes)))


def _tile_of(question: Quantization) -> QuantizeConfig:
    if question.row_in_tile and question.columns > BLOCK:
        lanes = _lanes(question)
        if lanes > BLOCK:
            return row_config(question, ROW_CHUNKS)
        threads = lanes * (256 // lanes)
        return QuantizeConfig(4 * threads // lanes, lanes * CHUNK_BYTES // question.x.dtype.nbytes, threads)
    if question.transposed_codes is None and (question.by_line or question.whole):
        return QuantizeConfig(64, BLOCK, 128)
    return QuantizeConfig()


def validate(question: Quantization, config: QuantizeConfig) -> None:
    """Raise a ConfigError for a Config that the kernel, or the question, does not allow."""
    tile_m, tile_n, threads = config.tile_m, config.tile_n, max(config.threads, 1)
    in_chunk = CHUNK_BYTES // question.x.dtype.nbytes
    across = max(tile_n // in_chunk, 1)  # threads that load a row at once
    finds = not question.given and not question.maxima_count
    rules = (
        (0 <= config.ahead < 2**10, "ahead is 0 to 1023"),
        (threads % WARP == 0 and WARP <= threads <= 1024, "threads are whole warps, at most 1024"),
        (tile_m > 0 and tile_n == across * in_chunk, f"tile_n is a multiple of {in_chunk}: of a load of 16 bytes"),
        (across % WARP == 0 or WARP % across == 0, "a warp loads whole rows of a tile, or a row has whole warps"),
        (
            threads % across == 0 or (tile_m == 1 and across % threads == 0),
            f"threads are a multiple of the {across} that load a row, or divide these if a tile is one row",
        ),
        (tile_m * across % threads == 0, "threads share the tile evenly: take more rows, or fewer threads"),
        (
            question.transposed_codes is None or (tile_m == tile_n == BLOCK and threads <= 16 * across),
            f"with codes of x.T, the tile is 128 x 128 and threads are at most {16 * across}, for 16 rows at once",
        ),
        (
            not finds or not question.whole or tile_n >= question.columns,
            f"a tile has the whole row that has one scale: take a tile_n of {question.columns} or more",
        ),
        (
            question.whole or (tile_n == BLOCK and (question.by_line or tile_m == BLOCK)),
            f"a tile has one scale, or each of its rows: take a tile of {'any' if question.by_line else 128} x 128",
        ),
    )
    for holds, rule in rules:
        if not holds:
            raise ConfigError.of(config, rule)


def row_config(question: Quantization, chunks: int) -> QuantizeConfig:
    """A CTA takes one row, and a thread so many chunks of it or, if that leaves fewer threads idle, some more."""
    lanes = _lanes(question)
    chunks = max(chunks, ceil_div(lanes, MOST_THREADS))
    most = {each: round_up(ceil_div(lanes, each), WARP) for each in range(chunks, 2 * chunks)}
    chunks = min(most, key=lambda each: each * most[each])
    return QuantizeConfig(1, most[chunks] * chunks * CHUNK_BYTES // question.x.dtype.nbytes, most[chunks])


def _lanes(question: Quantization) -> int:
    """The chunks of a row, in whole warps."""
    return round_up(ceil_div(question.columns * question.x.dtype.nbytes, CHUNK_BYTES), WARP)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeConstants(Constants):
    """The Constants of `quantize`, which its header explains."""

    Input: DType
    Codes: CudaType
    source: int
    measures: bool
    by_line: bool
    direct: bool
    transposed: bool
    load_bytes: int
    direct_bytes: int
    transposed_bytes: int
    unit_stride: bool
    batched: bool
    backward: bool
    power_of_two: bool
    saturate: bool


_FROM_TILE, _FROM_MAXIMA, _GIVEN = range(3)
"""Where scales come from: CUDA's `ScaleSource`."""


def constants_of(question: Quantization, config: QuantizeConfig, *, measures: bool) -> QuantizeConstants:
    """The Constants of a launch that leaves the largest magnitudes, or of the one that writes codes."""
    source = _GIVEN if question.given else _FROM_MAXIMA if question.maxima_count else _FROM_TILE
    return QuantizeConstants(
        tile_m=config.tile_m,
        tile_n=config.tile_n,
        tile_k=1,
        threads=config.threads,
        smem_bytes=0,
        epilogue=None,
        Input=question.x.dtype,
        Codes=CudaType(CODES[question.dtype]),
        source=_FROM_TILE if measures else source,
        measures=measures,
        by_line=question.by_line,
        direct=question.codes is not None,
        transposed=question.transposed_codes is not None,
        load_bytes=question.x.vector_bytes("column"),
        direct_bytes=_store_bytes(question.codes, question.columns),
        transposed_bytes=_store_bytes(question.transposed_codes, question.rows),
        unit_stride=question.x.column_stride == 1,
        batched=question.batch_count > 1,
        backward=source == _FROM_MAXIMA and not measures,  # what was read last may still be in L2
        power_of_two=question.power_of_two,
        saturate=question.saturate,
    )


def _store_bytes(codes: Matrix | None, columns: int) -> int:
    """The widest store that is aligned everywhere, and of which none goes beyond a row."""
    if codes is None:
        return CHUNK_BYTES
    bits = codes.vector_bytes("column") | columns
    return bits & -bits


class QuantizeParameters(GemmParameters):
    """The arguments of a launch: a is x, m and n are its extents, and the others follow."""

    _fields_ = (
        ("codes", MatrixParameters),
        ("scale", MatrixParameters),
        ("transposed_codes", MatrixParameters),
        ("transposed_scale", MatrixParameters),
        ("maxima", ctypes.c_uint64),
    )


MATRICES = ("codes", "scale", "transposed_codes", "transposed_scale")
POINTERS = ("x", *MATRICES, "maxima")
"""The order in which launches take addresses; 0 for what is not there."""

_PLACES = tuple(
    getattr(QuantizeParameters, name).offset // 8 for name in ("a", *MATRICES, "maxima")
)  # a structure of a matrix begins with its pointer

_SAME_PARAMETERS = (
    f"sizeof(QuantizeParameters) == {ctypes.sizeof(QuantizeParameters)} && "
    f"sizeof(GemmParameters) == {ctypes.sizeof(GemmParameters)}",
    SAME_PARAMETERS[1],
)


class QuantizeArguments(NamedTuple):
    """The Arguments of `quantize`."""

    question: Quantization
    prefetch: int = 0
    tensor_maps: tuple[TensorMapSpec, ...] = ()

    def structure(self) -> QuantizeParameters:
        """The parameters with null pointers."""
        question = self.question
        parameters = QuantizeParameters(m=question.rows, n=question.columns, batch_count=question.batch_count)
        parameters.alpha, parameters.prefetch = 1.0, self.prefetch
        parameters.batch_shape[:] = question.batch + (1,) * (MAX_BATCH_DIMS - len(question.batch))
        words = words_of(parameters)
        matrices = (question.x, *(getattr(question, name) for name in MATRICES))
        for place, matrix in zip(_PLACES, matrices, strict=False):
            if matrix is not None:
                strides = (matrix.row_stride, matrix.column_stride, *matrix.batch_strides)
                for number, stride in enumerate(strides, place + 1):
                    words[number] = stride
        return parameters

    def places(self) -> tuple[int, ...]:
        """Those of POINTERS."""
        return _PLACES


def launches(question: Quantization, hardware: Hardware, config: QuantizeConfig | None = None) -> Sequence[Launch]:
    """The launches that answer the question, one or two, in order. `config` is that of the last.

    Raises a ConfigError for a config that is not allowed, and an UnsupportedError if the GPU lacks the conversion, or x
    has too many tiles.
    """
    if question.dtype is not int8 and hardware.capability < 89:
        raise UnsupportedError(
            f"dtype={question.dtype} needs the conversions of sm_89 or later, and {hardware.its_arch}: "
            f"take int8, or another GPU"
        )
    if hardware.capability < 80:
        raise UnsupportedError(f"quantize needs a GPU of sm_80 or later, and {hardware.its_arch}: take another GPU")
    found = []
    if question.maxima_count and question.rows and question.columns:
        found.append(_launch(question, QuantizeConfig(), hardware, measures=True))
    if config is not None:
        validate(question, config)
    found.append(_launch(question, config or config_of(question), hardware, measures=False))
    return found


def _launch(question: Quantization, config: QuantizeConfig, hardware: Hardware, *, measures: bool) -> Launch:
    constants = constants_of(question, config, measures=measures)
    # An empty x has a tile, which writes the scale of nothing.
    across = max(ceil_div(question.columns, config.tile_n), 1)
    tiles = question.batch_count * max(ceil_div(question.rows, config.tile_m), 1) * across
    if tiles > MAX_TILES or max(question.rows, question.columns) >= 2**31 - BLOCK:
        raise UnsupportedError(
            f"x has {question.rows} x {question.columns} elements in {question.batch_count} matrices, more than the "
            f"kernel counts: pass parts of it"
        )
    source = _UNITS.get((constants, question.dtype))
    if source is None:
        source = _UNITS[constants, question.dtype] = _write(constants, question)
    shape = LaunchShape(tiles, config.threads, 1, 0, hardware.launches_overlap)
    arguments = QuantizeArguments(question, config.ahead * hardware.sm_count)
    return Launch(source, shape, arguments, constants)


_UNITS: dict[tuple[QuantizeConstants, DType], TranslationUnit] = {}
"""The translation units that were written, kept like the compiled ones."""


def _write(constants: QuantizeConstants, question: Quantization) -> TranslationUnit:
    what = "maxima" if constants.measures else question.dtype.name
    # As many CTAs as have room with what a thread keeps of x: loads of one are in flight while others store.
    kept = constants.tile_m * constants.tile_n * question.x.dtype.nbytes // (4 * constants.threads)
    ctas = max(1, SM_REGISTERS // (constants.threads * (kept + OTHER_REGISTERS)))
    return translation_unit(
        entry=f"{NAME}_{question.x.dtype}_{what}_{constants.tile_m}x{constants.tile_n}_{constants.threads}",
        kernel_header=HEADER,
        kernel_template=f"{NAME}_kernel",
        constants=constants.by_name(),
        static_asserts=(_SAME_PARAMETERS,),
        parameters=[("QuantizeParameters", "parameters")],
        launch_bounds=(constants.threads, ctas),
    )

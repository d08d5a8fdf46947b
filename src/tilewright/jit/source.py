"""From a kernel's Config to one CUDA translation unit.

The unit includes the kernel's header, states every constant of the Config by name, and defines one
`extern "C"` entry that instantiates the kernel template: no macros, no positional template lists.
"""

import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.hardware import WGMMA_N

Major = Literal["K", "MN"]

_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
_STRING_OR_COMMENT = r'(?s)("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/'


class CudaType(NamedTuple):
    """The name of a CUDA C++ type; as a constant of a Config it becomes `using name = spelling;`."""

    spelling: str


Constant = bool | int | CudaType


class TranslationUnit(NamedTuple):
    """One CUDA source ready for NVRTC.

    `name` is the entry point, `headers` the names of the package headers that `text` reaches by #include.
    """

    name: str
    text: str
    headers: tuple[str, ...] = ()

    def header_texts(self) -> dict[str, str]:
        """The reachable package headers, name to text."""
        return {name: HEADERS[name] for name in self.headers}


def translation_unit(
    entry: str,
    kernel_header: str,
    kernel_template: str,
    constants: Mapping[str, Constant],
    static_asserts: Sequence[tuple[str, str]] = (),
    *,
    parameters: Sequence[tuple[str, str]],
    launch_bounds: tuple[int, int],
    preamble: str = "",
    definitions: str = "",
) -> TranslationUnit:
    """Write the translation unit that instantiates `kernel_template<Config>` under the name `entry`.

    Everything but the #include stands in namespace tilewright.

    static_asserts: (expression, message); they stand inside Config, so they name its constants without a prefix.
    parameters: (CUDA type, name), passed on in order.
    launch_bounds: (threads per CTA, CTAs per SM).
    preamble: declarations that must come before the header (see `wgmma_wrapper`).
    definitions: those that use it, and come before Config.

    Raises ValueError for a name that C++ would not take, or a header that the package lacks.
    """
    names = [entry, kernel_template, *constants, *(name for _, name in parameters)]
    for name in names:
        if not (name.isascii() and name.isidentifier()):
            raise ArgumentValueError(
                f"{name!r} in translation unit {entry!r} is not a C++ identifier; name it with letters, digits and _"
            )
    asserts = [f"  static_assert({rule}, {_string_literal(message)});" for rule, message in static_asserts]
    # The const follows the type and so makes the parameter itself const, even a pointer: __grid_constant__ needs that.
    formal = ",\n    ".join(f"{cuda_type} const __grid_constant__ {name}" for cuda_type, name in parameters)
    actual = ", ".join(name for _, name in parameters)
    threads, ctas_per_sm = launch_bounds
    sections = [
        f"// {entry}: {kernel_template} of {kernel_header}, written by tilewright.",
        f"namespace tilewright {{\n\n{preamble.strip()}\n\n}}  // namespace tilewright" if preamble else "",
        f'#include "{kernel_header}"',
        "namespace tilewright {",
        definitions,
        "\n".join(["struct Config {", *(_member(*item) for item in constants.items()), *asserts, "};"]),
        f'extern "C" __global__ void __launch_bounds__({threads}, {ctas_per_sm}) {entry}(\n    {formal}) {{\n'
        f"  {kernel_template}<Config>({actual});\n}}",
        "}  // namespace tilewright",
    ]
    text = "\n\n".join(section for section in sections if section) + "\n"
    return TranslationUnit(entry, text, reachable_headers(text))


def _member(name: str, value: Constant) -> str:
    match value:
        case CudaType(spelling):
            return f"  using {name} = {spelling};"
        case bool():
            return f"  static constexpr bool {name} = {str(value).lower()};"
        case int() if -(2**31) <= value < 2**31:
            return f"  static constexpr int {name} = {value};"
        case int():
            raise ArgumentValueError(f"constant {name} = {value} does not fit a 32-bit int; make it smaller")
        case _:
            raise ArgumentTypeError(
                f"constant {name} is a {type(value).__name__}; a Config holds bool, int and CudaType: name C++ types "
                "with the last"
            )


def _string_literal(message: str) -> str:
    escaped = message.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


_WGMMA_K = {"bf16": 16, "f16": 16, "e4m3": 32, "e5m2": 32, "s8": 32}
"""The extent along k of a wgmma by its input type: 32 bytes."""


def wgmma_wrapper(
    n: int,
    input_type: str,
    a_major: Major = "K",
    b_major: Major = "K",
    *,
    b_type: str | None = None,
    a_in_registers: bool = False,
) -> str:
    """The CUDA text of `struct Wgmma`, whose `mma` is one wgmma.mma_async m64nNkK, with fp32 sums, or int32 of s8.

    `b_type` is B's type if it is another one than A's, the other type of fp8.
    `d` is the warpgroup's (64, n) accumulator, n / 2 registers a thread; `desc_a` and `desc_b` are SMEM
    matrix descriptors of A (64, K) and B (K, n); with `accumulate` 0 the product overwrites `d`. With
    `a_in_registers`, `a` takes the place of `desc_a`: the thread's four registers of A. Pass the text as
    `preamble` to `translation_unit`. PTX ISA: "wgmma.mma_async".
    """
    if n not in WGMMA_N:
        raise ArgumentValueError(f"n = {n}: wgmma takes n = 8, 16, ... 256; use one of these")
    if input_type not in _WGMMA_K:
        names = ", ".join(map(repr, _WGMMA_K))
        raise ArgumentValueError(f"input_type = {input_type!r}: wgmma is written for {names}; use one of these")
    k, transposed = _WGMMA_K[input_type], {"K": 0, "MN": 1}
    for argument, major in (("a_major", a_major), ("b_major", b_major)):
        if major not in transposed:
            raise ArgumentValueError(
                f"{argument} = {major!r}: give 'K' or 'MN', the dimension that is contiguous in SMEM"
            )
        if major != "K" and k != 16:
            raise ArgumentValueError(f"{argument} = {major!r}: wgmma of {input_type} reads K-major operands; give 'K'")
    if a_in_registers and a_major != "K":
        raise ArgumentValueError(f"a_major = {a_major!r}: registers hold rows of A; give 'K'")
    registers, whole = n // 2, input_type == "s8"
    if whole and n > 32 and n % 16:
        raise ArgumentValueError(f"n = {n}: wgmma of s8 takes n = 8, 16, 24, 32, 48, ... 256; use one of these")
    sum_type, register, value = ("s32", "r", "int") if whole else ("f32", "f", "float")
    instruction = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{sum_type}.{input_type}.{b_type or input_type}"
    operands = _rows([f"%{i}" for i in range(registers)])
    accumulators = _rows([f'"+{register}"(d[{i}])' for i in range(registers)])
    operand_text = "\n".join(f'        "{row} "' for row in operands)
    accumulator_text = "\n          ".join(accumulators)
    majors = [transposed[b_major]] if a_in_registers else [transposed[a_major], transposed[b_major]]
    places = [f"%{registers + i}" for i in range(4 if a_in_registers else 1)]
    if a_in_registers:
        a_type, a_place = "const unsigned (&a)[4]", f"{{{', '.join(places)}}}"
        a_values, stored = ", ".join(f'"r"(a[{i}])' for i in range(4)), f"A in registers, B {b_major}-major in SMEM"
    else:
        a_type, a_place = "unsigned long long desc_a", places[0]
        a_values, stored = '"l"(desc_a)', f"A {a_major}-major, B {b_major}-major, both in SMEM"
    desc_b = registers + len(places)
    immediates = "".join(f", {each}" for each in (() if whole else (1, 1, *(majors if k == 16 else ()))))
    return f"""\
// D (64, {n}) = A (64, {k}) B ({k}, {n}) + accumulate * D; {stored}.
struct Wgmma {{
  static __device__ __forceinline__ void mma({value} (&d)[{registers}], {a_type},
                                             unsigned long long desc_b, int accumulate) {{
    asm volatile(
        "{{\\n"
        ".reg .pred scale_d;\\n"
        "setp.ne.b32 scale_d, %{desc_b + 1}, 0;\\n"
        "{instruction} {{"
{operand_text}
        "}}, {a_place}, %{desc_b}, scale_d{immediates};\\n"
        "}}\\n"
        : {accumulator_text}
        : {a_values}, "l"(desc_b), "r"(accumulate));
  }}
}};
"""


def _rows(items: Sequence[str], per_row: int = 8) -> list[str]:
    """Comma-separated items, eight to a row; every row but the last ends in a comma."""
    rows = [", ".join(items[i : i + per_row]) for i in range(0, len(items), per_row)]
    return [row + "," for row in rows[:-1]] + rows[-1:]


class Headers(dict[str, str]):
    """The texts of the package's CUDA headers by the name that #include uses, each read when it is asked for."""

    FOLDER = Path(__file__).parents[1] / "cuda"

    def __missing__(self, name: str) -> str:
        try:
            text = self[name] = (self.FOLDER / name).read_text(encoding="utf-8")
        except OSError:
            raise KeyError(name) from None
        return text


HEADERS = Headers()


def package_headers() -> dict[str, str]:
    """Every CUDA header of the package, by the name that #include uses ("kernels/mma.cuh")."""
    for path in sorted(Headers.FOLDER.rglob("*.cuh")):
        HEADERS[path.relative_to(Headers.FOLDER).as_posix()]
    return HEADERS


def reachable_headers(text: str) -> tuple[str, ...]:
    """The sorted names of the package headers that `text` includes, directly or through other headers.

    Raises ValueError for an #include that the package lacks: names are relative to its cuda folder.
    """
    reached: set[str] = set()
    pending = [("the translation unit", text)]
    while pending:
        includer, body = pending.pop()
        for name in _INCLUDE.findall(body):
            if name in reached:
                continue
            try:
                pending.append((name, HEADERS[name]))
            except KeyError:
                raise ArgumentValueError(
                    f'{includer} includes "{name}", which is not a header of the package: name it from the '
                    f'cuda folder, as in "kernels/mma.cuh"'
                ) from None
            reached.add(name)
    return tuple(sorted(reached))


@functools.cache
def headers_digest(names: tuple[str, ...]) -> str:
    """SHA-256 in hexadecimal over the named package headers and their texts."""
    digest = hashlib.sha256()
    for name in names:
        body = HEADERS[name].encode()
        digest.update(f"{name}\0{len(body)}\0".encode() + body)
    return digest.hexdigest()


def cuda_code(text: str) -> str:
    """CUDA C++ without its comments."""
    return re.sub(_STRING_OR_COMMENT, lambda match: match[1] or " ", text)


@functools.cache
def code_digest(header: str) -> str:
    """SHA-256 in hexadecimal over the code that a package header reaches: comments and blank lines do not count."""
    reached = reachable_headers(f'#include "{header}"')
    return hashlib.sha256("".join(map(_own_digest, reached)).encode()).hexdigest()


@functools.cache
def _own_digest(name: str) -> str:
    """The same over one header alone; many are reached by several."""
    lines = [line.split() for line in cuda_code(HEADERS[name]).splitlines()]
    return hashlib.sha256(f"{name}\0{[words for words in lines if words]}".encode()).hexdigest()

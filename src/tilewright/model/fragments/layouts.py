"""The formulas of fragments. All since Turing follow one pattern; Volta's quad pairs have their own.

Sources: PTX ISA, the sections "Matrix Fragments for ..." of mma, "Register Fragments" of wgmma, ldmatrix, stmatrix and
movmatrix. PTX leaves open what lanes hold of wmma: for Volta, see M. A. Raihan, N. Goli and T. Aamodt, "Modeling Deep
Learning Accelerator Enabled GPUs" (2019); for later GPUs, these are the elements that ptxas lets each lane access.
"""

from tilewright.model.fragments.fragment import Fragment


def rows_of_pieces(
    matrix: str, rows: int, depth: int, per_register: int, *, transposed: bool = False, warps: int = 1
) -> Fragment:
    """A matrix whose lines along the sum lie in groups of four lanes: A, or B if `transposed`.

    rows: rows of A or columns of B of one warp. depth: the elements of a line. Four lanes hold neighboring pieces of a
    line, as many elements as a register has; the next registers hold the lines 8 further on, then the next pieces.
    """
    halves, p = rows // 8, per_register
    line = _plus("g", 8, f"i % {halves}" if halves > 1 else "", 16 if warps > 1 else 0)
    place = _times(p, "t") + (" + e" if p > 1 else "")
    total = rows * depth // 32 // p
    if total > halves:
        place += f" + {4 * p} * " + (f"(i // {halves})" if halves > 1 else "i")
    extents = (depth, rows) if transposed else (rows * warps, depth)
    formulas = (place, line) if transposed else (line, place)
    return Fragment(matrix, *extents, 32 * warps, total, p, *formulas)


def accumulators(matrix: str, rows: int, columns: int, *, packed: bool = False, warps: int = 1) -> Fragment:
    """C and D: two neighbors of a row in each lane of a group of four.

    rows: those of one warp. packed: two of 16 bits in a register, else one a register.
    """
    halves, per_register = rows // 8, 2 if packed else 1
    pair, within = ("i", "e") if packed else ("i // 2", "i % 2")
    half = f"{pair} % {halves}" if halves > 1 else ""
    line = _plus("g", 8, half, 16 if warps > 1 else 0)
    turn = f"i // {2 // per_register * halves}" if 2 // per_register * halves > 1 else "i"
    place = f"2 * t + {within}" + (f" + 8 * ({turn})" if columns > 8 else "")
    return Fragment(
        matrix, rows * warps, columns, 32 * warps, rows * columns // 32 // per_register, per_register, line, place
    )  # fmt: skip


def quad_pair(matrix: str, layout: str = "row", *, packed: bool = True) -> Fragment:
    """The fragments of Volta's mma.m8n8k4: each of four quad pairs has an 8 x 4 A, a 4 x 8 B and an 8 x 8 C and D.

    layout: of A or B. packed: C and D of f16.
    """
    if matrix in ("C", "D"):
        if packed:
            return Fragment(matrix, 8, 8, 32, 4, 2, "t + h", "2 * i + e")
        return Fragment(matrix, 8, 8, 32, 8, 1, "t % 2 + 2 * (i // 2 % 2) + h", "4 * (i // 4) + 2 * (t // 2) + i % 2")
    line, along = ("t + h", "2 * i + e") if (matrix, layout) in (("A", "row"), ("B", "col")) else ("2 * i + e + h", "t")
    return Fragment("A", 8, 4, 32, 2, 2, line, along) if matrix == "A" else Fragment("B", 4, 8, 32, 2, 2, along, line)


def quad_pairs_together(matrix: str, *, packed: bool = True) -> Fragment:
    """The fragments of Volta's wmma.m16n16k16: four quad pairs, each with a quarter of D, row-major A, column-major B.

    A lane holds 16 elements along k, which it loads as twice 128 bits, and each of A and of B is held by two lanes.
    """
    if matrix == "A":
        return Fragment("A", 16, 16, 32, 8, 2, "t + h + 8 * (q % 2)", "2 * i + e")
    if matrix == "B":
        return Fragment("B", 16, 16, 32, 8, 2, "2 * i + e", "t + h + 8 * (q // 2)")
    one = quad_pair(matrix, packed=packed)
    return Fragment(
        matrix, 16, 16, 32, one.registers, one.per_register, f"{one.row} + 8 * (q % 2)", f"{one.column} + 8 * (q // 2)"
    )  # fmt: skip


def stacked_matrices(count: int, *, transposed: bool = False) -> Fragment:
    """The `count` 8 x 8 matrices of ldmatrix or stmatrix one below another; lane r gives the address of row r."""
    line, place = _plus("g", 8, "i" if count > 1 else "", 0), "2 * t + e"
    if transposed:
        line, place = place + (" + 8 * i" if count > 1 else ""), "g"
    name = "matrices" if count > 1 else "matrix"
    return Fragment(name, 8 * count, 8, 32, count, 2, line, place)


def _times(factor: int, letter: str) -> str:
    return letter if factor == 1 else f"{factor} * {letter}"


def _plus(letter: str, factor: int, index: str, of_warp: int) -> str:
    """The line of a group: that of its number, plus 8 for a further register, plus those of the warps before."""
    bracketed = f"({index})" if " " in index else index
    return letter + (f" + {factor} * {bracketed}" if index else "") + (f" + {of_warp} * w" if of_warp else "")

"""Names of instructions, and what is published about who holds what."""

import pytest

from tilewright.errors import ArgumentValueError
from tilewright.model.fragments.instructions import fragments_of


def test_lane_0_of_a_loaded_tile():
    """The step with a debugger in the article about mma: ldmatrix.x4 of a 16 x 16 tile gives lane 0 these pairs."""
    (pairs,) = [fragments_of("mma.m16n8k16.f16").of("A").held(0)]
    assert pairs == [[(0, 0), (0, 1)], [(8, 0), (8, 1)], [(0, 8), (0, 9)], [(8, 8), (8, 9)]]
    stacked = fragments_of("ldmatrix.x4").fragments[0].held(0)  # lane r's address is of row r % 16, column r // 16 * 8
    tile = [[(row % 16, column + row // 16 * 8) for row, column in register] for register in stacked]
    assert tile == pairs


@pytest.mark.parametrize("lane", range(32))
def test_published_formulas(lane):
    """Row and column of the PTX ISA for mma.m16n8k16 and of the article for ldmatrix: lane // 4, lane % 4 * 2."""
    group, thread = lane // 4, lane % 4
    instruction = fragments_of("mma.m16n8k16.f16")
    for i in range(8):
        row = group if i < 2 or 4 <= i < 6 else group + 8
        column = thread * 2 + (i & 1) + (8 if i >= 4 else 0)
        assert instruction.of("A").held(lane)[i // 2][i % 2] == (row, column)
    for i in range(4):
        assert instruction.of("B").held(lane)[i // 2][i % 2] == (thread * 2 + (i & 1) + (8 if i >= 2 else 0), group)
        assert instruction.of("C").held(lane)[i] == [(group if i < 2 else group + 8, thread * 2 + (i & 1))]
    assert fragments_of("ldmatrix.x1").fragments[0].held(lane) == [[(group, thread * 2), (group, thread * 2 + 1)]]


def test_quad_pairs_of_volta_share_operands():
    """Quad pairs 0 and 2 hold the same A, 0 and 1 the same B, and each its own quarter of D."""
    instruction = fragments_of("wmma.volta.m16n16k16")
    a, b, d = instruction.fragments
    assert a.held(0) == a.held(8) != a.held(4)
    assert b.held(0) == b.held(4) != b.held(8)
    assert {len(d.owners(row, column)) for row in range(16) for column in range(16)} == {1}
    assert {owner.lane for owner in d.owners(5, 3)} <= {16, 17, 18, 19}
    assert (a.registers, a.per_register) == (8, 2)  # twice 128 bits


@pytest.mark.parametrize(
    "name",
    ["mma.m16n8k16", "mma.m16n8k32.s8", "wmma.m16n16k16", "wgmma.m64n256k16.bf16", "ldmatrix.x4.trans", "stmatrix.x2",
     "mma.m8n8k4.f64", "mma.sp.m16n8k32.f16.f16"],
)  # fmt: skip
def test_each_element_has_one_owner(name):
    for fragment in fragments_of(name).fragments:
        owners = {(r, c) for lane in range(fragment.lanes) for register in fragment.held(lane) for r, c in register}
        assert (
            len(owners)
            == fragment.rows * fragment.columns
            == fragment.lanes * fragment.registers * fragment.per_register
        )
        (owner,) = fragment.owners(fragment.rows - 1, 3)
        assert fragment.held(owner.lane)[owner.register][owner.element] == (fragment.rows - 1, 3)


@pytest.mark.parametrize(
    ("given", "full"),
    [
        ("mma.m16n8k16", "mma.m16n8k16.f16.f32"),
        ("mma.m16n8k8.tf32", "mma.m16n8k8.tf32.f32"),
        ("mma.m16n8k64", "mma.m16n8k64.s4.s32"),
        ("mma.m8n8k4", "mma.m8n8k4.f16.f32.row.col"),
        ("MMA.sp.m16n8k32.bf16", "mma.sp.m16n8k32.bf16.f32"),
        ("wgmma.m64n8k32", "wgmma.m64n8k32.e4m3.f32"),
        ("wmma.m8n8k4", "wmma.m8n8k4.f64.f64"),
        ("wgmma.sp.m64n8k32", "wgmma.sp.m64n8k32.f16.f32"),
        ("mma.m16n8k64.e2m1", "mma.m16n8k64.e2m1.f32"),
        ("ldmatrix.m8n8.x2.trans.b16", "ldmatrix.x2.trans"),
    ],
)
def test_names_are_completed(given, full):
    assert fragments_of(given).name == full


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("mma.m16n8k32.e3m2", "mma.m16n8k32.s8"),
        ("mma.m16n8k32.e2m1", "mma.m16n8k32.s8"),
        ("mma.m16n8k64.e2m1", "mma.m16n8k64.s4"),
        ("mma.sp.m16n8k64.e2m3", "mma.sp.m16n8k64.s8"),
        ("mma.sp.m16n8k64.e2m1", "mma.sp.m16n8k64.s8"),
        ("mma.sp.m16n8k128.e2m1", "mma.sp.m16n8k128.s4"),
    ],
)
def test_small_floats_lie_as_integers_do(name, like):
    """The PTX ISA has them in the tables of integers of 8 bits, and of 4 bits for e2m1 with the larger K."""
    found, integers = fragments_of(name), fragments_of(like)
    assert found.fragments[:2] == integers.fragments[:2]
    assert found.notes[:-1] == integers.notes
    assert "sm_120a" in found.notes[-1]


@pytest.mark.parametrize(("sparse", "dense"), [("k32.bf16", "k16.bf16"), ("k16.tf32", "k8.tf32"), ("k64.s8", "k32.s8")])
def test_a_sparse_wgmma_has_half_of_a(sparse, dense):
    found = fragments_of(f"wgmma.sp.m64n64{sparse}")
    assert found.fragments == fragments_of(f"wgmma.m64n64{dense}").fragments
    assert "Metadata" in found.notes[-1]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("hmma.m16n8k16", "no instruction with fragments: use one such as mma.m16n8k16"),
        ("mma", "has no shape after mma"),
        ("mma.x4", "has no shape after mma"),
        ("mma.m16n8k24", "does not exist: the shapes are given by m16n8kK with K of f16 8, 16; bf16 8, 16"),
        ("mma.m16n8k16.f8", "does not exist: the shapes are given by"),
        ("mma.m16n8k32.f16", "does not exist: the shapes of f16 are given by"),
        ("mma.m16n8k16.bf16.f16", "sums bf16 in f16: use f32"),
        ("mma.m16n8k16.f16.f32.f32", "has unknown words"),
        ("mma.m16n8k16.row", "has unknown words"),
        ("mma.m16n8k16.col.col", "only mma.m8n8k4.f16 has other layouts"),
        ("mma.sp.m8n8k16.s8", "does not exist"),
        ("mma.volta.m16n8k16", "does not exist"),
        ("wmma.m16n8k16", "does not exist: the shapes are given by f16 m16n16k16"),
        ("wmma.volta.m32n8k16", "the shapes are given by m16n16k16"),
        ("wmma.m16n16k16.f16.col.col", "PTX does not say what lanes hold of other layouts"),
        ("wgmma.m64n12k16", "does not exist: the shapes are given by m64nNkK"),
        ("wgmma.m64n264k16.f16", "the shapes of f16 are given by m64nNkK"),
        ("wgmma.sp.m64n64k16.f16", "of wgmma.sp twice these"),
        ("wgmma.sp.m64n64k512.b1", "does not exist"),
        ("mma.m16n8k64.e3m2", "the shapes of e3m2 are given by"),
        ("ldmatrix.m16n16.x1.trans.b8", "moves matrices of 8 bits or fewer, which Blackwell brought"),
        ("stmatrix.x2.m16n8", "write stmatrix.x1, .x2 or .x4, and .trans or not, for those of 8 x 8"),
        ("mma.m16n8k64.e2m1.f16", "sums pairs of e2m1 in f16: use f32, or half of this K"),
        ("tcgen05.mma", "its operands in SMEM and TMEM, so that lanes hold none"),
        ("ldmatrix", "write ldmatrix.x1, .x2 or .x4"),
        ("stmatrix.x3", "write stmatrix.x1, .x2 or .x4"),
        ("", "no instruction with fragments"),
    ],
)
def test_unknown_names_are_refused(name, why):
    with pytest.raises(ArgumentValueError, match=why):
        fragments_of(name)


@pytest.mark.parametrize(
    ("name", "bits", "lanes"),
    [
        ("mma.sp.m16n8k16.f16", 16, "t = selector have 16 bits"),
        ("mma.sp.m16n8k32.bf16", 32, "t = 2 selector and 2 selector + 1 have 16 bits"),
        ("mma.sp.m16n8k8.tf32", 16, "t = selector have 16 bits"),
        ("mma.sp.m16n8k32.s8", 32, "t = 2 selector has row g, and the next one row g + 8"),
        ("mma.sp.m16n8k64.e4m3", 64, "even t have row g, and those with odd t row g + 8, 32 bits each"),
        ("mma.sp.m16n8k64.s4", 32, "t = 2 selector has row g"),
    ],
)
def test_metadata_of_sparse_products(name, bits, lanes):
    """As the emulator's sparse_matrices has it."""
    (note,) = [note for note in fragments_of(name).notes if "Metadata" in note]
    assert f"{bits} bits for each row" in note
    assert lanes in note


def test_unknown_lanes_matrices_and_elements_are_refused():
    instruction = fragments_of("mma.m16n8k16")
    with pytest.raises(ArgumentValueError, match=r"lane=32 holds nothing of A: use 0 to 31"):
        instruction.of("a").held(32)
    with pytest.raises(ArgumentValueError, match=r"matrix='E' is none of mma.m16n8k16.f16.f32: use A, B, D"):
        instruction.of("E")
    with pytest.raises(ArgumentValueError, match=r"element 0,8 is not in B, which has 16 x 8"):
        instruction.of("B").owners(0, 8)
    assert instruction.as_dict(3)["fragments"][1]["lanes"] == {3: [[(6, 0), (7, 0)], [(14, 0), (15, 0)]]}

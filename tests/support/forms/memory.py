"""Loads and stores of every width and extension, atomics and reductions in global and shared memory."""

from itertools import product

from support.forms.form import written
from tilewright.emulator.semantics.reductions import BULK_REDUCTIONS

_ATOMICS = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16x2", "bf16x2", "f16", "bf16"),
    "min": ("u32", "s32", "u64", "s64"),
    "max": ("u32", "s32", "u64", "s64"),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64"),
    "inc": ("u32",),
    "dec": ("u32",),
}
_BITS = {"f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32}


def _atomics():
    for space, place in (("global", "%cell"), ("shared", "%row")):
        for operation, kinds in _ATOMICS.items():
            for kind in kinds:
                bits = _BITS.get(kind) or int(kind[1:])
                noftz = ".noftz" if kind in _BITS else ""
                prepare = f"st.{space}.b{bits} [{place}], %a0;"
                opcode = f"{space}.{operation}{noftz}.{kind}"
                yield written(
                    f"{prepare} atom.{opcode} %d0, [{place}], %a1; ld.{space}.b{bits} %d1, [{place}];",
                    f"{kind} {kind}",
                    f"{kind} {kind}",
                )
                if operation != "exch":
                    yield written(
                        f"{prepare} red.{opcode} [{place}], %a1; ld.{space}.b{bits} %d0, [{place}];",
                        kind,
                        f"{kind} {kind}",
                    )
        for bits in (16, 32, 64):
            kind = f"b{bits}"
            yield written(
                f"st.{space}.{kind} [{place}], %a0; atom.{space}.cas.{kind} %d0, [{place}], %a1, %a2; "
                f"ld.{space}.{kind} %d1, [{place}];",
                f"{kind} {kind}",
                f"{kind}{'' if bits == 16 else ':few'} {kind}{'' if bits == 16 else ':few'} {kind}",
            )
    for operation, kind in (("add", "u32"), ("min", "s32"), ("max", "u64"), ("xor", "b32"), ("or", "b64")):
        # Of all lanes on one word, whose order does not matter.
        yield written(
            f"mov.b{kind[1:]} %d0, 0; mov.u32 %row, rows; setp.eq.u32 %p, %word, 0; "
            f"@%p st.shared.b{kind[1:]} [%row], %d0; bar.sync 0; red.shared.{operation}.{kind} [%row], %a0; "
            f"bar.sync 0; ld.shared.b{kind[1:]} %d0, [%row];",
            kind,
            kind,
        )


def _wide_atomics():
    """Exchange and compare-and-swap of 128 bits, and loads and stores of them."""
    pairs = ".reg .b128 %old, %new, %same; mov.b128 %new, {%a2, %a3}; "
    for space, place in (("global", "%cell"), ("shared", "%row")):
        start, end = f"st.{space}.v2.b64 [{place}], {{%a0, %a1}};", "mov.b128 {%d0, %d1}, %old;"
        after = f"{end} ld.{space}.v2.b64 {{%d2, %d3}}, [{place}];"
        yield written(
            f"{pairs} {start} atom.{space}.exch.b128 %old, [{place}], %new; {after}",
            "b64 b64 b64 b64",
            "b64 b64 b64 b64",
        )
        yield written(
            f"{pairs} mov.b128 %same, {{%a4, %a5}}; {start} "
            f"atom.{space}.cas.b128 %old, [{place}], %same, %new; {after}",
            "b64 b64 b64 b64",
            "b64:few b64:few b64 b64 b64:few b64:few",
        )
        yield written(
            f"{pairs} st.{space}.b128 [{place}], %new; ld.{space}.b128 %old, [{place}]; {end}",
            "b64 b64",
            "b64 b64 b64 b64",
        )


def _allocations():
    """Local memory of a size that is known only while the thread runs, and frees it again."""
    yield written(
        ".reg .b64 %end, %place, %again; and.b32 %word, %word, 7; cvt.u64.u32 %offset, %word; "
        "mad.lo.u64 %offset, %offset, 8, 16; stacksave.u64 %end; alloca.u64 %place, %offset, 16; "
        "add.u64 %offset, %place, %offset; st.local.b64 [%place], %a0; st.local.b64 [%offset+-8], %a1; "
        "ld.local.b64 %d0, [%place]; ld.local.b64 %d1, [%offset+-8]; and.b64 %d2, %place, 15; "
        "stackrestore.u64 %end; alloca.u64 %again, 16, 16; sub.u64 %d3, %again, %place;",
        "b64 b64 b64 b64",
        "b64 b64",
    )
    yield written(
        "alloca.u64 %offset, 8; cvta.local.u64 %offset, %offset; st.b64 [%offset], %a0; ld.b64 %d0, [%offset];",
        "b64",
        "b64",
    )


def _accesses():
    for space, place in (("global", "%cell"), ("shared", "%row")):
        for bits in (8, 16, 32, 64):
            for sign in "us":
                wide = max(16, bits)
                for register in {wide, max(32, wide), 64}:
                    kind = f"{sign}{bits}"
                    yield written(
                        f"st.{space}.b64 [{place}], %a0; ld.{space}.{kind} %d0, [{place}+{8 - bits // 8}];",
                        f"b{register}",
                        "b64",
                    )
                yield written(
                    f"mov.b64 %d0, 0; st.{space}.b64 [{place}], %d0; st.{space}.{sign}{bits} [{place}], %a0; "
                    f"ld.{space}.b64 %d0, [{place}];",
                    "b64",
                    f"b{wide}",
                )
        for count, bits in ((2, 16), (4, 16), (2, 32), (4, 32), (2, 64)):
            sources = [f"%a{index}" for index in range(count)]
            results = [f"%d{index}" for index in range(count)]
            kinds = " ".join([f"b{bits}"] * count)
            yield written(
                f"st.{space}.v{count}.b{bits} [{place}], {{{', '.join(sources)}}}; "
                f"ld.{space}.v{count}.b{bits} {{{', '.join(reversed(results))}}}, [{place}];",
                kinds,
                kinds,
            )


def _asynchronous_copies():
    """cp.async of every size: whole, with zeros beyond the bytes that are taken, and with its source ignored."""
    start = "st.global.v2.b64 [%cell], {%a0, %a1}; mov.b64 %d0, -1; st.shared.v2.b64 [%row], {%d0, %d0};"
    end = "cp.async.wait_all; ld.shared.v2.b64 {%d0, %d1}, [%row];"
    for size in (4, 8, 16):
        for cache in ("ca", "cg") if size == 16 else ("ca",):
            copy = f"cp.async.{cache}.shared.global [%row], [%cell], {size}"
            yield written(f"{start} {copy}; {end}", "b64 b64", "b64 b64")
            yield written(f"{start} min.u32 %a2, %a2, {size}; {copy}, %a2; {end}", "b64 b64", "b64 b64 u32:lane")
            yield written(f"{start} {copy}, %a2; {end}", "b64 b64", "b64 b64 pred")


_ADDRESSES = {
    "const": "cvta.const.u64 %offset, constants+8;",
    "param": "cvta.param.u64 %offset, out;",
    "global": "mov.b64 %offset, %cell;",
    "shared": "cvt.u64.u32 %offset, %row; cvta.shared.u64 %offset, %offset;",
    "local": "{ .local .align 8 .b8 frame[8]; mov.b64 %offset, frame; cvta.local.u64 %offset, %offset; }",
}
"""What puts a generic address of the space into %offset."""


def _generic_addresses():
    """The windows that an address of each space is in, and what lies at one of a constant and of a parameter."""
    for address in _ADDRESSES.values():
        for space in ("const", "global", "local", "shared", "shared::cta", "shared::cluster", "param", "param::entry"):
            yield written(f"{address} isspacep.{space} %d0, %offset;", "pred", "")
    yield written(
        f"{_ADDRESSES['const']} ld.b64 %d0, [%offset]; cvta.to.const.u64 %offset, %offset; "
        "ld.const.b64 %d1, [%offset+8];",
        "b64 b64",
        "",
    )
    yield written(
        f"{_ADDRESSES['param']} ld.b64 %d0, [%offset]; sub.s64 %d0, %d0, %out; ld.param.b64 %d1, [out]; "
        "sub.s64 %d1, %d1, %out; cvta.to.param.u64 %offset, %offset; mov.b64 %d2, out; sub.s64 %d2, %d2, %offset;",
        "b64 b64 b64",
        "",
    )


_IN_SHARED = (
    "{{ .shared .align 8 .b64 arrived; .reg .b32 %barrier, %there; mov.u32 %barrier, arrived; "
    "mov.u32 %there, %cluster_ctarank; mapa.shared::cluster.u32 %there, %row, %there; setp.eq.u32 %p, %word, 0; "
    "@%p mbarrier.init.shared.b64 [%barrier], 256; fence.proxy.async; bar.sync 0; "
    "mbarrier.arrive.expect_tx.shared.b64 _, [%barrier], 16; "
    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{} "
    "[%there], [%row+16], 16, [%barrier]; "
    "WAIT: mbarrier.try_wait.parity.shared.b64 %q, [%barrier], 0; @!%q bra WAIT; }}"
)


def _bulk_reductions():
    """Of 16 bytes per thread, in every operation and type."""
    for destination, operation in product(("global", "shared"), BULK_REDUCTIONS["global"]):
        for kind in BULK_REDUCTIONS[destination][operation]:
            register = f"{kind}x2" if kind in _BITS else kind
            bits = _BITS.get(register) or int(kind[1:])
            count = 128 // bits
            first, second, results = (
                "{" + ", ".join(f"%{letter}{start + index}" for index in range(count)) + "}"
                for letter, start in (("a", 0), ("a", count), ("d", 0))
            )
            noftz = ".noftz" if kind in _BITS and operation == "add" else ""
            vector, place = f"v{count}.b{bits}", "%cell" if destination == "global" else "%row"
            if destination == "global":
                act = (
                    f"fence.proxy.async; cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}{noftz}.{kind} "
                    "[%cell], [%row+16], 16; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
                )
            else:
                act = _IN_SHARED.format(f"{operation}.{kind}")
            zeros = "mov.b64 %offset, 0; st.global.v2.b64 [%cell], {%offset, %offset};"
            yield written(
                f"st.{destination}.{vector} [{place}], {first}; st.shared.{vector} [%row+16], {second}; {act} "
                f"ld.{destination}.{vector} {results}, [{place}]; {zeros}",
                " ".join([register] * count),
                " ".join([register] * (2 * count)),
                cluster=1 if destination == "global" else 2,  # without clusters an H200 refuses the instruction
            )


def _sizes():
    """What special registers say of the launch's shared memory: of whole units of it and of 77 bytes more."""
    names = ("%dynamic_smem_size", "%total_smem_size", "%aggr_smem_size")
    moves = " ".join(f"mov.u32 %d{index}, {name};" for index, name in enumerate(names))
    text = f"{moves} mov.pred %d3, %is_explicit_cluster;"
    for start in ("", ".shared .b8 more[77]; st.shared.b8 [more], 0; "):
        for dynamic in (0, 1, 260):
            for cluster in (1, 2):
                yield written(start + text, "b32 b32 b32 pred", "b32", cluster=cluster, dynamic=dynamic)


MEMORY = [
    *_atomics(),
    *_wide_atomics(),
    *_accesses(),
    *_allocations(),
    *_asynchronous_copies(),
    *_generic_addresses(),
    *_bulk_reductions(),
    *_sizes(),
]

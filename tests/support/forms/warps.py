"""Exchange within a warp: shfl, vote, match, redux, elect, activemask, and ldmatrix and stmatrix."""

from support.forms.form import forms, written

_SHARE = "st.shared.v4.b32 [%row], {%a0, %a1, %a2, %a3}; bar.sync 0;"


def _exchange():
    for mode in ("up", "down", "bfly", "idx"):
        yield written(f"shfl.sync.{mode}.b32 %d0|%d1, %a0, %a1, %a2, -1;", "b32 pred", "b32 b32:lane b32")
        for clamp in (0, 31, 0x1C00 | 3, 0x1800 | 7, 0x1003):
            for lane in (0, 1, 5, 16, 31):
                yield written(f"shfl.sync.{mode}.b32 %d0|%d1, %a0, {lane}, {clamp}, -1;", "b32 pred", "b32")
    for mode in ("all", "any", "uni"):
        yield written(f"vote.sync.{mode}.pred %d0, %a0, -1;", "pred", "pred")
        yield written(f"setp.gt.u32 %p, %word, 250; vote.sync.{mode}.pred %d0, !%p, -1;", "pred", "pred")
    yield written("vote.sync.ballot.b32 %d0, %a0, -1;", "b32", "pred")
    for bits in (32, 64):
        yield written(f"match.any.sync.b{bits} %d0, %a0, -1;", "b32", f"b{bits}:few")
        yield written(f"match.all.sync.b{bits} %d0|%d1, %a0, -1;", "b32 pred", f"b{bits}:few")
        yield written(
            f"shr.u32 %word, %word, 6; cvt.u{bits}.u32 %a0, %word; match.all.sync.b{bits} %d0|%d1, %a0, -1;",
            "b32 pred",
            f"b{bits}",
        )
    for operation in ("add", "min", "max"):
        for kind in ("u32", "s32"):
            yield written(f"redux.sync.{operation}.{kind} %d0, %a0, -1;", kind, kind)
    for operation in ("and", "or", "xor"):
        yield written(f"redux.sync.{operation}.b32 %d0, %a0, -1;", "b32", "b32")
    yield written("elect.sync %d0|%d1, -1;", "b32 pred", "b32")
    yield written("activemask.b32 %d0;", "b32", "b32")
    # Masks that are not of all lanes: the even lanes go one way, the odd ones the other.
    even = "and.b32 %word, %word, 1; setp.eq.u32 %p, %word, 0; mov.b32 %d0, 0; "
    for opcode in ("redux.sync.add.u32 %d0, %a0,", "vote.sync.ballot.b32 %d0, %q,", "match.any.sync.b32 %d0, %a0,"):
        yield written(
            f"{even} setp.gt.u32 %q, %a0, 1; @%p bra EVEN; {opcode} 0xAAAAAAAA; bra DONE; "
            f"EVEN: {opcode} 0x55555555; DONE:",
            "b32",
            "b32:few",
        )
    # One mask of all lanes, at two places; and at one that the even lanes pass by.
    for opcode in (
        "shfl.sync.bfly.b32 %d0, %a0, 3, 31,", "shfl.sync.idx.b32 %d0, %a0, 5, 31,", "redux.sync.add.u32 %d0, %a0,",
        "vote.sync.ballot.b32 %d0, %q,", "match.any.sync.b32 %d0, %a0,", "bar.warp.sync",
    ):  # fmt: skip
        begin = f"{even} setp.gt.u32 %q, %a0, 1; @%p bra EVEN;"
        yield written(
            f"{begin} add.u32 %a0, %a0, 1; {opcode} -1; bra DONE; EVEN: {opcode} -1; add.u32 %d0, %d0, 1; DONE:",
            "b32",
            "b32:few",
        )
        if "bfly" not in opcode:
            yield written(f"{begin} {opcode} -1; EVEN: add.u32 %d0, %d0, 1;", "b32", "b32:few")
    yield written(
        f"{even} mov.b32 %d1, 0; @%p bra EVEN; bra DONE; EVEN: elect.sync %d0|%q, 0x55555555; "
        "selp.b32 %d1, 1, 0, %q; DONE:",
        "b32 b32",
        "b32",
    )


def _matrices():
    for count, registers in ((1, "%d0"), (2, "%d0, %d1"), (4, "%d0, %d1, %d2, %d3")):
        results = " ".join(["b32"] * count)
        for transpose in ("", ".trans"):
            yield written(
                f"{_SHARE} ldmatrix.sync.aligned.m8n8.x{count}{transpose}.shared.b16 {{{registers}}}, [%row];",
                results,
                "b32 b32 b32 b32",
            )
            sources = registers.replace("d", "a")
            yield written(
                "mov.b32 %word, 0; st.shared.v4.b32 [%row], {%word, %word, %word, %word}; bar.sync 0; "
                f"stmatrix.sync.aligned.m8n8.x{count}{transpose}.shared.b16 [%row], {{{sources}}}; bar.sync 0; "
                "ld.shared.v4.b32 {%d0, %d1, %d2, %d3}, [%row];",
                "b32 b32 b32 b32",
                results,
            )
    yield from forms("movmatrix.sync.aligned.m8n8.trans.b16", "b32", "b32")


WARPS = [*_exchange(), *_matrices()]

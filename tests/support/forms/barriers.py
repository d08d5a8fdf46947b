"""Barriers that reduce or stand under a guard, and stores and reductions that an mbarrier of another CTA hears of."""

from support.forms.form import written

_SEND = "weak.shared::cluster.mbarrier::complete_tx::bytes"
_REDUCE = "relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes"
_REDUCTIONS = {
    "inc": ("u32",), "dec": ("u32",), "min": ("u32", "s32"), "max": ("u32", "s32"), "and": ("b32",), "or": ("b32",),
    "xor": ("b32",), "add": ("u32", "s32", "u64"),
}  # fmt: skip
_CLUSTER_SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; "


def _reductions():
    """bar.red of a predicate that nearly all or nearly no thread has, so that and, or and popc differ among CTAs."""
    for rare in ("setp.ne.u32 %q, %a0, 5;", "setp.eq.u32 %q, %a0, 5;"):
        for operation, kind in (("popc", "u32"), ("and", "pred"), ("or", "pred")):
            result = "b32" if operation == "popc" else "pred"
            for opcode, barrier, condition in (
                (f"bar.red.{operation}.{kind}", "0", "%q"),
                (f"bar.cta.red.{operation}.{kind}", "3, 256", "!%q"),
                (f"barrier.red.{operation}.aligned.{kind}", "0", "!%q"),
                (f"barrier.cta.red.{operation}.{kind}", "15, 256", "%q"),
            ):
                yield written(f"{rare} {opcode} %d0, {barrier}, {condition};", result, "b32")
            # Each pair of warps at a barrier of its own, twice.
            yield written(
                f"{rare} shr.u32 %word, %word, 6; barrier.red.{operation}.aligned.{kind} %d0, %word, 64, %q; "
                f"barrier.red.{operation}.aligned.{kind} %d1, %word, 64, !%q;",
                f"{result} {result}",
                "b32",
            )


def _guards():
    """Barriers and waits that only some threads execute."""
    start = "st.shared.b32 [%row], %a0; xor.b32 %row, %row, 32; "
    for opcode in ("bar.sync", "barrier.cta.sync"):
        yield written(
            f"{start} setp.lt.u32 %p, %word, 128; @%p {opcode} 1, 128; @!%p {opcode} 2, 128; "
            "ld.shared.b32 %d0, [%row];",
            "b32",
            "b32",
        )
    yield written(
        "setp.lt.u32 %p, %word, 128; setp.lt.u32 %q, %a0, 0x01000000; mov.b32 %d0, 7; "
        "@%p bar.red.popc.u32 %d0, 1, 128, %q;",
        "b32",
        "b32",
    )
    yield written(
        f"{start} setp.lt.u32 %p, %word, 128; @%p barrier.cluster.arrive.aligned; @!%p barrier.cluster.arrive.aligned; "
        "@!%p barrier.cluster.wait.aligned; @%p barrier.cluster.wait.aligned; ld.shared.b32 %d0, [%row];",
        "b32",
        "b32",
        cluster=2,
    )
    yield written(
        f".shared .align 8 .b64 signal; {start} setp.eq.u32 %p, %word, 0; "
        "@%p mbarrier.init.shared::cta.b64 [signal], 256; bar.sync 0; mbarrier.arrive.shared::cta.b64 _, [signal]; "
        "and.b32 %word, %word, 1; setp.eq.u32 %p, %word, 0; setp.ne.u32 %q, %word, 0; mov.b32 %d0, 7; "
        "WAIT: @%p mbarrier.try_wait.parity.shared::cta.b64 %q, [signal], 0; @!%q bra WAIT; "
        "@%p ld.shared.b32 %d0, [%row];",
        "b32",
        "b32",
    )


def _pending():
    """The pending counts of the states that two arrivals at the thread's own mbarrier return."""
    for arrive in ("arrive.shared::cta", "arrive.noComplete.shared::cta", "arrive_drop.shared::cta"):
        yield written(
            ".reg .b64 %first, %later; .reg .b32 %count; and.b32 %count, %a0, 0xfff; add.u32 %count, %count, 3; "
            f"mbarrier.init.shared::cta.b64 [%row], %count; mbarrier.{arrive}.b64 %first, [%row], 1; "
            "sub.u32 %count, %count, 2; "
            f"mbarrier.{arrive}.b64 %later, [%row], %count; mbarrier.pending_count.b64 %d0, %first; "
            "mbarrier.pending_count.b64 %d1, %later;",
            "b32 b32",
            "b32",
        )


def _sent(count, send, results, sources, receive, prepare=""):
    """Every thread sends `count` bytes to its peer's row, and reads its own once the mbarrier has heard of all."""
    return written(
        ".shared .align 8 .b64 signal; .reg .b32 %to, %there, %peer; mov.u32 %there, signal; "
        "setp.eq.u32 %p, %word, 0; @%p mbarrier.init.shared::cta.b64 [signal], 1; "
        f"@%p fence.mbarrier_init.release.cluster; {prepare} {_CLUSTER_SYNC}"
        f"@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [signal], {256 * count}; "
        "mov.u32 %peer, %cluster_ctarank; xor.b32 %peer, %peer, 1; "
        "mapa.shared::cluster.u32 %to, %row, %peer; mapa.shared::cluster.u32 %there, %there, %peer; "
        f"{send} WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [signal], 0; @!%q bra WAIT; "
        f"{receive} {_CLUSTER_SYNC}",
        results,
        sources,
        cluster=2,
    )


def _stores():
    for kind in ("b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"):
        bits = int(kind[1:])
        for count in (1, 2, 4) if bits == 32 else (1, 2):
            sources, results = (", ".join(f"%{letter}{i}" for i in range(count)) for letter in "ad")
            vector = f"v{count}." if count > 1 else ""
            yield _sent(
                count * bits // 8,
                f"st.async.{_SEND}.{vector}{kind} [%to], {'{' * (count > 1)}{sources}{'}' * (count > 1)}, [%there];",
                " ".join([f"b{bits}"] * count),
                " ".join([f"b{bits}"] * count),
                f"ld.shared.{vector}b{bits} {'{' * (count > 1)}{results}{'}' * (count > 1)}, [%row];",
            )


def _remote_reductions():
    for operation, kinds in _REDUCTIONS.items():
        for kind in kinds:
            bits = int(kind[1:])
            yield _sent(
                bits // 8,
                f"red.async.{_REDUCE}.{operation}.{kind} [%to], %a1, [%there];",
                f"b{bits}",
                f"b{bits} b{bits}",
                f"ld.shared.b{bits} %d0, [%row];",
                f"st.shared.b{bits} [%row], %a0;",
            )
    for operation, kind in (("add", "u32"), ("xor", "b32"), ("max", "s32")):  # of all threads on one word
        yield _sent(
            4,
            f"red.async.{_REDUCE}.{operation}.{kind} [%to], %a0, [%there];",
            "b32",
            "b32",
            "ld.shared.b32 %d0, [%row];",
            "mov.u32 %row, rows; mov.b32 %d0, 0; @%p st.shared.b32 [%row], %d0;",
        )


BARRIERS = [*_reductions(), *_guards(), *_pending(), *_stores(), *_remote_reductions()]

"""Barriers that reduce, barriers under a guard, and what threads send to other CTAs, against what they should give."""

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from support.forms.barriers import BARRIERS
from support.forms.form import BLOCK, written
from support.forms.memory import MEMORY
from support.launches import emulate
from tilewright.emulator import (
    BarrierProtocol,
    Deadlock,
    Device,
    MbarrierState,
    MisdirectedStore,
    UnsupportedInstruction,
)

POLICIES = ("eager", "lazy", "random")


def results_of(form, **options):
    """(lanes, results) words of a form, which takes (lanes, sources) of them."""
    return emulate(form.launch(), **options)[1].view(np.uint64).reshape(form.lanes, -1)


def forms_with(text):
    found = [form for form in (*BARRIERS, *MEMORY) if text in form.text]
    assert found
    return found


def peers(values):
    """What the same threads of the other CTA of the cluster have."""
    return values.reshape(-1, 2, BLOCK, *values.shape[1:])[:, ::-1].reshape(values.shape)


@pytest.mark.parametrize("operation", ["popc", "and", "or"])
def test_reduction_at_a_barrier(operation):
    seen = set()
    for form in forms_with(f"red.{operation}."):
        if not form.text.startswith(("setp.ne.", "setp.eq.")):
            continue
        fives = (form.inputs[:, 0] & 0xFFFFFFFF) == 5
        holds = fives if form.text.startswith("setp.eq.") else ~fives
        width = 64 if "%word" in form.text else BLOCK
        negated = [part.split(",")[-1].strip() == "!%q" for part in form.text.split(";")[1:] if "red." in part]
        results = results_of(form, asynchrony="random")
        for column, negate in enumerate(negated):
            together = (holds ^ negate).reshape(-1, width)
            combine = {"popc": together.sum, "and": together.all, "or": together.any}[operation]
            expected = combine(axis=1)
            seen.update(expected.tolist())
            np.testing.assert_array_equal(results[:, column], np.repeat(expected, width), form.name)
    assert len(seen) > 1


@pytest.mark.parametrize("policy", POLICIES)
def test_barriers_under_a_guard(policy):
    """Threads, or only some of them, see what their neighbors wrote; the others keep what they had."""
    thread = np.arange(2048) % BLOCK
    for form in BARRIERS:
        if "@%p bar" not in form.text and "WAIT: @%p" not in form.text:
            continue
        values = form.inputs[:, 0] & 0xFFFFFFFF
        neighbors = values.reshape(-1, 2)[:, ::-1].reshape(-1)
        if "popc" in form.text:
            counts = (values < 1 << 24).reshape(-1, BLOCK)[:, :128].sum(axis=1)
            expected = np.where(thread < 128, np.repeat(counts, BLOCK), 7)
        elif "mbarrier" in form.text:
            expected = np.where(thread % 2 == 0, neighbors, 7)
        else:
            expected = neighbors
        np.testing.assert_array_equal(results_of(form, asynchrony=policy)[:, 0], expected, form.name)


@pytest.mark.parametrize("policy", POLICIES)
def test_stores_to_a_peer(policy):
    for form in forms_with("st.async"):
        np.testing.assert_array_equal(results_of(form, asynchrony=policy), peers(form.inputs), form.name)


def reduced(operation, kind, old, value):
    bits = int(kind[1:])
    limit = 1 << bits

    def signed(word):
        return word - limit if kind[0] == "s" and word >= limit // 2 else word

    return {
        "inc": lambda: 0 if old >= value else old + 1,
        "dec": lambda: value if old == 0 or old > value else old - 1,
        "min": lambda: min(old, value, key=signed),
        "max": lambda: max(old, value, key=signed),
        "and": lambda: old & value,
        "or": lambda: old | value,
        "xor": lambda: old ^ value,
        "add": lambda: (old + value) % limit,
    }[operation]()


@pytest.mark.parametrize("policy", POLICIES)
def test_reductions_in_a_peer(policy):
    for form in forms_with("red.async"):
        opcode = next(word for word in form.text.split() if word.startswith("red.async"))
        operation, kind = opcode.split(".")[-2:]
        values = form.inputs & np.uint64((1 << int(kind[1:])) - 1)
        if len(form.sources) == 2:
            pairs = zip(values[:, 0].tolist(), peers(values[:, 1]).tolist(), strict=True)
            expected = [reduced(operation, kind, old, value) for old, value in pairs]
        else:
            expected = []
            for sent in peers(values[:, 0]).reshape(-1, BLOCK).tolist():
                total = 0
                for value in sent:
                    total = reduced(operation, kind, total, value)
                expected += [total] * BLOCK
        assert results_of(form, asynchrony=policy)[:, 0].tolist() == expected, form.name


def test_atomics_of_128_bits():
    for form in forms_with("b128"):
        a = form.inputs
        old, new = a[:, :2], a[:, 2:4]
        if "exch" in form.text:
            expected = np.hstack([old, new])
        elif "cas" in form.text:
            same = (old == a[:, 4:6]).all(axis=1)
            assert 0 < same.sum() < same.size
            expected = np.hstack([old, np.where(same[:, None], new, old)])
        else:
            expected = new
        np.testing.assert_array_equal(results_of(form), expected, form.name)


def test_compare_and_swap_of_128_bits_in_the_order_of_lanes():
    """Lane t finds (t, -t) and leaves (t + 1, -t - 1)."""
    form = written(
        ".reg .b128 %old, %new, %same; .reg .b64 %low, %high; mov.u32 %row, rows; mov.b64 %low, 0; "
        "setp.eq.u32 %p, %word, 0; @%p st.shared.v2.b64 [%row], {%low, %low}; bar.sync 0; "
        "cvt.u64.u32 %low, %word; neg.s64 %high, %low; mov.b128 %same, {%low, %high}; "
        "add.u64 %low, %low, 1; neg.s64 %high, %low; mov.b128 %new, {%low, %high}; "
        "atom.shared.cas.b128 %old, [%row], %same, %new; mov.b128 {%d0, %d1}, %old;",
        "b64 b64",
        "b32",
    )
    thread = np.arange(form.lanes, dtype=np.uint64) % np.uint64(BLOCK)
    np.testing.assert_array_equal(results_of(form), np.stack([thread, -thread], axis=1))


VOTES = """
extern "C" __global__ void vote(int* out) {
  int t = threadIdx.x;
  if (t >= THERE) return;
  out[3 * t] = __syncthreads_count(t % 3 == 0);
  out[3 * t + 1] = __syncthreads_and(t < THERE);
  out[3 * t + 2] = __syncthreads_or(t > THERE);
}
"""


@pytest.mark.parametrize("there", [96, 75])
def test_threads_that_have_exited_do_not_vote(there):
    """A whole warp, or a part of one."""
    device = Device(memory_bytes=1 << 20)
    out = device.upload(np.zeros(3 * there, np.int32))
    device.launch(device.load(compile_ptx(VOTES, "sm_90a", f"-DTHERE={there}")), (1,), (128,), [out])
    assert device.read(out, 12 * there).view(np.int32).reshape(there, 3).tolist() == [[there // 3, 1, 0]] * there


NAMED = """
extern "C" __global__ void meet(int* out) {
  __shared__ int row[64];
  int t = threadIdx.x;
  if (t >= 40 && t % 3) return;
  for (int i = 0; i < 2; i++) {
    row[t] = t + i;
    if (t % 3 == 2) asm volatile("barrier.sync 1, 64;" ::: "memory");
    else asm volatile("barrier.sync 1, 64;" ::: "memory");
    out[t] = row[(t + 3) % 40];
    asm volatile("barrier.sync 2, COUNT;" ::: "memory");
  }
}
"""


@pytest.mark.parametrize("threads", [64, 55])
def test_a_warp_counts_as_a_whole_at_a_barrier_for_so_many_threads(threads):
    """Also where some of its threads have exited or never were, and the others come one after the other."""
    device = Device(memory_bytes=1 << 20)
    out = device.upload(np.zeros(64, np.int32))
    device.launch(device.load(compile_ptx(NAMED.replace("COUNT", "64"))), (1,), (threads,), [out])
    found = device.read(out, 256).view(np.int32)
    there = np.array([t for t in range(threads) if t < 40 or t % 3 == 0])
    np.testing.assert_array_equal(found[there], (there + 3) % 40 + 1)


@pytest.mark.planted_fault
def test_a_warp_that_has_exited_does_not_count_at_a_barrier_for_so_many_threads():
    device = Device(memory_bytes=1 << 20)
    with pytest.raises(Deadlock, match="64 of 96 threads have arrived at barrier 2"):
        device.launch(device.load(compile_ptx(NAMED.replace("COUNT", "96"))), (1,), (64,), [device.allocate(256)])


SEND = "mapa.shared::cluster.u32 %to, %row, {to}; mapa.shared::cluster.u32 %bar, %bar, {bar}; {send}"
STORE = "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%to], 1, [%bar];"
REDUCE = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%to], 1, [%bar];"


@pytest.mark.planted_fault
@pytest.mark.parametrize(
    ("text", "cluster", "message"),
    [
        ("setp.lt.u32 %p, %word, 32; @%p bra A; bar.sync 0; bra B; A: bar.red.or.pred %q, 0, %p; B:",
         1, "another kind"),
        ("setp.lt.u32 %p, %word, 32; @%p bra A; bar.red.and.pred %q, 0, %p; bra B; A: bar.red.or.pred %q, 0, %p; B:",
         1, "another kind"),
        (SEND.format(to=0, bar=0, send=STORE), 1, "cluster of more than one"),
        (SEND.format(to=0, bar=1, send=STORE), 2, "both must be of one"),
        (SEND.format(to=0, bar=0, send=REDUCE), 2, "another's"),
    ],
)  # fmt: skip
def test_protocol(text, cluster, message):
    form = written(f".shared .align 8 .b64 signal; .reg .b32 %to, %bar; mov.u32 %bar, signal; {text}", "b32", "b32",
                   cluster=cluster)  # fmt: skip
    with pytest.raises(BarrierProtocol, match=message) as raised:
        emulate(form.launch())
    assert isinstance(raised.value, MisdirectedStore) == ("async" in text)


@pytest.mark.parametrize(
    "text",
    [
        "st.async.release.gpu.global.b32 [%cell], %a0;",
        "red.async.release.gpu.global.add.u32 [%cell], %a0;",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.min.u64 [%row], %a0, [%row];",
        "atom.global.add.b128 %a0, [%cell], %a0;",
    ],
)
def test_forms_of_other_gpus_and_of_none_are_refused(text):
    with pytest.raises(UnsupportedInstruction):
        emulate(written(text, "b32", "b32").launch())


PENDING = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry e(.param .u64 out) {
  .shared .align 8 .b64 bar;
  .reg .pred %p, %q; .reg .b32 %t, %i, %n<5>; .reg .b64 %o, %w, %s<4>;
  ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mov.u32 %i, %ctaid.x;
  setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared::cta.b64 [bar], COUNT; bar.sync 0;
  mbarrier.arrive.noComplete.shared::cta.b64 %s0, [bar], 2;
  mbarrier.pending_count.b64 %n0, %s0;
  bar.sync 0;
  @%p mbarrier.arrive_drop.noComplete.shared::cta.b64 %s1, [bar], 5;
  @%p mbarrier.arrive.shared::cta.b64 _, [bar], LAST;
  bar.sync 0;
  mov.b32 %n1, 0; @%p mbarrier.pending_count.b64 %n1, %s1;
  mbarrier.test_wait.shared::cta.b64 %q, [bar], %s0;
  selp.b32 %n2, 1, 0, %q;
  @%p mbarrier.arrive.noComplete.shared::cta.b64 %s2, [bar], 1;
  mov.b32 %n3, 0; @%p mbarrier.pending_count.b64 %n3, %s2;
  @%p mbarrier.test_wait.shared::cta.b64 %q, [bar], %s2;
  @%p selp.b32 %n2, 2, %n2, %q;
  mad.lo.u32 %t, %i, 64, %t; mul.wide.u32 %w, %t, 16; add.u64 %o, %o, %w;
  st.global.v4.b32 [%o], {%n0, %n1, %n2, %n3};
  ret;
}
"""


def run_pending(count, last):
    device = Device(memory_bytes=1 << 20)
    out = device.allocate(16 * 3 * 64)
    device.launch(device.load(PENDING.replace("COUNT", str(count)).replace("LAST", str(last))), (3,), (64,), [out])
    return device.read(out, 16 * 3 * 64).view(np.uint32).reshape(3, 64, 4)


def test_states_tell_how_many_arrivals_were_pending():
    words = run_pending(140, 7)
    np.testing.assert_array_equal(np.sort(words[..., 0]), np.broadcast_to(np.arange(14, 142, 2), (3, 64)))
    np.testing.assert_array_equal(words[..., 1], np.where(np.arange(64) == 0, 12, 0) * np.ones((3, 1)))
    assert (words[..., 2] == 1).all()  # the phase of the first states is over, that of the last is not
    assert (words[:, 0, 3] == 135).all()  # as 5 of 140 have left


STATES = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry e() {{
  .shared .align 8 .b64 bar[2];
  .reg .pred %p, %q; .reg .b32 %t; .reg .b64 %first, %other;
  mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0;
  @%p mbarrier.init.shared::cta.b64 [bar], 64; @%p mbarrier.init.shared::cta.b64 [bar+8], 64; bar.sync 0;
  mbarrier.arrive.shared::cta.b64 %first, [bar]; mbarrier.arrive.shared::cta.b64 %other, [bar+8]; bar.sync 0;
  setp.eq.u32 %p, %t, 40;
  {text}
  ret;
}}
"""
NEXT_PHASE = "mbarrier.arrive.shared::cta.b64 _, [bar]; bar.sync 0; "
STATE_WAITS = [
    "@%p mbarrier.test_wait.shared::cta.b64 %q, [bar{offset}], {state};",
    "@!%p bra Past; L: mbarrier.try_wait.shared::cta.b64 %q, [bar{offset}], {state}; @!%q bra L; Past:",
]


def run_states(text, policy="eager"):
    """64 threads that have completed the first phase of two mbarriers."""
    device = Device(memory_bytes=1 << 20, asynchrony=policy)
    device.launch(device.load(STATES.format(text=text)), 1, 64, [])
    assert not device.reports


@pytest.mark.parametrize("policy", ["eager", "lazy"])
@pytest.mark.parametrize("wait", STATE_WAITS)
def test_a_state_tells_of_its_phase_until_the_next_is_over(wait, policy):
    wait = wait.format(offset="", state="%first")
    run_states(wait, policy)
    with pytest.raises(MbarrierState, match=r"_wait\S* \(PTX line 12\) asks .* for phase 0, and 2 are over") as raised:
        run_states(NEXT_PHASE + wait, policy)
    assert (raised.value.threads, raised.value.address) == ("CTA 0, thread 40", 1024)
    if "test_wait" in wait:  # the mbarrier's second life begins with phase 0
        anew = "bar.sync 0; @%p mbarrier.inval.shared::cta.b64 [bar]; @%p mbarrier.init.shared::cta.b64 [bar], 64; "
        with pytest.raises(MbarrierState, match="for phase 1, and 0 are over"):
            run_states(NEXT_PHASE.replace("_", "%first") + anew + wait, policy)


@pytest.mark.parametrize("wait", STATE_WAITS)
@pytest.mark.parametrize(
    ("offset", "own", "other"), [("", "%first", "%other"), ("+8", "%other", "%first"), ("+8", "%other", "0")]
)
def test_a_state_is_of_its_own_mbarrier(wait, offset, own, other):
    run_states(wait.format(offset=offset, state=own))
    with pytest.raises(MbarrierState, match="by a state of another mbarrier"):
        run_states(wait.format(offset=offset, state=other))


TOKENS = """
__device__ unsigned shared_address(void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ unsigned long long arrive(unsigned barrier) {
  unsigned long long state;
  asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(barrier) : "memory");
  return state;
}
__device__ void wait(unsigned barrier, unsigned long long state) {
  asm volatile("{.reg .pred p; W: mbarrier.WAIT.shared.b64 p, [%0], %1; @!p bra W;}" ::"r"(barrier), "l"(state)
               : "memory");
}
extern "C" __global__ void ring(int* out) {
  __shared__ unsigned long long barriers[2], states[2];
  __shared__ int rows[2][128];
  int t = threadIdx.x, sum = 0;
  for (int i = 0; t == 0 && i < 2; i++)
    asm volatile("mbarrier.init.shared.b64 [%0], 128;" ::"r"(shared_address(barriers + i)) : "memory");
  __syncthreads();
  for (int i = 0; i < 7; i++) {
    rows[i % 2][t] = t + i;
    unsigned long long state = arrive(shared_address(barriers + i % 2));
    if (t == 100) states[i % 2] = state;
    for (int again = 0; again < 2; again++) wait(shared_address(barriers + i % 2), state);
    sum += rows[i % 2][127 - t];
    __syncthreads();
    wait(shared_address(barriers + i % 2), states[i % 2]);
  }
  out[t] = sum;
}
"""


@pytest.mark.parametrize("policy", ["eager", "lazy", "random"])
@pytest.mark.parametrize("wait", ["test_wait", "try_wait"])
def test_states_in_a_ring_of_mbarriers(wait, policy):
    device = Device(memory_bytes=1 << 20, asynchrony=policy)
    out = device.allocate(512)
    device.launch(device.load(compile_ptx(TOKENS.replace("WAIT", wait))), (2,), (128,), [out])
    assert not device.reports
    assert device.read(out, 512).view(np.int32).tolist() == [7 * (127 - t) + 21 for t in range(128)]


def test_an_arrival_that_promises_not_to_complete_the_phase_does_not():
    with pytest.raises(BarrierProtocol, match=r"arrive\.noComplete.*completes the phase"):
        run_pending(128, 7)

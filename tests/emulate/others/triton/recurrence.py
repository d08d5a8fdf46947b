"""The linear recurrence y[t] = gate[t] * y[t - 1] + x[t] in chunks, by an associative scan."""

import triton
import triton.language as tl


@triton.jit
def then(first_gate, first_value, second_gate, second_value):
    return first_gate * second_gate, first_value * second_gate + second_value


@triton.jit
def recurrence(gates, x, out, steps, CHANNELS: tl.constexpr, CHUNK: tl.constexpr):
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    channels = tl.num_programs(0) * CHANNELS
    carried = tl.zeros((CHANNELS,), tl.float32)
    for start in range(0, steps, CHUNK):
        step = start + tl.arange(0, CHUNK)
        place = step[:, None] * channels + channel[None, :]
        inside = step[:, None] < steps
        gate = tl.load(gates + place, mask=inside, other=1.0)
        value = tl.load(x + place, mask=inside, other=0.0)
        gate, value = tl.associative_scan((gate, value), 0, then)
        value += gate * carried[None, :]
        tl.store(out + place, value, mask=inside)
        carried = tl.sum(tl.where(tl.arange(0, CHUNK)[:, None] == CHUNK - 1, value, 0.0), 0)

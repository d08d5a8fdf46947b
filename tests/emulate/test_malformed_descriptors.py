"""Matrix descriptors and tensor maps that are none: an error with the instruction and its line."""

import random
import re
from contextlib import suppress

import numpy as np
import pytest

from support.commands import error, in_json
from tilewright.emulator import Device, EmulatorError, UnsupportedInstruction
from tilewright.emulator.semantics.tensor_map import RawTensorMap

HEADER = ".version 8.5\n.target sm_90a\n.address_size 64\n"
MULTIPLY = f"""{HEADER}.visible .entry multiply() {{
  .reg .b64 %d; .reg .f32 %f<4>;
  mov.u64 %d, DESCRIPTOR;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%f0, %f1, %f2, %f3}}, %d, %d, 0, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  ret;
}}
"""
LOAD = f"""{HEADER}.visible .entry load(.param .align 64 .b8 map[128]) {{
  .reg .b64 %m; .reg .b32 %r<3>; .reg .pred %p;
  .shared .align 128 .b8 tile[4096]; .shared .align 8 .b64 full;
  mov.b64 %m, map; cvta.param.u64 %m, %m;
  mov.u32 %r0, tile; mov.u32 %r1, full; mov.u32 %r2, 0;
  mbarrier.init.shared.b64 [full], 1;
  mbarrier.arrive.expect_tx.shared.b64 _, [full], 1024;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%m, {{%r2, %r2}}], [%r1];
W: mbarrier.try_wait.parity.shared.b64 %p, [full], 0; @!%p bra W;
  ret;
}}
"""


def load(change=lambda data: data, **options):
    device = Device(memory_bytes=1 << 20, **options)
    address = device.upload(np.zeros((64, 64), np.float16))
    data = device.tensor_map(dtype="f16", address=address, shape=(64, 64), strides=(128,), box=(64, 8))
    return device.launch(device.load(LOAD), 1, 1, [bytes(change(bytearray(data)))])


def test_a_descriptor_with_a_base_offset_names_the_instruction_and_its_line(tmp_path):
    ptx = MULTIPLY.replace("DESCRIPTOR", "0x000e000000000040")
    words = r"`wgmma\.mma_async\..*` \(PTX line 8\): matrix descriptor 0x000e000000000040 has base offset 7"
    device = Device(memory_bytes=1 << 20)
    with pytest.raises(UnsupportedInstruction, match=words):
        device.launch(device.load(ptx), 1, 128, [])
    (tmp_path / "kernel.ptx").write_text(ptx)
    assert "(PTX line 8): matrix descriptor" in error("check", tmp_path / "kernel.ptx", "--block", 128)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("rank", 0, "rank is 0 and must be 1 to 5"),
        ("rank", 6, "rank is 6 and must be 1 to 5"),
        ("element_type", 15, "element type is 15 and must be below"),
        ("swizzle", 96, "swizzle is 96 and must be one of"),
        ("address", 1, "address is .* and must be positive and 16-byte aligned"),
    ],
)
def test_a_tensor_map_that_was_overwritten_names_the_instruction_and_its_line(field, value, words):
    def change(data):
        raw = RawTensorMap.unpack(data)
        setattr(raw, field, value)
        return raw.pack()

    assert load().tma_loaded_bytes == 1024
    message = rf"`cp\.async\.bulk\.tensor.* \(PTX line 11\): the tensor map at 0x7\w+ has been overwritten.*: {words}"
    with pytest.raises(EmulatorError, match=message) as caught:
        load(change)
    assert caught.value.address is not None


def test_a_tensor_map_that_was_overwritten_is_reported(tmp_path):
    path = tmp_path / "kernel.ptx"
    path.write_text(LOAD)
    for argument, words in ((bytes(128), "there is no tensor map at 0x"), (b"\xff" * 128, "there is no tensor map")):
        options = ("--block", 1, "--arg", f"bytes:{argument.hex()}", "--schedules", 0)
        (report,) = in_json("check", path, *options, code=1)["reports"]
        assert words in report["message"]
        (place,) = report["locations"]
        assert re.fullmatch(r"`cp\.async\.bulk\.tensor\S+` \(PTX line 11\)", place)
        assert report["threads"] == "CTA 0, thread 0"


@pytest.mark.parametrize("seed", range(40))
def test_a_tensor_map_with_any_bytes_ends_as_an_error_of_the_emulator(seed):
    chosen = random.Random(seed)

    def change(data):
        for _ in range(chosen.randint(1, 3)):
            data[chosen.randrange(3, 128)] = chosen.randrange(256)
        return data

    with suppress(EmulatorError):  # and nothing else
        load(change, asynchrony=chosen.choice(["eager", "lazy"]))

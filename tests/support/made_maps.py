"""PTX by which a kernel makes a tensor map: from zeros, or from one of another tensor."""

from tilewright.emulator.semantics.swizzle import SWIZZLE_SPANS

_ELEMENT_TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16", "tf32")

_BEGIN = """
  .shared .align 128 .b8 made[128];
  .reg .b64 %given, %value, %ours;
  .reg .pred %word8, %warp0;
  setp.lt.u32 %word8, %thread, 16;
  setp.lt.u32 %warp0, %thread, 32;
  mul.wide.u32 %offset, %thread, 8;
  add.s64 %given, %map, %offset;
  mov.b64 %value, 0;
  GIVEN
  mov.u64 %ours, made;
  add.s64 %ours, %ours, %offset;
  @%word8 st.shared.b64 [%ours], %value;
  bar.sync 0;
  mov.u64 %ours, made;
  ld.param.u64 %value, [tensor];
  add.s64 %value, %value, TENSOR_OFFSET;
  @%first tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%ours], %value;
"""
_END = """
  bar.sync 0;
  mov.u64 %map, maps;
  mul.wide.u32 %offset, %rank, 128;
  add.s64 %map, %map, %offset;
  @!%warp0 bra COPIED;
  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%map], [%ours], 128;
COPIED:
  bar.sync 0;
  fence.proxy.tensormap::generic.acquire.gpu [%map], 128;
"""
WORKSPACE = ".global .align 128 .b8 maps[16384];\n"
"""A place for the map of each CTA, of up to 128."""


def ptx_of(source, offset, dtype, swizzle, shape, strides, box, steps, oob_nan):
    """Statements that make a map, of which %map then has the address; source: "given", which %map has, or "zeros"."""
    fields = [("global_dim", "b32", shape), ("global_stride", "b64", strides)]
    single = []
    if source == "zeros":
        fields += [("box_dim", "b32", box), ("element_stride", "b32", steps)]
        single = [("rank", len(shape) - 1), ("elemtype", _ELEMENT_TYPES.index(dtype)), ("interleave_layout", 0),
                  ("swizzle_mode", SWIZZLE_SPANS.index(swizzle)), ("fill_mode", int(oob_nan))]  # fmt: skip
    replace = "  @%first tensormap.replace.tile."
    lines = [f"{replace}{name}.shared::cta.b1024.b32 [%ours], {value};" for name, value in single]
    for name, kind, values in fields:
        lines += [
            f"{replace}{name}.shared::cta.b1024.{kind} [%ours], {axis}, {value};" for axis, value in enumerate(values)
        ]
    given = "@%word8 ld.b64 %value, [%given];" if source == "given" else ""
    return _BEGIN.replace("GIVEN", given).replace("TENSOR_OFFSET", str(offset)) + "\n".join(lines) + _END

"""The measured ladder: every kernel from naive to the state of the art, verified, and timed or counted.

from tilewright.ladder import measure

record = measure((256, 256, 128), ["coalesced", "simt"], backend="emulator")
print(record["rungs"][1]["rereads"])
"""

from tilewright.ladder.climb import measure

__all__ = ["measure"]

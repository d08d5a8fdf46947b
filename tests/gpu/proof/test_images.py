"""Textures and surfaces give the same texels in the emulator and on the GPU, from the same PTX."""

import pytest

from support.images import IMAGES


@pytest.mark.parametrize(
    ("kind", "look"), [(kind, look) for kind, looks in IMAGES.items() for look in looks], ids=lambda value: ""
)
def test_an_image_gives_the_same_texels(kind, look, prove):
    prove(kind, look, look.explained)

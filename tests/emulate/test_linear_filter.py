"""The linear filter of textures: by hand calculation, and bit for bit what an H200 gives."""

import numpy as np
import pytest

from emulate.lookups import FLOATS, ONE, first, looked_up
from tilewright.emulator.semantics.linear_filter import corner_weights

LINE = "make_float4(tex1D<float>(t, c.x), 0, 0, 0)"
VOLUME = "make_float4(tex3D<float>(t, c.x, c.y, c.z), 0, 0, 0)"


def test_a_linear_filter_weighs_the_neighbors_of_the_place_less_a_half():
    places = [(0.5, 0.5), (1, 0.5), (1, 1), (1.75, 0.5), (0, 0), (3, 2)]
    assert first(ONE, FLOATS, places, filter="linear") == [1, 1.5, (1 + 2 + 8 + 16) / 4, 2.5, 1, 32]
    assert first(ONE, FLOATS, places, filter="linear", address="border") == [1, 1.5, 6.75, 2.5, 0.25, 8]


def test_the_weights_have_eight_bits():
    ramp = np.array([0, 256], np.float32)
    found = first(LINE, ramp, [(0.5 + 1 / 256,), (0.5 + 1.4 / 256,), (0.5 + 1.6 / 256,)], 1, filter="linear")
    assert found == [1, 1, 2]


@pytest.mark.parametrize(
    ("upper", "lower_row", "upper_row", "found"),
    [
        ((52, 253), (-95.625, 41.75), (95.75, -102.625), 54.52392578125),
        ((106, 228), (124.375, -120.0), (-43.875, 38.625), -6.634765625),
        ((220, 218), (80.25, -118.375), (-65.625, 120.625), 66.47412109375),
        ((95, 112), (-61.75, 78.75), (112.5, -75.25), 12.76953125),
        ((157, 211), (86.125, -79.5), (-72.5, 87.625), 17.9560546875),
        ((121, 12), (-117.875, 107.5), (86.125, -79.5), -10.95166015625),
        # Halves: (256 - x) / 2 and x / 2 for an odd x. The lower row is a border.
        ((255, 128), (0, 0), (-33.875, -124.5), -62.25),
        ((225, 128), (0, 0), (11.0, 20.375), 9.63818359375),
        ((33, 128), (0, 0), (-116.0, -64.375), -54.57177734375),
        ((1, 128), (0, 0), (85.875, -110.625), 42.169921875),
    ],
)
def test_products_of_weights_are_rounded_as_on_an_h200(upper, lower_row, upper_row, found):
    """upper: the weights of the upper texels in 1/256."""
    place = [0.5 + weight / 256 for weight in upper]
    assert first(ONE, np.array([lower_row, upper_row], np.float32), [place], filter="linear") == [found]


@pytest.mark.parametrize(
    ("upper", "texels", "found"),
    [
        ((154, 104, 172), (20.25, -101.875, 20.25, -101.875, -68.375, 84.5, -68.375, 84.5), -4.4716796875),
        ((207, 100, 142), (-52.375, -52.375, 107.75, 107.75, 119.125, 119.125, 18.625, 18.625), 67.009765625),
        ((226, 49, 92), (-19.625, -86.125, 71.25, -97.625, -123.0, -89.75, 119.375, 16.125), -68.765625),
        ((52, 89, 146), (-101.75, -2.25, -19.125, -106.25, -121.25, 2.125, 124.625, 60.875), -42.43310546875),
        # Halves along x.
        ((192, 22, 18), (-19.125, -106.25, 95.625, -87.75, 124.625, 60.875, -2.0, -35.5), 78.8466796875),
        ((36, 92, 32), (-121.25, 2.125, 124.625, 60.875, -5.375, -84.875, -109.5, 117.625), -27.77587890625),
        ((37, 27, 128), (105.875, 111.625, 23.375, 84.875, -21.375, 91.875, -117.25, -6.375), 91.62890625),
    ],
)
def test_in_three_dimensions_z_is_split_first_and_y_last_as_on_an_h200(upper, texels, found):
    """texels: by x, y and z."""
    volume = np.array(texels, np.float32).reshape(2, 2, 2).T
    place = [0.5 + weight / 256 for weight in upper]
    assert first(VOLUME, np.ascontiguousarray(volume), [place], 3, filter="linear") == [found]


def test_clamp_moves_the_place_before_its_weights_are_split():
    """An H200 rounds nothing along an axis where the place lies outside."""
    volume = np.array([[[1, 0], [0, 0]], [[1, 0], [0, 0]]], np.float32)
    inside = (0.5 + 217 / 256, 0.5 + 103 / 256)
    for z, edge in ((-3.5 + 172 / 256, 0.5), (7.5 + 172 / 256, 1.5)):
        outside, at_the_edge = first(VOLUME, volume, [(*inside, z), (*inside, edge)], 3, filter="linear")
        assert outside == at_the_edge


@pytest.mark.parametrize(
    ("dtype", "upper", "texels", "found"),
    [
        ("float16", (0, 142), (-37.625, 99.25, 27.125, 102.5), 38.3125),
        ("float16", (78, 0), (104.625, -35.5, 121.5, 13.875), 109.75),
        ("float16", (38, 218), (-56.0, -71.375, -96.25, 26.0), -57.875),
        ("uint8", (17, 0), (238, 209, 152, 90), 59698 / 65535),
        ("uint8", (0, 201), (7, 170, 7, 170), 34690 / 65535),
        ("uint16", (53, 0), (21330, 21330, 36845, 36845), 24542 / 65535),
        ("uint16", (0, 48), (55851, 15210, 55851, 15210), 48231 / 65535),
        ("int8", (0, 0), (24, 46, 14, 110), 6192 / 32767),
        ("int8", (0, 0), (-72, -72, 120, 120), -18577 / 32767),
        ("int8", (108, 0), (78, 78, -12, -12), 10328 / 32767),
        ("int8", (139, 32), (-97, 127, 60, -125), -2816 / 32767),
        ("int16", (51, 0), (3679, 22121, 6618, -3951), 4265 / 32767),
        ("int16", (194, 0), (-1631, -28033, 832, 18667), 235 / 32767),
        # Halves.
        ("float16", (32, 0), (95.25, -96.25, -91.5, -103.375), 71.9375),
        ("float16", (184, 0), (-8.25, -8.25, -77.75, -77.75), -58.21875),
        ("float16", (174, 124), (-1.375, -71.0, 90.75, -55.875), 2.251953125),
        ("uint8", (88, 0), (30, 246, 142, 206), 17605 / 65535),
        ("int16", (253, 0), (832, 18667, -6720, 6581), -6631 / 32767),
        ("int16", (128, 0), (25744, 11289, 28093, -16001), 26919 / 32767),
    ],
)
def test_the_average_is_rounded_as_on_an_h200(dtype, upper, texels, found):
    """texels: by x and y. Integers are averaged exactly, also those of 8 bits, and then rounded to 16 bits."""
    image = np.ascontiguousarray(np.array(texels, dtype).reshape(2, 2).T)
    place = [0.5 + weight / 256 for weight in upper]
    read = "element" if dtype == "float16" else "normalized"
    assert first(ONE, image, [place], filter="linear", read=read) == [np.float32(found)]


@pytest.mark.parametrize(
    ("low", "place"),
    # An H200 gathered there at normalized coordinates, in 8 texels, half a texel below.
    [(5, 0.6247676610946655), (5, 0.6247880458831787), (3, 0.37476980686187744), (7, 0.8748124837875366)],
)
def test_a_gather_takes_the_texels_of_a_filter_whose_coordinate_is_rounded(low, place):
    """Each place is less than 1/512 of a texel below the middle of a texel; further below, the texels are others."""
    ramp = np.tile(np.arange(9, dtype=np.float32), (2, 1))
    middle = 8 * place + 0.5
    gathered = looked_up("tex2Dgather<float4>(t, c.x, c.y, 0)", ramp, [(middle, 1), (low + 0.5 - 1.1 / 512, 1)])
    assert gathered.tolist() == [[low, low + 1, low + 1, low], [low - 1, low, low, low - 1]]


def test_the_weights_of_every_place_add_up():
    places = np.random.default_rng(0).integers(0, 256, (3, 1000))
    for rank in (1, 2, 3):
        weights = corner_weights(list(places[:rank]))
        assert len(weights) == 2**rank
        assert (sum(weights.values()) == 256).all()
        for corner, weight in weights.items():
            parts = [place if side else 256 - place for place, side in zip(places, corner, strict=False)]
            assert np.abs(weight - np.prod(parts, axis=0) / 256 ** (rank - 1)).max() <= (0, 0.5, 1)[rank - 1]

"""MiniImageNet and CIFAR-FS: the source, rendering of episodes, and reading of each layout."""

import csv
import io
import shutil
import sys
from pathlib import PurePath

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from PIL import Image

from sklearn_meta.tasks import Drawings
from sklearn_meta.tasks.images import ImageClasses, Pictures, load_cifar_fs, load_mini_imagenet

seeds = st.integers(0, 2**32 - 1)

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)

# Classes of each split under the files' names for it; unsorted, since readers have to sort.
CLASSES = {"train": ["wolf", "apple", "cup"], "val": ["tank"], "test": ["sea", "pear"]}


def rng_of(seed):
    return np.random.default_rng(seed)


def noise(n, seed, size=32):
    return rng_of(seed).integers(256, size=(n, size, size, 3), dtype=np.uint8)


def save(pixels, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def plain(colour, height=84, width=84):
    return np.full((height, width, 3), colour, dtype=np.uint8)


# The source


@pytest.fixture
def source():
    return ImageClasses(noise(6, 0, size=5), [2, 0, 0, 1, 2, 3], ["pear", "cup", "sea", "ash"], "p")


def test_draw_gives_the_same_dataset_without_a_copy(source):
    first, second = (source.draw(rng_of(seed)) for seed in range(2))
    assert first is second
    assert first.name == "p"
    assert first.X.shape == (6, 75)
    assert first.X.dtype == np.uint8
    assert np.shares_memory(first.X, source.images)
    assert np.array_equal(first.X[4], source.images[4].ravel())
    assert first.y.dtype == np.int64
    assert first.y.tolist() == [2, 0, 0, 1, 2, 3]
    assert len(source) == first.n_classes == 4
    assert repr(source) == "ImageClasses(6 images of 4 classes)"


def test_select_takes_names_or_a_mask(source):
    chosen = source.select(["sea", "pear"])
    assert chosen.classes.tolist() == ["pear", "sea"]  # in the order of the source
    assert np.array_equal(chosen.images, source.images[[0, 1, 2, 4]])
    assert chosen.dataset.y.tolist() == [1, 0, 0, 1]
    assert chosen.dataset.name == "p"
    assert source.select("cup").classes.tolist() == ["cup"]
    of_numbers = ImageClasses(source.images, source.dataset.y, range(4))
    assert of_numbers.select([3, 1]).classes.tolist() == ["1", "3"]
    masked = source.select(np.array([False, True, False, True]))
    assert masked.classes.tolist() == ["cup", "ash"]
    assert np.array_equal(masked.images, source.images[[3, 5]])


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("dog", "No class dog: choose from pear, cup, sea, ash"),
        (["cup", "dog"], "No class dog"),
        ([True], "one or more of the 4 .* a bool for each, got 1 True of 1"),
        ([False] * 4, "one or more of the 4"),
        ([], "one or more of the 4"),
    ],
)
def test_select_says_what_is_wrong(source, which, message):
    with pytest.raises(ValueError, match=message):
        source.select(which)


@pytest.mark.parametrize(
    ("images", "y", "classes", "message"),
    [
        (np.zeros((2, 5, 5, 3)), [0, 1], "ab", "images must be uint8"),
        (np.zeros((2, 5, 4, 3), np.uint8), [0, 1], "ab", "images must be uint8"),
        (np.zeros((2, 5, 5, 1), np.uint8), [0, 1], "ab", "images must be uint8"),
        (np.zeros((2, 75), np.uint8), [0, 1], "ab", "images must be uint8"),
        (np.zeros((2, 5, 5, 3), np.uint8), [0, 1, 1], "ab", "y must hold positions in classes"),
        (np.zeros((2, 5, 5, 3), np.uint8), [0, 2], "abc", "y must hold positions in classes"),
        (np.zeros((2, 5, 5, 3), np.uint8), [0, 1], "a", "y must hold positions in classes"),
        (np.zeros((2, 5, 5, 3), np.uint8), [0, -1], "ab", "y must hold positions in classes"),
        (np.zeros((2, 5, 5, 3), np.uint8), [0, 1], "aa", "an image and its own name"),
    ],
)
def test_images_must_be_square_colour_uint8_of_named_classes(images, y, classes, message):
    with pytest.raises(ValueError, match=message):
        ImageClasses(images, y, list(classes))


# Rendering


@given(seed=seeds, n=st.integers(0, 6), size=st.integers(1, 9), n_channels=st.integers(1, 4))
def test_rendering_puts_channels_first_in_the_unit_interval(seed, n, size, n_channels):
    images = rng_of(seed).integers(256, size=(n, size, size, n_channels), dtype=np.uint8)
    X = images.reshape(n, size * size * n_channels)
    X.flags.writeable = False
    pictures = Pictures(size, n_channels)
    drawn = pictures(X, np.zeros(n, int), None)
    assert drawn.dtype == np.float32
    assert drawn.flags.c_contiguous
    assert drawn.shape == (n, pictures.width)
    planes = drawn.reshape(n, n_channels, size, size)
    np.testing.assert_allclose(planes, np.moveaxis(images / 255, -1, 1), rtol=1e-6)


def test_a_red_image_has_a_full_first_channel():
    drawn = Pictures(32)(plain(RED, 32, 32).reshape(1, -1), [0], None)
    assert np.array_equal(drawn, np.repeat([[1, 0, 0]], 32 * 32, axis=1))


def test_augmentation_mirrors_about_half_of_the_images_left_right():
    images, rng = noise(200, 0, size=6), rng_of(1)
    X, before = images.reshape(200, -1), images.copy()
    drawn = Pictures(6, augment=True)(X, np.zeros(200, int), rng).reshape(200, 3, 6, 6)
    upright = Pictures(6)(X, np.zeros(200, int), None).reshape(200, 3, 6, 6)
    same = (drawn == upright).all((1, 2, 3))
    mirrored = (drawn == upright[..., ::-1]).all((1, 2, 3))
    assert (same ^ mirrored).all()
    assert 70 < mirrored.sum() < 130
    assert np.array_equal(images, before)
    again = Pictures(6, augment=True)(X, np.zeros(200, int), rng).reshape(200, 3, 6, 6)
    assert 70 < (again != drawn).any((1, 2, 3)).sum() < 130
    repeated = Pictures(6, augment=True)(X, np.zeros(200, int), rng_of(1))
    assert np.array_equal(repeated.reshape(drawn.shape), drawn)


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((2, 76), np.uint8),
        np.zeros(75, np.uint8),
        np.zeros((2, 5, 5, 3), np.uint8),
        np.zeros((2, 75), np.float32),
    ],
)
def test_rows_that_are_other_images_are_refused(X):
    with pytest.raises(
        ValueError, match=r"X must be uint8 of shape \(n, 75\).*size and n_channels"
    ):
        Pictures(5)(X, np.zeros(2, int), None)


def test_pixels_may_be_in_a_frame():
    """``fetch_openml`` returns frames."""
    X = np.random.default_rng(0).integers(0, 256, (3, 75)).astype(np.uint8)
    assert_array_equal(Pictures(5)(pd.DataFrame(X)), Pictures(5)(X))
    with pytest.raises(ValueError, match=r"X must be uint8 of shape \(n, 75\), got int64"):
        Pictures(5)(X.astype(np.int64).tolist())
    drawings = Drawings(5, augment=False)
    assert_array_equal(drawings(pd.DataFrame(X[:, :25])), drawings(X[:, :25], None, None))


# The layouts. Each writer takes {split: {class: [images]}} and writes in that order.


def write_listed(folder, splits, suffix=".png"):
    """Ravi & Larochelle: one folder of images, and a csv file for each split."""
    for part, members in splits.items():
        rows = []
        for name, images in members.items():
            for i in reversed(range(len(images))):
                save(images[i], folder / "images" / f"{name}{i:03}{suffix}")
                rows.append([f"{name}{i:03}{suffix}", name])
        with open(folder / f"{part}.csv", "w", newline="") as table:
            csv.writer(table).writerows([["filename", "label"], *rows])


def write_nested(folder, splits, suffix=".png"):
    """One folder for each split, with one folder for each class in it."""
    for part, members in splits.items():
        for name, images in members.items():
            for i in reversed(range(len(images))):
                save(images[i], folder / part / name / f"{i:03}{suffix}")


def write_cifar(folder, splits, suffix=".png"):
    """Bertinetto et al.: one folder for each class, and a list of classes for each split."""
    (folder / "splits" / "bertinetto").mkdir(parents=True)
    for part, members in splits.items():
        write_nested(folder, {"data": members}, suffix)
        lines = "".join(f"{name}\n" for name in members)
        (folder / "splits" / "bertinetto" / f"{part}.txt").write_text(lines)


LAYOUTS = [
    pytest.param(write_listed, load_mini_imagenet, id="listed"),
    pytest.param(write_nested, load_mini_imagenet, id="nested"),
    pytest.param(write_cifar, load_cifar_fs, id="cifar"),
]


def sets(size, n_images=2):
    """Different images for each class of each split."""
    return {
        part: {name: list(noise(n_images + len(name), ord(name[0]), size)) for name in names}
        for part, names in CLASSES.items()
    }


@pytest.mark.parametrize(("write", "load"), LAYOUTS)
def test_each_layout_is_read_in_order_of_names(tmp_path, write, load):
    size = 84 if load is load_mini_imagenet else 32
    splits = sets(size)
    write(tmp_path, splits)
    for split, part in {"train": "train", "valid": "val", "test": "test"}.items():
        source = load(tmp_path, split)
        assert source.classes.tolist() == sorted(CLASSES[part])
        expected = [image for name in sorted(CLASSES[part]) for image in splits[part][name]]
        assert source.images.dtype == np.uint8
        assert np.array_equal(source.images, expected)
        codes = [i for i, name in enumerate(sorted(CLASSES[part])) for _ in splits[part][name]]
        assert source.dataset.y.tolist() == codes
        assert source.dataset.name in ("mini_imagenet", "cifar_fs")
    assert np.array_equal(load(tmp_path).images, load(str(tmp_path), "train").images)


def test_images_are_in_order_of_their_names_on_windows_too(tmp_path, monkeypatch):
    """Paths of Windows are sorted without regard to capitals."""
    for name, colour in (("a.png", RED), ("B.png", GREEN)):
        save(plain(colour), tmp_path / "train" / "apple" / name)
    monkeypatch.setattr(PurePath, "__lt__", lambda a, b: str(a).lower() < str(b).lower())
    images = load_mini_imagenet(tmp_path).images
    assert np.array_equal(images[:, 0, 0], [GREEN, RED])


def test_the_folder_above_cifar100_is_read_too(tmp_path):
    write_cifar(tmp_path / "cifar100", sets(32))
    above, within = (load_cifar_fs(tmp_path / name, "test") for name in (".", "cifar100"))
    assert above.classes.tolist() == ["pear", "sea"]
    assert np.array_equal(above.images, within.images)


def test_of_two_layouts_of_mini_imagenet_the_listed_one_is_read(tmp_path):
    write_listed(tmp_path, {"train": {"apple": [plain(RED)]}})
    write_nested(tmp_path, {part: {"pear": [plain(BLUE)]} for part in ("train", "val")})
    assert load_mini_imagenet(tmp_path).classes.tolist() == ["apple"]
    assert load_mini_imagenet(tmp_path, "valid").classes.tolist() == ["pear"]  # it has no csv file
    shutil.rmtree(tmp_path / "images")
    assert load_mini_imagenet(tmp_path).classes.tolist() == ["pear"]


@pytest.mark.parametrize(("write", "load"), LAYOUTS)
@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_colours_stay_what_they_are(tmp_path, write, load, suffix):
    colours = {"a": RED, "b": GREEN, "c": BLUE}
    write(tmp_path, {"train": {name: [plain(c)] for name, c in colours.items()}}, suffix)
    source = load(tmp_path, size=8)
    assert source.images.shape == (3, 8, 8, 3)
    expected = np.array(list(colours.values()))[:, None, None]
    assert np.abs(source.images - expected).max() <= 3  # jpeg rounds
    drawn = Pictures(8)(source.dataset.X, source.dataset.y, None).reshape(3, 3, 64)
    np.testing.assert_allclose(drawn.mean(2), np.eye(3), atol=0.02)


@pytest.mark.parametrize("wide", [False, True])
def test_images_are_cropped_around_the_centre(tmp_path, wide):
    # Green squares of 40 pixels between bands of 20 pixels in red and in blue.
    bands = [plain(colour, 20, 40) for colour in (RED, GREEN, GREEN, BLUE)]
    image = np.concatenate(bands)
    write_nested(tmp_path, {"train": {"a": [image.swapaxes(0, 1) if wide else image]}})
    source = load_mini_imagenet(tmp_path, size=20)
    assert np.array_equal(source.images[0], plain(GREEN, 20, 20))


def test_cropping_alone_leaves_pixels_as_they_are(tmp_path):
    image = noise(1, 0, size=37)[0]
    write_nested(tmp_path, {"train": {"a": [image[:, :32]], "b": [image[:32]]}})
    read = load_mini_imagenet(tmp_path, size=32).images
    assert np.array_equal(read[0], image[2:34, :32])
    assert np.array_equal(read[1], image[:32, 2:34])


def test_images_are_not_turned_or_mirrored(tmp_path):
    image = plain(RED, 40, 40)
    image[:20, 20:], image[20:, :20] = GREEN, BLUE
    write_nested(tmp_path, {"train": {"a": [image]}})
    read = load_mini_imagenet(tmp_path, size=20).images[0]
    assert [tuple(read[i, j]) for i in (3, 16) for j in (3, 16)] == [RED, GREEN, BLUE, RED]


def test_images_are_reduced_with_antialiasing(tmp_path):
    stripes = np.zeros((80, 80, 3), np.uint8)
    stripes[:, ::2] = 255
    write_nested(tmp_path, {"train": {"a": [stripes]}})
    inner = load_mini_imagenet(tmp_path, size=8).images[0, :, 1:-1]
    assert np.abs(inner.astype(int) - 127).max() < 10  # a single stripe of four would be 0 or 255


def test_small_images_are_enlarged(tmp_path):
    write_cifar(tmp_path, {"train": {"a": [plain(BLUE, 32, 32)]}})
    assert np.array_equal(load_cifar_fs(tmp_path, size=50).images[0], plain(BLUE, 50, 50))


@pytest.mark.parametrize("mode", ["L", "P", "CMYK", "RGBA"])
def test_images_of_other_modes_become_colours(tmp_path, mode):
    (tmp_path / "train" / "a").mkdir(parents=True)
    suffix = "jpg" if mode == "CMYK" else "png"
    grey = Image.new("RGB", (8, 8), (100, 100, 100)).convert(mode)
    grey.save(tmp_path / "train" / "a" / f"0.{suffix}")
    read = load_mini_imagenet(tmp_path, size=8).images
    assert read.shape == (1, 8, 8, 3)
    assert np.abs(read.astype(int) - 100).max() <= 5


def test_other_files_are_passed_over(tmp_path):
    write_nested(tmp_path, {"train": {"a": [plain(RED)]}})
    save(plain(GREEN), tmp_path / "train" / "a" / "1.JPEG")
    for name in ("Thumbs.db", "notes.txt", "._000.png"):
        (tmp_path / "train" / "a" / name).write_bytes(b"no image")
    (tmp_path / "train" / ".cache").mkdir()
    (tmp_path / "train" / "list.txt").write_text("a")
    source = load_mini_imagenet(tmp_path)
    assert source.classes.tolist() == ["a"]
    assert len(source.images) == 2


def test_lists_may_have_blank_lines_marks_and_repeats(tmp_path):
    write_cifar(tmp_path, sets(32))
    listing = tmp_path / "splits" / "bertinetto" / "train.txt"
    listing.write_bytes(b"\xef\xbb\xbfcup\r\n\r\napple \r\ncup\r\n\r\n")
    assert load_cifar_fs(tmp_path).classes.tolist() == ["apple", "cup"]
    write_listed(tmp_path, {"train": {"a": [plain(RED), plain(BLUE)]}})
    table = tmp_path / "train.csv"
    lines = table.read_bytes().splitlines(keepends=True)
    table.write_bytes(b"\xef\xbb\xbf" + b"".join(lines + lines[-1:]) + b"\r\n")
    assert np.array_equal(load_mini_imagenet(tmp_path).dataset.y, [0, 0])


@pytest.mark.filterwarnings("error")
def test_colours_of_a_palette_may_be_transparent(tmp_path):
    pixels = np.full((8, 8, 3), 100, np.uint8)
    pixels[:, 4:] = 200
    (tmp_path / "train" / "a").mkdir(parents=True)
    picture = Image.fromarray(pixels).quantize(2)
    picture.save(tmp_path / "train" / "a" / "0.png", transparency=bytes([0, 128]))
    np.testing.assert_array_equal(load_mini_imagenet(tmp_path, size=8).images[0], pixels)


# What goes wrong


@pytest.mark.parametrize("load", [load_mini_imagenet, load_cifar_fs])
def test_an_unknown_split_is_refused(tmp_path, load):
    for split in ("val", "dev", None, ["train"]):
        with pytest.raises(ValueError, match="no split .*: choose from train, valid, test"):
            load(tmp_path, split)


@pytest.mark.parametrize(
    ("load", "layout"),
    [
        (load_mini_imagenet, r"images/ and val\.csv beside it, or val/ with a folder of images"),
        (load_cifar_fs, r"data/<class>/\*\.png and splits/bertinetto/val\.txt"),
    ],
)
def test_a_folder_of_another_layout_is_an_error_that_shows_the_layout(tmp_path, load, layout):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match=f"'valid'.*{folder.name}.*{layout}"):
            load(folder, "valid")


@pytest.mark.parametrize(("write", "load"), LAYOUTS)
def test_a_split_that_is_missing_is_an_error(tmp_path, write, load):
    write(tmp_path, {"train": {"a": [plain(RED)]}})
    with pytest.raises(FileNotFoundError, match="No split 'test'.*give a folder"):
        load(tmp_path, "test")


@pytest.mark.parametrize(("write", "load"), LAYOUTS)
def test_a_split_without_classes_is_an_error(tmp_path, write, load):
    write(tmp_path, {"train": {"a": [plain(RED)]}, "test": {}})
    (tmp_path / "test").mkdir(exist_ok=True)
    with pytest.raises(ValueError, match=r"test(\.csv|\.txt|) has no classes: add"):
        load(tmp_path, "test")


@pytest.mark.parametrize(("write", "load"), LAYOUTS[1:])
def test_a_class_without_images_or_folder_is_an_error(tmp_path, write, load):
    write(tmp_path, {"train": {"a": [plain(RED)], "b": [plain(RED)]}})
    (place,) = tmp_path.rglob("b")
    (place / "000.png").rename(place / "000.txt")
    with pytest.raises(FileNotFoundError, match=r"No \.jpg or \.png in .*b: put images there"):
        load(tmp_path)
    shutil.rmtree(place)
    if load is load_cifar_fs:  # its list still names the class
        with pytest.raises(FileNotFoundError, match=r"No \.jpg or \.png in .*b: put images"):
            load(tmp_path)


@pytest.mark.parametrize(
    "text", ["name,label\na000.png,a\n", "a000.png,a\na000.png,a\n", "filename,label\na000.png\n"]
)
def test_a_csv_without_its_columns_is_an_error(tmp_path, text):
    write_listed(tmp_path, {"train": {"a": [plain(RED)]}})
    (tmp_path / "train.csv").write_text(text)
    with pytest.raises(ValueError, match=r"train\.csv must have the header filename,label"):
        load_mini_imagenet(tmp_path)


@pytest.mark.parametrize("name", ["../secret.png", "a/../../secret.png", "{folder}/secret.png"])
def test_a_csv_names_no_file_outside_of_its_images(tmp_path, name):
    """The csv file is written by strangers."""
    write_listed(tmp_path, {"train": {"a": [plain(RED)]}})
    (tmp_path / "secret.png").write_bytes(next((tmp_path / "images").iterdir()).read_bytes())
    name = name.format(folder=tmp_path)
    (tmp_path / "train.csv").write_text(f"filename,label\n{name},a\n")
    with pytest.raises(ValueError, match="which is not a file in images/"):
        load_mini_imagenet(tmp_path)


def test_a_listed_file_that_is_missing_is_an_error(tmp_path):
    write_listed(tmp_path, {"train": {"a": [plain(RED), plain(RED)]}})
    (tmp_path / "images" / "a001.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"no .*a001\.png: put it there or edit .*train"):
        load_mini_imagenet(tmp_path)


def png(pixels):
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "png")
    return content.getvalue()


def with_a_wrong_length(content):
    """The same png with a wrong length of its pixels, for which Pillow raises SyntaxError."""
    start = content.index(b"IDAT")
    return content[: start - 4] + (1000).to_bytes(4, "big") + content[start:]


PNG = png(noise(1, 0)[0])
SPOILT = {
    "empty": b"",
    "text": b"no image at all",
    "cut": PNG[:-200],
    "damaged": PNG.replace(b"IDAT", b"I\0AT"),
    "wrong length": with_a_wrong_length(PNG),
}


@pytest.mark.parametrize("content", SPOILT.values(), ids=SPOILT)
@pytest.mark.parametrize(("write", "load"), LAYOUTS)
def test_an_image_that_cannot_be_decoded_is_named(tmp_path, write, load, content):
    write(tmp_path, {"train": {"a": [plain(RED), plain(RED)]}})
    (path,) = tmp_path.rglob("*001.png")
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"001\.png is not an image .*: replace or remove it"):
        load(tmp_path)


def test_a_csv_whose_quote_is_never_closed_is_named(tmp_path):
    write_nested(tmp_path, {"train": {"a": [plain(RED)]}})
    (tmp_path / "images").mkdir()
    lines = ["filename,label", '"a.png,a', *["b.png,b"] * 20_000]
    (tmp_path / "train.csv").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"train\.csv is not a CSV \(line \d+: field larger than"):
        load_mini_imagenet(tmp_path)


def test_what_archives_of_macos_add_is_no_class(tmp_path):
    write_nested(tmp_path, {"train": {"a": [plain(RED)]}})
    (tmp_path / "train" / "__MACOSX").mkdir()
    assert load_mini_imagenet(tmp_path).classes.tolist() == ["a"]


@pytest.mark.parametrize("load", [load_mini_imagenet, load_cifar_fs])
@pytest.mark.parametrize("size", [0, -3, 84.0, "84", None])
def test_a_size_that_is_not_positive_is_refused(tmp_path, load, size):
    write_nested(tmp_path, {"train": {"a": [plain(RED)]}})
    write_cifar(tmp_path, {"train": {"a": [plain(RED)]}})
    with pytest.raises(ValueError, match=f"size must be an integer of 1 or more, got {size!r}"):
        load(tmp_path, size=size)


@pytest.mark.parametrize(("write", "load"), LAYOUTS)
def test_without_pillow_it_is_said_how_to_install_it(tmp_path, write, load, monkeypatch):
    write(tmp_path, {"train": {"a": [plain(RED)]}})
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(
        ImportError, match=r'requires Pillow. Run: pip install "sklearn_meta\[images\]"'
    ):
        load(tmp_path)


def test_pictures_of_16_bits_keep_their_shades(tmp_path):
    ramp = np.linspace(0, 65535, 64).reshape(8, 8)
    classes = {"coarse": (ramp / 256).astype(np.uint8), "fine": ramp.astype(np.uint16)}
    for name, pixels in classes.items():
        save(pixels, tmp_path / "data" / name / "0.png")
        save(pixels, tmp_path / "data" / name / "1.png")
    splits = tmp_path / "splits" / "bertinetto"
    splits.mkdir(parents=True)
    (splits / "train.txt").write_text("coarse\nfine\n")
    of_8, _, of_16, _ = load_cifar_fs(tmp_path, size=8).images.astype(int)
    assert np.abs(of_16 - of_8).max() <= 1 and of_16.max() == 255

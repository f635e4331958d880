"""Omniglot: the source, rendering of episodes, reading both kinds of files, and the download."""

import hashlib
import io
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_meta.tasks import Drawings, drawings, omniglot
from sklearn_meta.tasks.omniglot import Omniglot, fetch_omniglot, load_omniglot

seeds = st.integers(0, 2**32 - 1)


def rng_of(seed):
    return np.random.default_rng(seed)


def pictures(n, seed, side=28):
    """Random pictures: flat, uint8."""
    return rng_of(seed).integers(256, size=(n, side * side), dtype=np.uint8)


def blob(row, column, side=28):
    """One picture with a round spot of ink; row and column are shares of the side."""
    at = (np.arange(side) + 0.5) / side
    distance = (at[:, None] - row) ** 2 + (at - column) ** 2
    return np.rint(255 * np.exp(-distance / 0.01)).astype(np.uint8).reshape(1, -1)


def centre(drawn):
    """Row and column of the centre of ink, as shares of the side."""
    size = int(np.sqrt(drawn.shape[-1]))
    ink = drawn.reshape(size, size).astype(float)
    at = (np.arange(size) + 0.5) / size
    return np.array([ink.sum(1) @ at, ink.sum(0) @ at]) / ink.sum()


# The source


@pytest.fixture
def source():
    images = pictures(4 * 20, 0, side=5).reshape(4, 20, 5, 5)
    return Omniglot(images, ["Greek", "Latin", "Greek", "Tifinagh"], ["alpha", "a", "beta", "ya"])


def test_draw_gives_the_same_dataset_without_a_copy(source):
    first, second = (source.draw(rng_of(seed)) for seed in range(2))
    assert first is second
    assert first.name == "omniglot"
    assert first.X.shape == (80, 25)
    assert first.X.dtype == np.uint8
    assert np.shares_memory(first.X, source.images)
    assert np.array_equal(first.X[41], source.images[2, 1].ravel())
    assert first.y.dtype == np.int64
    assert np.array_equal(first.y, np.repeat(range(4), 20))
    assert len(source) == first.n_classes == 4


def test_select_takes_alphabets_or_a_mask(source):
    greek = source.select("Greek")
    assert greek.characters.tolist() == ["alpha", "beta"]
    assert np.array_equal(greek.images, source.images[[0, 2]])
    assert greek.dataset.y.max() == 1
    assert source.select(["Tifinagh", "Latin"]).alphabets.tolist() == ["Latin", "Tifinagh"]
    assert source.select([False, True, True, False]).characters.tolist() == ["a", "beta"]


def test_alphabets_may_be_called_by_numbers(source):
    numbered = Omniglot(source.images, [1, 2, 1, 3], source.characters)
    assert numbered.select([1]).characters.tolist() == source.characters[[0, 2]].tolist()


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("Gothic", "No alphabet Gothic.*Greek, Latin, Tifinagh"),
        ([True], "one or more of the 4 .* a bool for each, got 1 True of 1"),
        ([False] * 4, "4"),
    ],
)
def test_select_says_what_is_wrong(source, which, message):
    with pytest.raises(ValueError, match=message):
        source.select(which)


@pytest.mark.parametrize(
    ("images", "names"),
    [
        (np.zeros((2, 20, 5, 5)), "ab"),
        (np.zeros((2, 20, 5, 4), np.uint8), "ab"),
        (np.zeros((2, 20, 25), np.uint8), "ab"),
        (np.zeros((2, 20, 5, 5), np.uint8), "abc"),
    ],
)
def test_images_must_be_square_uint8_and_named(images, names):
    with pytest.raises(ValueError, match="images"):
        Omniglot(images, ["Latin"] * 2, list(names))


# Rendering


@given(seed=seeds, n=st.integers(1, 12), size=st.integers(1, 40), augment=st.booleans())
def test_rendering_is_repeatable_and_in_range(seed, n, size, augment):
    X, classes = pictures(n, seed), np.arange(n) % 3
    before = X.copy()
    X.flags.writeable = False
    rendered = Drawings(size, augment)
    first, second = (rendered(X, classes, rng_of(seed)) for _ in range(2))
    assert np.array_equal(first, second)
    assert np.array_equal(X, before)
    assert first.shape == (n, rendered.width)
    assert rendered.width == size * size
    assert first.dtype == np.float32
    assert 0 <= first.min() <= first.max() <= 1
    other = rendered(X, classes, rng_of(seed + 1))
    assert augment or np.array_equal(first, other)


def test_augmentation_differs_from_episode_to_episode():
    X, classes = pictures(5, 0), np.arange(5)
    rng = rng_of(0)
    assert not np.allclose(Drawings()(X, classes, rng), Drawings()(X, classes, rng), atol=0.1)


def test_stretched_drawings_differ_and_are_still_in_range():
    X, classes = pictures(5, 0), np.arange(5)
    plain, stretched = (Drawings(stretch=s)(X, classes, rng_of(0)) for s in (0.0, 0.2))
    assert not np.allclose(plain, stretched, atol=0.1)
    assert 0 <= stretched.min() <= stretched.max() <= 1
    still = Drawings(augment=False, stretch=0.2)(X, classes, None)
    assert np.array_equal(still, Drawings(augment=False)(X, classes, None))


def test_a_warp_is_that_of_the_class(monkeypatch):
    monkeypatch.setattr(drawings, "TILT", 0)
    monkeypatch.setattr(drawings, "SHIFT", 0)
    X, classes = pictures(1, 0).repeat(40, 0), np.arange(40) // 2
    warped = Drawings(warp=0.3)(X, classes, rng_of(0)).reshape(20, 2, -1)
    assert np.array_equal(warped[:, 0], warped[:, 1])
    assert len(np.unique(warped[:, 0].round(3), axis=0)) == 20
    assert 0 <= warped.min() <= warped.max() <= 1
    # Hardly differ from the eight rotated and mirrored pictures of a square.
    turned = Drawings(warp=1e-6)(X, classes, rng_of(0)).reshape(20, 2, 20, 20)[:, 0]
    plain = Drawings(augment=False)(X[:1], classes[:1], None).reshape(20, 20)
    eight = [np.rot90(m, k) for m in (plain, plain.T) for k in range(4)]
    nearest = [int(np.argmin([np.abs(t - e).max() for e in eight])) for t in turned]
    assert len(set(nearest)) == 8
    assert all(np.abs(t - eight[k]).max() < 1e-3 for t, k in zip(turned, nearest))
    still = Drawings(augment=False, warp=0.3)(X, classes, None)
    assert np.array_equal(still, Drawings(augment=False)(X, classes, None))


def test_paper_and_ink_stay_what_they_are():
    X = np.repeat(np.uint8([[0], [255]]), 28 * 28, axis=1)
    drawn = Drawings(augment=False)(X, np.zeros(2, int), None)
    np.testing.assert_allclose(drawn, np.repeat([[0], [1]], 400, axis=1), atol=1e-6)
    # Rounded weights add up to more than one here and there.
    black = np.full((100, 31 * 31), 255, dtype=np.uint8)
    assert Drawings()(black, np.arange(100), rng_of(0)).max() == 1


@given(seed=seeds)
def test_the_same_size_upright_is_the_picture_itself(seed):
    X = pictures(3, seed)
    drawn = Drawings(28, augment=False)(X, np.zeros(3, int), None)
    np.testing.assert_allclose(drawn, X / 255, atol=1e-4)


@given(seed=seeds)
def test_half_the_size_upright_is_the_mean_of_areas(seed):
    X = pictures(3, seed)
    means = X.reshape(3, 14, 2, 14, 2).mean((2, 4)).reshape(3, -1) / 255
    drawn = Drawings(14, augment=False)(X, np.zeros(3, int), None)
    np.testing.assert_allclose(drawn, means, atol=1e-4)


def test_a_class_is_turned_as_one_by_any_multiple_of_90_degrees(monkeypatch):
    monkeypatch.setattr(drawings, "TILT", 0)
    monkeypatch.setattr(drawings, "SHIFT", 0)
    X, classes = pictures(24, 0), np.repeat(range(8), 3)
    upright = Drawings(augment=False)(X, classes, None).reshape(-1, 20, 20)
    rng, seen = rng_of(0), []
    for _ in range(8):
        drawn = Drawings()(X, classes, rng).reshape(-1, 20, 20)
        turned = np.stack([np.rot90(upright, quarters, axes=(1, 2)) for quarters in range(4)])
        fits = np.abs(turned - drawn).max((2, 3)) < 1e-3
        assert (fits.sum(0) == 1).all()
        quarters = fits.argmax(0).reshape(8, 3)
        assert (quarters == quarters[:, :1]).all()
        seen.append(quarters[:, 0])
    assert np.bincount(np.ravel(seen), minlength=4).min() >= 8  # 16 of 64 are expected of each
    assert len(np.unique(seen, axis=0)) > 1
    assert all(len(set(of_episode)) > 1 for of_episode in seen)  # not all classes alike


def undo_quarter(place, expected):
    """Rotate ``place`` about the centre by the quarter turns that bring it nearest ``expected``."""
    turn = np.array([[0, -1], [1, 0]])
    turns = [np.linalg.matrix_power(turn, k) @ (place - 0.5) + 0.5 for k in range(4)]
    return min(turns, key=lambda turned: np.abs(turned - expected).sum())


def test_shifts_fill_ten_pixels_of_105_both_ways(monkeypatch):
    monkeypatch.setattr(drawings, "TILT", 0)
    spot = np.array([0.5, 0.72])
    X = np.repeat(blob(*spot), 400, axis=0)
    drawn = Drawings()(X, np.arange(400), rng_of(0))
    moved = np.array([undo_quarter(centre(row), spot) for row in drawn]) - spot
    for direction in moved.T:
        assert -10.5 < direction.min() * 105 < -9
        assert 9 < direction.max() * 105 < 10.5
        assert abs(direction.mean() * 105) < 1
    assert abs(np.corrcoef(moved.T)[0, 1]) < 0.15


def test_drawings_are_turned_up_to_a_sixteenth_of_pi_each(monkeypatch):
    monkeypatch.setattr(drawings, "SHIFT", 0)
    spot = np.array([0.5, 0.75])
    drawn = Drawings()(np.repeat(blob(*spot), 300, axis=0), np.zeros(300, int), rng_of(0))
    places = np.array([undo_quarter(centre(row), spot) for row in drawn]) - 0.5
    angles = np.arctan2(places[:, 0], places[:, 1])
    np.testing.assert_allclose(np.hypot(*places.T), 0.25, atol=0.01)
    assert -1.05 < angles.min() / (np.pi / 16) < -0.9
    assert 0.9 < angles.max() / (np.pi / 16) < 1.05


def test_rows_that_are_no_squares_are_refused():
    with pytest.raises(ValueError, match="square.*785"):
        Drawings()(np.zeros((1, 785), np.uint8), np.zeros(1, int), rng_of(0))
    for shape in ((16,), (3, 16, 16)):  # a single picture, and pictures that are not flat
        with pytest.raises(ValueError, match=r"\(n, side \* side\), got shape "):
            Drawings()(np.zeros(shape, np.uint8), np.zeros(3, int), rng_of(0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, bool])
def test_pixels_that_are_no_bytes_are_refused(dtype):
    """Ink of 1, as networks read it, would become 1/255."""
    with pytest.raises(ValueError, match="uint8, with 255 for ink, got (float|bool).*255"):
        Drawings()(np.ones((1, 784), dtype), np.zeros(1, int), rng_of(0))


# Files


def official_zip(part, seed, n_drawings=2):
    """Bytes of a file like the official ones, and its black ink (n, n_drawings, 105, 105)."""
    from PIL import Image

    names = [f"{part}_A/character01", f"{part}_A/character02", f"{part}_B/character01"]
    ink = rng_of(seed).random((3, n_drawings, 105, 105)) < 0.1
    content = io.BytesIO()
    with ZipFile(content, "w") as archive:
        # Not sorted by name: readers have to sort.
        for i in (2, 0, 1):
            for j in range(n_drawings):
                png = io.BytesIO()
                Image.fromarray(~ink[i, j]).save(png, "png")
                archive.writestr(f"images_{part}/{names[i]}/0{i}_{j + 1:02}.png", png.getvalue())
    return content.getvalue(), ink


def area_means(ink):
    """Exact means over 28 x 28 cells, 0 to 255. A pixel is 28 pieces wide, a cell 105 pieces."""
    line = np.repeat(np.arange(105), 28).reshape(28, 105)
    count = np.zeros((28, 105))
    for cell, pieces in enumerate(line):
        np.add.at(count[cell], pieces, 1 / 105)
    return np.rint(255 * np.einsum("ap,...pq,bq->...ab", count, ink, count)).astype(np.uint8)


@pytest.fixture
def official(tmp_path):
    """A folder with both official files, and their black ink by part."""
    ink = {}
    for seed, part in enumerate(("background", "evaluation")):
        content, ink[part] = official_zip(part, seed)
        (tmp_path / f"images_{part}.zip").write_bytes(content)
    return tmp_path, ink


def test_official_files_become_exact_area_means(official):
    folder, ink = official
    for part in ink:
        read = load_omniglot(folder, part)
        assert np.array_equal(read.images, area_means(ink[part]))
        assert read.alphabets.tolist() == [f"{part}_A", f"{part}_A", f"{part}_B"]
        assert read.characters.tolist() == ["character01", "character02", "character01"]
    both = load_omniglot(folder)
    assert np.array_equal(both.images, area_means(np.concatenate(list(ink.values()))))
    (folder / "images_evaluation.zip").unlink()
    assert len(load_omniglot(folder)) == 3  # the characters that are there


def save_npz(folder, read, **changes):
    arrays = {
        "images": read.images,
        "alphabet": read.alphabets,
        "character": read.characters,
        "official_set": np.repeat(["background", "evaluation"], 3),
        "split": np.array(["train", "valid", "train", "test", "test", "test"]),
    }
    np.savez_compressed(folder / "omniglot.npz", **arrays | changes)


def test_npz_and_official_files_agree(official):
    folder, _ = official
    splits = (None, "background", "evaluation")
    expected = {split: load_omniglot(folder, split) for split in splits}
    save_npz(folder, expected[None])
    for part in ("background", "evaluation"):
        (folder / f"images_{part}.zip").unlink()
    for split in splits:
        read = load_omniglot(folder, split)
        assert np.array_equal(read.images, expected[split].images)
        assert np.array_equal(read.alphabets, expected[split].alphabets)
        assert np.array_equal(read.characters, expected[split].characters)
    assert np.array_equal(load_omniglot(folder, "train").images, expected[None].images[[0, 2]])
    assert len(load_omniglot(folder, "test")) == 3


def test_errors_of_reading_say_what_to_do(official, tmp_path_factory):
    folder, _ = official
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(FileNotFoundError, match="images_background.zip.*fetch_omniglot"):
        load_omniglot(empty)
    with pytest.raises(FileNotFoundError, match="fetch_omniglot"):
        load_omniglot(empty / "nowhere", "background")
    with pytest.raises(ValueError, match="no split 'train': use background or evaluation"):
        load_omniglot(folder, "train")
    read = load_omniglot(folder)
    save_npz(folder, read)
    with pytest.raises(ValueError, match="no split 'dev'; it has background, evaluation, test"):
        load_omniglot(folder, "dev")
    with pytest.raises(ValueError, match=r"no split \['test'\]; it has background"):
        load_omniglot(folder, ["test"])
    np.savez(folder / "omniglot.npz", images=np.zeros(3))
    with pytest.raises(ValueError, match="omniglot.npz cannot be read.*fetch_omniglot"):
        load_omniglot(folder)
    for changes in ({"alphabet": read.alphabets[:5]}, {"split": np.array(["train"])}):
        save_npz(folder, read, **changes)
        with pytest.raises(ValueError, match="omniglot.npz cannot be read.*fetch_omniglot"):
            load_omniglot(folder)
    save_npz(folder, read, split=np.arange(6))
    with pytest.raises(ValueError, match="no split 'train'; it has 0, 1, 2, 3, 4, 5, background"):
        load_omniglot(folder, "train")
    (folder / "omniglot.npz").write_bytes(b"something else")
    with pytest.raises(ValueError, match="omniglot.npz cannot be read.*fetch_omniglot"):
        load_omniglot(folder)


def damaged(content):
    middle = len(content) // 2
    return content[:middle] + bytes(200) + content[middle + 200 :]


def with_another_drawing(content):
    file = io.BytesIO(content)
    with ZipFile(file, "a") as archive:
        name = archive.namelist()[0]
        archive.writestr(name.replace("_01.png", "_03.png"), archive.read(name))
    return file.getvalue()


def without_drawings(content):
    file = io.BytesIO()
    ZipFile(file, "w").close()
    return file.getvalue()


SPOILT = [lambda content: content[:-50], damaged, with_another_drawing, without_drawings]


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_spoilt_official_file_is_a_value_error(tmp_path, spoil):
    content, _ = official_zip("background", 0)
    (tmp_path / "images_background.zip").write_bytes(spoil(content))
    with pytest.raises(ValueError, match="images_background.zip cannot be read"):
        load_omniglot(tmp_path)


# The download


class Mirror:
    """A server of two files on 127.0.0.1 for as long as the ``with`` block lasts.

    ``asked`` lists path and Range header of each request, ``sent`` the number of bytes of each.
    ``faults`` holds what the next requests meet: "cut" (half of the bytes, then the end), "stall"
    (half of the bytes, then nothing) or a status. ``ranges`` says whether it supports ranges.
    """

    def __init__(self, files):
        self.files, self.asked, self.sent, self.faults, self.ranges = files, [], [], [], True
        self.length = None  # the Content-Length to send, if it is to be wrong

    def __enter__(self):
        mirror, self.stopped = self, threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                mirror.answer(self)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/omniglot/"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def answer(self, request):
        asked = request.headers["Range"]
        self.asked.append((request.path, asked))
        fault = self.faults.pop(0) if self.faults else None
        content = self.files.get(request.path.removeprefix("/omniglot/"))
        start = int(asked[len("bytes=") : -1]) if asked and self.ranges else 0
        status = 206 if start else 200
        if content is None or isinstance(fault, int):
            status, content, start = fault or 404, b"", 0
        elif start >= len(content):
            status, content, start = 416, b"", 0
        body = content[start:]
        body = body[: len(body) // 2] if fault in ("cut", "stall") else body
        self.sent.append(len(body))
        request.send_response(status)
        request.send_header("Content-Length", self.length or str(len(content) - start))
        request.end_headers()
        request.wfile.write(body)
        if fault == "stall":
            request.wfile.flush()
            self.stopped.wait(5)


@pytest.fixture
def mirror(monkeypatch):
    files = {f"images_{part}.zip": official_zip(part, 0)[0] for part in omniglot.MD5}
    digests = {part: hashlib.md5(files[f"images_{part}.zip"]).hexdigest() for part in omniglot.MD5}
    monkeypatch.setattr(omniglot, "MD5", digests)
    with Mirror(files) as mirror:
        yield mirror


BACKGROUND = "images_background.zip"


def fetch(mirror, home, **options):
    """Fetch the background part, with short waits."""
    options = {"subset": "background", "delay": 0, "timeout": 0.3} | options
    return fetch_omniglot(home, base_url=mirror.url, **options)


def left(home):
    return sorted(path.name for path in home.rglob("*") if path.is_file())


@pytest.mark.parametrize("length", ["abc", "-5", "1.5"])
def test_a_length_that_is_none_is_not_minded(mirror, tmp_path, length):
    mirror.length = length
    folder = fetch(mirror, tmp_path)
    assert {file.name: file.read_bytes() for file in folder.iterdir()}[BACKGROUND]


def test_what_is_too_long_is_not_read_to_its_end(mirror, tmp_path, monkeypatch):
    monkeypatch.setattr(omniglot, "MOST_BYTES", 2**10)
    mirror.files[BACKGROUND] = bytes(2**25)
    read, hashed = [], hashlib.file_digest

    def digest(file, *args):
        read.append(os.fstat(file.fileno()).st_size)
        return hashed(file, *args)

    monkeypatch.setattr(hashlib, "file_digest", digest)
    with pytest.raises(OSError, match="is not Omniglot"):
        fetch(mirror, tmp_path)
    assert left(tmp_path) == [] and len(read) == 1 and 2**10 < read[0] < 2**20


def test_both_files_are_fetched_once(mirror, tmp_path):
    folder = fetch(mirror, tmp_path, subset=("background", "evaluation"))
    assert folder == tmp_path / "omniglot"
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == mirror.files
    assert mirror.asked == [(f"/omniglot/{name}", None) for name in mirror.files]
    assert len(load_omniglot(folder)) == 6
    fetch(mirror, tmp_path, subset=("background", "evaluation"), download_if_missing=False)
    assert len(mirror.asked) == 2


def test_a_partial_file_is_continued(mirror, tmp_path):
    content = mirror.files[BACKGROUND]
    (tmp_path / "omniglot").mkdir()
    (tmp_path / "omniglot" / f"{BACKGROUND}.partial").write_bytes(content[:1000])
    folder = fetch(mirror, tmp_path)
    assert mirror.asked == [(f"/omniglot/{BACKGROUND}", "bytes=1000-")]
    assert mirror.sent == [len(content) - 1000]
    assert left(tmp_path) == [BACKGROUND]
    assert (folder / BACKGROUND).read_bytes() == content


def test_a_partial_file_that_is_whole_needs_no_byte(mirror, tmp_path):
    (tmp_path / "omniglot").mkdir()
    (tmp_path / "omniglot" / f"{BACKGROUND}.partial").write_bytes(mirror.files[BACKGROUND])
    fetch(mirror, tmp_path)
    assert mirror.sent == [0]
    assert left(tmp_path) == [BACKGROUND]


def test_a_server_without_ranges_starts_again(mirror, tmp_path):
    mirror.ranges = False
    (tmp_path / "omniglot").mkdir()
    (tmp_path / "omniglot" / f"{BACKGROUND}.partial").write_bytes(mirror.files[BACKGROUND][:1000])
    folder = fetch(mirror, tmp_path)
    assert mirror.asked == [(f"/omniglot/{BACKGROUND}", "bytes=1000-")]
    assert (folder / BACKGROUND).read_bytes() == mirror.files[BACKGROUND]


@pytest.mark.parametrize("fault", ["cut", "stall", 408, 429, 503])
def test_what_breaks_is_tried_again_from_where_it_broke(mirror, tmp_path, fault):
    mirror.faults = [fault, fault]
    content = mirror.files[BACKGROUND]
    folder = fetch(mirror, tmp_path)
    assert len(mirror.asked) == 3
    assert (folder / BACKGROUND).read_bytes() == content
    assert sum(mirror.sent) == len(content)  # no byte twice
    assert left(tmp_path) == [BACKGROUND]


def test_after_the_last_try_what_was_read_is_kept_for_the_next_call(mirror, tmp_path):
    mirror.faults = ["cut", "cut"]
    with pytest.raises(OSError, match=f"{BACKGROUND} cannot be fetched.*the connection ended"):
        fetch(mirror, tmp_path, n_retries=1)
    assert left(tmp_path) == [f"{BACKGROUND}.partial"]
    fetch(mirror, tmp_path)
    assert sum(mirror.sent) == len(mirror.files[BACKGROUND])
    assert left(tmp_path) == [BACKGROUND]


def test_a_wrong_digest_leaves_no_file(mirror, tmp_path):
    right = mirror.files[BACKGROUND]
    mirror.files[BACKGROUND] = damaged(right)
    with pytest.raises(OSError, match="md5"):
        fetch(mirror, tmp_path)
    assert left(tmp_path) == []
    mirror.files[BACKGROUND] = right
    fetch(mirror, tmp_path)
    assert left(tmp_path) == [BACKGROUND]


def test_what_the_server_refuses_is_asked_once(mirror, tmp_path):
    del mirror.files[BACKGROUND]
    with pytest.raises(OSError, match="cannot be fetched.*404"):
        fetch(mirror, tmp_path)
    assert len(mirror.asked) == 1
    assert left(tmp_path) == []


def test_a_dead_server_is_an_error_that_says_what_to_do(tmp_path):
    with Mirror({}) as mirror:
        pass
    with pytest.raises(OSError, match=f"{BACKGROUND} cannot be fetched.*Check the connection"):
        fetch(mirror, tmp_path)
    assert left(tmp_path) == []


def test_tries_are_apart(mirror, tmp_path, monkeypatch):
    waits = []
    monkeypatch.setattr(omniglot.time, "sleep", waits.append)
    mirror.faults = [503, 503, 503]
    with pytest.raises(OSError, match="503"):
        fetch(mirror, tmp_path, n_retries=2, delay=1.5)
    assert waits == [1.5, 1.5]
    assert len(mirror.asked) == 3


def test_nothing_is_asked_for_without_leave_or_by_a_wrong_name(mirror, tmp_path):
    with pytest.raises(OSError, match="download_if_missing"):
        fetch(mirror, tmp_path, download_if_missing=False)
    with pytest.raises(ValueError, match="no part 'small'; it has background, evaluation"):
        fetch(mirror, tmp_path, subset=("background", "small"))
    assert mirror.asked == []


def test_without_pillow_it_is_said_how_to_install_it(tmp_path, monkeypatch):
    (tmp_path / "images_background.zip").write_bytes(official_zip("background", 0)[0])
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(
        ImportError, match=r'requires Pillow. Run: pip install "sklearn_meta\[images\]"'
    ):
        load_omniglot(tmp_path)


# The real set


def test_the_real_set():
    default = Path(__file__).parents[2] / "shared" / "data" / "omniglot"
    folder = Path(os.environ.get("SKLEARN_META_OMNIGLOT", default))
    if not (folder / "omniglot.npz").is_file():
        pytest.skip(f"no omniglot.npz in {folder}: set SKLEARN_META_OMNIGLOT to a folder with it")
    background, test = load_omniglot(folder, "background"), load_omniglot(folder, "test")
    assert background.images.shape == (964, 20, 28, 28)
    assert len(load_omniglot(folder, "train")) + len(load_omniglot(folder, "valid")) == 964
    assert not set(background.alphabets) & set(test.alphabets)
    # Strokes are thin, and drawings of a character are nearer to each other than to others.
    assert 0.03 < (background.images / 255).mean() < 0.15
    drawn = Drawings(augment=False)(test.dataset.X[:800], test.dataset.y[:800], None)
    means = drawn.reshape(40, 20, -1).mean(1)
    nearest = ((drawn[:, None] - means) ** 2).sum(-1).argmin(1)
    assert (nearest == test.dataset.y[:800]).mean() > 0.4


def test_any_damage_of_an_archive_says_what_to_do(official):
    folder, _ = official
    save_npz(folder, load_omniglot(folder, None))
    for part in ("background", "evaluation"):
        (folder / f"images_{part}.zip").unlink()
    file = folder / "omniglot.npz"
    raw = bytearray(file.read_bytes())
    raw[raw.rindex(b"PK\x01\x02") + 10] ^= 4  # a compression method that does not exist
    file.write_bytes(raw)
    with pytest.raises(ValueError, match="cannot be read as Omniglot.*remove it and call"):
        load_omniglot(folder)

"""Omniglot: handwritten characters of fifty alphabets, twenty drawings of each.

:func:`fetch_omniglot` downloads it, and :func:`load_omniglot` reads it as a source of episodes.
"""

import hashlib
import os
import time
from collections import defaultdict
from functools import cache
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from zipfile import ZipFile

import numpy as np
from sklearn.datasets import get_data_home

from ..folders import expanded
from .dataset import Dataset
from .images import check_mask

#: MD5 digest of each official file, ``images_<part>.zip``.
MD5 = dict(
    background="68d2efa1b9178cc56df9314c21c6e718", evaluation="6b91aef0f799c5bb55b94e3f2daec811"
)

#: Side length in pixels to which the official pictures of 105 x 105 are averaged.
SIDE = 28

#: Maximum size of a download: some servers send without end. No official file has 10 MB.
MOST_BYTES = 2**26


class Omniglot:
    """Drawings of characters, as a source for meta-training.

    Rows of its table are uint8 pixels, for samplers that render them with
    :class:`sklearn_meta.tasks.Drawings`.

    Parameters
    ----------
    images : ndarray of shape (n_characters, n_drawings, side, side), uint8
        The drawings, 20 per character in Omniglot; ink is 255, paper 0.
    alphabets, characters : sequence of str, length n_characters
        Alphabet of each character, and its name within the alphabet.

    Attributes
    ----------
    dataset : Dataset
        All characters: ``X`` of shape (n_characters * n_drawings, side * side) shares the memory
        of ``images``; ``y`` are the characters' positions.

    Raises
    ------
    ValueError
        If shapes or dtype are wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_meta.tasks.omniglot import Omniglot
    >>> images = np.zeros((3, 20, 28, 28), dtype=np.uint8)
    >>> source = Omniglot(images, ["Greek", "Greek", "Latin"], ["alpha", "beta", "a"])
    >>> source.select("Greek").draw(np.random.default_rng(0)).X.shape
    (40, 784)
    """

    def __init__(self, images, alphabets, characters):
        shape = images.shape
        if len(shape) != 4 or shape[2] != shape[3] or images.dtype != np.uint8:
            raise ValueError(
                "images must be uint8 of shape (n_characters, n_drawings, side, side), got "
                f"{images.dtype} of {shape}."
            )
        if not shape[0] == len(alphabets) == len(characters):
            raise ValueError("Each character in images needs one alphabet and one name.")
        self.images = images
        self.alphabets = np.asarray(alphabets, dtype=str)
        self.characters = np.asarray(characters, dtype=str)
        X = images.reshape(shape[0] * shape[1], shape[2] * shape[3])
        self.dataset = Dataset("omniglot", X, np.repeat(np.arange(shape[0]), shape[1]))

    def __len__(self):
        return len(self.images)

    def __repr__(self):
        return f"Omniglot({len(self)} characters of {len(set(self.alphabets))} alphabets)"

    def draw(self, rng):
        """All characters, the same Dataset each time; ``rng`` is not used."""
        return self.dataset

    def select(self, which):
        """Some of the characters, in the same order.

        Parameters
        ----------
        which : str, sequence of str or ndarray of shape (n_characters,), bool
            Alphabets, or which characters to take.

        Returns
        -------
        Omniglot

        Raises
        ------
        ValueError
            If nothing is selected, an alphabet is unknown or a mask has another length.
        """
        which = np.atleast_1d(which)
        if which.dtype != bool:
            if unknown := set(map(str, which)) - set(self.alphabets):
                known = ", ".join(np.unique(self.alphabets))
                raise ValueError(f"No alphabet {', '.join(sorted(unknown))}: choose from {known}.")
            which = np.isin(self.alphabets, which.astype(str))
        check_mask(which, len(self), "characters")
        return Omniglot(self.images[which], self.alphabets[which], self.characters[which])


def load_omniglot(folder, split=None):
    """Read Omniglot from a folder, reduced to 28 x 28 pixels.

    Parameters
    ----------
    folder : path
        Folder with ``omniglot.npz``, which is preferred: arrays ``images``, ``alphabet``,
        ``character``, ``official_set`` and ``split``. Or with ``images_background.zip``,
        ``images_evaluation.zip`` or both, as :func:`fetch_omniglot` saves them; reading these
        requires Pillow.
    split : str, default=None
        Characters to read: "background" or "evaluation", and from the npz also "train", "valid" or
        "test". If None, all in the folder.

    Returns
    -------
    Omniglot

    Raises
    ------
    FileNotFoundError
        If the folder has none of these files.
    ValueError
        If the split does not exist, or a file cannot be read or has other contents.
    ImportError
        If Pillow is required and not installed.
    """
    folder = expanded(folder)
    packed = folder / "omniglot.npz"
    if packed.is_file():
        return _read_npz(packed, split)
    if split not in (None, *MD5):
        raise ValueError(f"The official files have no split {split!r}: use {' or '.join(MD5)}.")
    files = [folder / f"images_{part}.zip" for part in (MD5 if split is None else [split])]
    if not any(file.is_file() for file in files):
        names = " nor ".join(file.name for file in [packed, *files])
        raise FileNotFoundError(
            f"Neither {names} in {folder}: call fetch_omniglot to download the .zip files."
        )
    parts = [_read_zip(file) for file in files if file.is_file()]
    return Omniglot(*(np.concatenate(arrays) for arrays in zip(*parts)))


def _read_npz(file, split):
    try:
        with np.load(file) as arrays:
            names = ("alphabet", "character", "official_set", "split")
            alphabets, characters, official, ours = (arrays[name].astype(str) for name in names)
            whole = Omniglot(arrays["images"], alphabets, characters)
        if not len(whole) == len(official) == len(ours):
            raise ValueError("its arrays differ in length")
    except PermissionError:
        raise
    except Exception as error:  # a damaged archive raises errors of many kinds
        raise ValueError(
            f"{file} cannot be read as Omniglot ({error}): remove it and call fetch_omniglot."
        ) from error
    known = {*official.tolist(), *ours.tolist()}
    if split is not None and split not in tuple(known):  # a set would raise a TypeError for a list
        raise ValueError(f"{file} has no split {split!r}; it has {', '.join(sorted(known))}.")
    return whole if split is None else whole.select((official == split) | (ours == split))


def _read_zip(file):
    """Images, alphabets and characters of an official file, without unpacking it to disk."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            f'Reading {file} requires Pillow. Run: pip install "sklearn_meta[images]"'
        ) from error
    drawings = defaultdict(list)
    try:
        with ZipFile(file) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".png"):
                    _, alphabet, character, _ = name.split("/")
                    with archive.open(name) as entry, Image.open(entry) as picture:
                        ink = 255 - np.asarray(picture.convert("L"))
                    drawings[alphabet, character].append(_area_average(ink))
        if not drawings:
            raise ValueError("it has no .png")
        # np.array fails unless each character has the same number of drawings.
        return np.array(list(drawings.values())), *zip(*drawings)
    except PermissionError:
        raise
    except Exception as error:  # as above
        raise ValueError(
            f"{file} cannot be read as Omniglot ({error}): remove it and call fetch_omniglot."
        ) from error


def _area_average(picture):
    """A picture reduced to uint8 of SIDE x SIDE, each pixel the mean of the area it covers."""
    height, width = picture.shape
    return np.rint(_shares(height) @ picture @ _shares(width).T).astype(np.uint8)


@cache
def _shares(length):
    """Share of each of SIDE cells that a line's pixels cover; (SIDE, length), rows sum to 1."""
    # In units in which the line is SIDE * length long, lengths are integers and shares exact.
    cells, pixels = np.arange(SIDE)[:, None] * length, np.arange(length) * SIDE
    common = np.minimum(cells + length, pixels + SIDE) - np.maximum(cells, pixels)
    return common.clip(0) / length


def fetch_omniglot(
    data_home=None,
    *,
    subset=("background", "evaluation"),
    base_url="https://github.com/brendenlake/omniglot/raw/master/python/",
    download_if_missing=True,
    n_retries=3,
    delay=1.0,
    timeout=30,
):
    """Download the official Omniglot files (MIT licence), unless they are already there.

    A file is moved into place only when it is complete and its digest is correct. If a connection
    breaks, the part received is kept as ``.partial`` and not requested again. Call this once before
    starting many processes: two that write the same ``.partial`` corrupt it for both.

    Parameters
    ----------
    data_home : path, default=None
        Folder where scikit-learn keeps data sets; if None, ``~/scikit_learn_data`` or the
        environment variable ``SCIKIT_LEARN_DATA``.
    subset : str or sequence of str, default=("background", "evaluation")
        Parts to download.
    base_url : str, default=that of the authors' repository
        URL of the folder with ``images_background.zip`` and ``images_evaluation.zip``.
    download_if_missing : bool, default=True
        If False, raise OSError instead of using the network.
    n_retries : int, default=3
        Retries after a failed request. What the server refuses is not retried.
    delay, timeout : float, default=1.0 and 30
        Seconds between retries, and seconds for which the server may be silent.

    Returns
    -------
    pathlib.Path
        The folder, ``<data_home>/omniglot``, for :func:`load_omniglot`.

    Raises
    ------
    ValueError
        If a part is unknown.
    OSError
        If a file cannot be downloaded, or its digest is wrong.
    """
    parts = [subset] if isinstance(subset, str) else list(subset)
    if unknown := [part for part in parts if part not in MD5]:
        raise ValueError(f"Omniglot has no part {unknown[0]!r}; it has {', '.join(MD5)}.")
    folder = Path(get_data_home(data_home)) / "omniglot"
    folder.mkdir(exist_ok=True)
    for part in parts:
        file = folder / f"images_{part}.zip"
        if not (file.is_file() or download_if_missing):
            raise OSError(f"There is no {file}, and download_if_missing is False.")
        if not file.is_file():
            url = f"{base_url.rstrip('/')}/{file.name}"
            _download(url, file, MD5[part], n_retries, delay, timeout)
    return folder


def _download(url, file, md5, n_retries, delay, timeout):
    partial = file.with_name(file.name + ".partial")
    for tries_left in range(max(n_retries, 0), -1, -1):
        try:
            _read_on(url, partial, timeout)
            break
        except (OSError, HTTPException) as error:
            refused = isinstance(error, HTTPError) and 400 <= error.code < 500
            refused = refused and error.code not in (408, 429)  # too slow, or too many requests
            if refused or not tries_left:
                raise OSError(
                    f"{url} cannot be fetched ({error}). Check the connection and call again, "
                    f"give another base_url, or put {file.name} into {file.parent} by hand."
                ) from error
        time.sleep(delay)
    with open(partial, "rb") as content:
        found = hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != md5:
        partial.unlink()
        raise OSError(
            f"The file from {url} is not Omniglot: its md5 is {found} instead of {md5}. It was "
            "removed; call again, or give another base_url."
        )
    os.replace(partial, file)


def _read_on(url, partial, timeout):
    """Fetch the rest of a partial file."""
    start = partial.stat().st_size if partial.exists() else 0
    request = Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        response = urlopen(request, timeout=timeout)
    except HTTPError as error:
        error.close()
        if error.code != 416:
            raise
        return  # nothing is left to fetch: the digest tells whether the file is right
    with response:
        # A server without ranges answers 200 and sends the file from its beginning.
        with open(partial, "ab" if response.status == 206 else "wb") as content:
            start = content.tell()
            while piece := response.read1(2**16):  # a timeout loses nothing that came in
                content.write(piece)
                if content.tell() > MOST_BYTES:
                    return  # the digest will tell that it is not Omniglot
            n_read = content.tell() - start
        length = response.headers.get("Content-Length", "")
    if length.isdecimal() and n_read < int(length):
        raise OSError(f"the connection ended after {n_read} of {length} bytes")

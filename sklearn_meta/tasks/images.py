"""MiniImageNet and CIFAR-FS: photographs of a hundred classes, 600 of each.

:func:`load_mini_imagenet` and :func:`load_cifar_fs` read them from a folder, to which the user
downloads them, as a source of episodes; :class:`Pictures` turns those of an episode into vectors.
"""

import csv
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..folders import expanded
from ..sizes import check_integers
from .dataset import Dataset

#: Name of each split in files and folders; 64, 16 and 20 classes in both sets.
SPLITS = {"train": "train", "valid": "val", "test": "test"}


class ImageClasses:
    """Colour images of several classes, as a source for meta-training.

    Rows of its table are uint8 pixels, for samplers that render them with :class:`Pictures`.

    Parameters
    ----------
    images : ndarray of shape (n, side, side, 3), uint8
        Images with values 0 to 255: red, green and blue of each pixel.
    y : array-like of shape (n,), int
        Index in ``classes`` of each image's class.
    classes : sequence of str, length n_classes
        Distinct names, each of at least one image.
    name : str, default="images"
        Name of the table in reports.

    Raises
    ------
    ValueError
        If shapes or dtype are wrong, or a class has no image or another class's name.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_meta.tasks.images import ImageClasses
    >>> images = np.zeros((5, 32, 32, 3), dtype=np.uint8)
    >>> source = ImageClasses(images, [0, 0, 1, 1, 2], ["apple", "bear", "cup"])
    >>> source.select(["apple", "cup"])
    ImageClasses(3 images of 2 classes)
    """

    def __init__(self, images, y, classes, name="images"):
        shape, y = images.shape, np.asarray(y)
        square = len(shape) == 4 and shape[1] == shape[2] and shape[3] == 3
        if not square or images.dtype != np.uint8:
            raise ValueError(
                f"images must be uint8 of shape (n, side, side, 3), got {images.dtype} of {shape}."
            )
        each_occurs = np.array_equal(np.unique(y), np.arange(len(classes)))
        if y.shape != shape[:1] or not each_occurs or len(set(classes)) < len(classes):
            raise ValueError(
                "y must hold positions in classes; each class must have an image and its own name."
            )
        self.images = images
        self.classes = np.asarray(classes, dtype=str)
        X = images.reshape(shape[0], shape[1] ** 2 * 3)
        self.dataset = Dataset(name, X, y.astype(np.int64))

    def __len__(self):
        return len(self.classes)

    def __repr__(self):
        return f"ImageClasses({len(self.images)} images of {len(self)} classes)"

    def draw(self, rng):
        """All images, the same Dataset each time; ``X`` shares the memory of ``images``."""
        return self.dataset

    def select(self, which):
        """Some of the classes, in the same order; their images are copied.

        Parameters
        ----------
        which : str, sequence of str or ndarray of shape (n_classes,), bool
            Names of classes, or a mask of them.

        Returns
        -------
        ImageClasses

        Raises
        ------
        ValueError
            If nothing is selected, a class is unknown or a mask has another length.
        """
        which = np.atleast_1d(which)
        if which.dtype != bool:
            if unknown := set(map(str, which)) - set(self.classes):
                raise ValueError(f"No class {min(unknown)}: choose from {', '.join(self.classes)}.")
            which = np.isin(self.classes, which.astype(str))
        check_mask(which, len(self), "classes")
        name, y = self.dataset.name, self.dataset.y
        rows, codes = which[y], np.cumsum(which) - 1
        return ImageClasses(self.images[rows], codes[y[rows]], self.classes[which], name)


@dataclass(frozen=True)
class Pictures:
    """Renderer of an episode's images as vectors, channel after channel.

    Parameters
    ----------
    size : int
        Side length of the images in pixels: that of the source.
    n_channels : int, default=3
        Channels per pixel: red, green and blue.
    augment : bool, default=False
        Whether to mirror each image left-right with probability 1/2.

    Raises
    ------
    ValueError
        If a size is not an integer of 1 or more.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_meta.tasks.images import Pictures
    >>> X = np.uint8([[255, 0, 0, 255, 255, 255] * 2])  # 2 x 2 pixels: red, white, red, white
    >>> Pictures(2)(X).reshape(3, 4)
    array([[1., 1., 1., 1.],
           [0., 1., 0., 1.],
           [0., 1., 0., 1.]], dtype=float32)
    """

    size: int
    n_channels: int = 3
    augment: bool = False

    def __post_init__(self):
        check_integers(size=self.size, n_channels=self.n_channels)

    @property
    def width(self):
        """Length of a vector, an int."""
        return self.size * self.size * self.n_channels

    def __call__(self, X, classes=None, rng=None):
        """Render the images of an episode, or images for ``fit`` and ``predict``.

        Parameters
        ----------
        X : ndarray of shape (n, size * size * n_channels), uint8
            Images, pixel by pixel, as :class:`ImageClasses` draws them.
        classes : ndarray of shape (n,), int, optional
            Class of each image within the episode; not used.
        rng : numpy.random.Generator, optional
            Not used without augmentation.

        Returns
        -------
        ndarray of shape (n, width), float32
            Images in [0, 1]: all pixels of the first channel, row by row, then of the next.

        Raises
        ------
        ValueError
            If ``X`` has another shape or dtype, or ``rng`` is missing with augmentation.
        """
        X = np.asarray(X)
        if X.ndim != 2 or X.shape[1] != self.width or X.dtype != np.uint8:
            raise ValueError(
                f"X must be uint8 of shape (n, {self.width}), got {X.dtype} of {X.shape}: set "
                "size and n_channels of Pictures to those of the source."
            )
        pixels = X.reshape(len(X), self.size, self.size, self.n_channels)
        if self.augment and rng is None:
            raise ValueError("augment=True requires rng, a numpy.random.Generator: give one.")
        if self.augment:
            mirrored = rng.random((len(X), 1, 1, 1)) < 0.5
            pixels = np.where(mirrored, pixels[:, :, ::-1], pixels)
        planes = pixels.transpose(0, 3, 1, 2)
        return np.divide(planes, 255, dtype=np.float32, order="C").reshape(len(X), self.width)


def check_mask(mask, n, what):
    """Check that a mask selects one or more of ``n`` classes or characters."""
    if mask.shape != (n,) or not mask.any():
        raise ValueError(
            f"A mask must select one or more of the {n} {what}, with a bool for each, got "
            f"{mask.sum()} True of {mask.size}."
        )


def load_mini_imagenet(folder, split="train", *, size=84):
    """Read MiniImageNet (Vinyals et al. 2016; section 4.2 of paper 003) from a folder.

    Parameters
    ----------
    folder : path
        Folder in the layout of Ravi & Larochelle (2017): ``train.csv``, ``val.csv`` and
        ``test.csv`` with columns ``filename,label``, and the files in ``images``. Or with
        ``train``, ``val`` and ``test``, each with one folder of images per class.
    split : {"train", "valid", "test"}, default="train"
        Classes to read: 64, 16 or 20.
    size : int, default=84
        Side length in pixels that images are resized to, with antialiasing; images that are not
        square are first cropped around their centre. At 84, a class of 600 images takes 12.7 MB.

    Returns
    -------
    ImageClasses
        Classes in order of their names, and images of a class in order of their file names.

    Raises
    ------
    FileNotFoundError
        If the folder has neither layout, a file is missing or a class has no image.
    ValueError
        If the split is unknown or has no class, the csv lacks a column or a value, an image cannot
        be decoded, or ``size`` is not positive.
    ImportError
        If Pillow is not installed.
    """
    folder, part = expanded(folder), _part(split)
    table, subfolder = folder / f"{part}.csv", folder / part
    if table.is_file() and (folder / "images").is_dir():
        return _read(_labelled(table), table, size, "mini_imagenet")
    if subfolder.is_dir():
        folders = [entry.name for entry in subfolder.glob("[!.]*") if entry.is_dir()]
        classes = [name for name in folders if name != "__MACOSX"]  # macOS adds it to zip files
        return _read(_in_folders(subfolder, classes), subfolder, size, "mini_imagenet")
    raise FileNotFoundError(
        f"No split {split!r} of MiniImageNet in {folder}: give a folder that holds images/ and "
        f"{table.name} beside it, or {part}/ with a folder of images for each class."
    )


def load_cifar_fs(folder, split="train", *, size=32):
    """Read CIFAR-FS, few-shot splits of CIFAR-100 by Bertinetto et al. (2019), from a folder.

    Parameters
    ----------
    folder : path
        Folder in its authors' layout, or with ``cifar100`` in that layout: ``data/<class>/*.png``,
        and one class per line in ``splits/bertinetto/train.txt``, ``val.txt`` and ``test.txt``.
    split, size
        As in :func:`load_mini_imagenet`; with the default of 32, images are not resized.

    Returns
    -------
    ImageClasses
        In the order of :func:`load_mini_imagenet`.

    Raises
    ------
    FileNotFoundError, ValueError, ImportError
        As in :func:`load_mini_imagenet`.
    """
    folder, part = expanded(folder), _part(split)
    top = folder / "cifar100" if (folder / "cifar100").is_dir() else folder
    listing = top / "splits" / "bertinetto" / f"{part}.txt"
    if not listing.is_file():
        raise FileNotFoundError(
            f"No split {split!r} of CIFAR-FS in {folder}: give a folder that holds "
            f"data/<class>/*.png and splits/bertinetto/{listing.name}, or cifar100/ with both."
        )
    lines = map(str.strip, listing.read_text("utf-8-sig", "replace").splitlines())
    return _read(_in_folders(top / "data", filter(None, lines)), listing, size, "cifar_fs")


def _part(split):
    if split not in tuple(SPLITS):  # a dict would raise a TypeError for a list
        raise ValueError(f"There is no split {split!r}: choose from {', '.join(SPLITS)}.")
    return SPLITS[split]


def _labelled(table):
    """Files of each class by the labels of a csv; a dict of sets of paths."""
    members = defaultdict(set)
    with open(table, newline="", encoding="utf-8-sig", errors="replace") as lines:
        for row in _rows_of(csv.DictReader(lines), table):
            if not (row.get("filename") and row.get("label")):
                raise ValueError(
                    f"{table} must have the header filename,label, and "
                    "both in every row: correct it."
                )
            name = Path(row["filename"])
            if name.is_absolute() or ".." in name.parts:
                raise ValueError(
                    f"{table} names {row['filename']!r}, which is not a file in images/."
                )
            path = table.parent / "images" / name
            if not path.is_file():
                raise FileNotFoundError(f"There is no {path}: put it there or edit {table}.")
            members[row["label"]].add(path)
    return members


def _rows_of(reader, table):
    try:
        yield from reader
    except csv.Error as error:  # such as a quote that is never closed
        raise ValueError(f"{table} is not a CSV (line {reader.line_num}: {error}).") from error


def _in_folders(folder, classes):
    """Files of each class in the folder of its name; a dict of lists of paths."""
    members = {}
    for name in classes:
        files = (folder / name).glob("[!.]*")  # empty if there is no such folder
        members[name] = [path for path in files if path.suffix.lower() in (".jpg", ".jpeg", ".png")]
        if not members[name]:
            raise FileNotFoundError(f"No .jpg or .png in {folder / name}: put images there.")
    return members


def _read(members, origin, size, name):
    """Read the files of each class, in order of names, as a source."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            f'Reading {origin} requires Pillow. Run: pip install "sklearn_meta[images]"'
        ) from error
    if not members:
        raise ValueError(f"{origin} has no classes: add those of the split.")
    check_integers(size=size)
    classes = sorted(members)
    # By parts: paths of Windows are sorted without regard to capitals.
    paths = [path for label in classes for path in sorted(members[label], key=lambda p: p.parts)]
    y = np.repeat(np.arange(len(classes)), [len(members[label]) for label in classes])
    images = np.empty((len(paths), size, size, 3), dtype=np.uint8)
    for image, path in zip(images, paths):
        try:
            with Image.open(path) as picture:
                if picture.mode.startswith("I"):  # 16 bits per pixel: Pillow would clip at 255
                    upper = np.asarray(picture).clip(0, 65535) // 256
                    picture = Image.fromarray(upper.astype(np.uint8))
                if "transparency" in picture.info:  # else Pillow warns; alpha is dropped below
                    picture = picture.convert("RGBA")
                rgb = picture.convert("RGB")
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise ValueError(f"{path} is not an image ({error}): replace or remove it.") from error
        side = min(rgb.size)
        left, top = (rgb.width - side) // 2, (rgb.height - side) // 2
        square = rgb.crop((left, top, left + side, top + side))
        image[:] = square.resize((size, size), Image.Resampling.LANCZOS)
    return ImageClasses(images, y, classes, name)

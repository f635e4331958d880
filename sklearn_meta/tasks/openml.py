"""Tables of OpenML suites and tasks, fetched with the openml package and cached on disk."""

import json
import operator
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

from ..folders import check_writable, expanded
from ..progress import ProgressBar
from ..user_warnings import warn
from . import openml_client
from .dataset import RawTable

_BACKOFF = 1.0  # seconds before the second try; doubled before each further one
_GIVE_UP = 3  # unanswered datasets in a row, after which the rest is skipped
_A_DAY = 24 * 3600  # seconds; no download takes so long


class OpenMLCollection(Mapping):
    """The tables of an OpenML suite, or of OpenML tasks, by dataset name.

    Everything fetched stays in a cache of its own, one file per table, and is never requested
    again: with a warm cache no network is needed, and a restarted run sees the same tables. Files
    are moved into place only when complete, in one step, so a killed run leaves nothing that could
    be mistaken for good, and processes may share a cache without locks. Two processes that lack the
    same table both download it, though: call :meth:`fetch` once before starting many.

    During a request, the openml package of this process is configured for it (server, cache, time
    limits), and restored afterwards. Do not use openml in other threads meanwhile.

    Parameters
    ----------
    suite : int or str, default=None
        Number or alias of a suite, such as 99 or "OpenML-CC18".
    tasks : sequence of int, default=None
        Task ids, instead of a suite or in addition to it.
    server : str, default=None
        URL of the REST interface, such as "https://www.openml.org/api/v1/xml"; if None, the one
        that the openml package is configured for.
    cache_directory : path, default=None
        Folder for tables, with one subfolder per server; if None, ``sklearn_meta`` within openml's
        own cache.
    timeout : float, default=30.0
        Seconds for which the server may be silent, when connecting and at any point of a response.
        A whole response may take ten times as long.
    n_retries : int, default=3
        Retries after a failed request, 1, 2, 4 ... seconds later. What the server refuses (an
        unknown id, a private dataset) is not retried.
    offline : bool, default=False
        Whether to use the cache alone: what it lacks raises an error.
    progress : bool, default=True
        Whether to show a progress bar while data is fetched.

    Attributes
    ----------
    skipped_ : dict of str to str
        Why each dataset missing from the collection could not be fetched. Looking up its name tries
        again. If not even the name is known, "task-<id>" stands for it, and only :meth:`fetch`
        tries again.
    families : dict of str to str
        Dataset name of each name in the collection. They differ if several tasks are on datasets of
        one name: the first has the name itself, the others "<name>-<task id>".

    Raises
    ------
    ImportError
        If openml 0.15 is not installed.
    ValueError
        If neither suite nor tasks are given, a number is out of range, or (when names are first
        needed) the suite is unknown to the server.
    OSError
        When names are first needed, if the suite's list is neither cached nor available, or the
        cache cannot be written.

    Notes
    -----
    Names are listed when first needed: one request for the suite's tasks and three small ones per
    task. A table is loaded by ``collection[name]``, which raises OSError if it cannot be fetched
    and ValueError if it cannot be used (no target, no labels, a format that openml cannot read).

    ``metadata`` of a table holds ``id`` (of the dataset), ``task_id``, ``version``, ``target``
    (the column's name), ``task`` ("classification" or "regression"), ``family`` (the dataset's
    name) and ``source`` ("openml"). Class labels are strings; rows whose target is missing are
    left out; categories are strings; columns that OpenML marks as row ids or to be ignored are
    left out.

    Examples
    --------
    >>> from sklearn_meta.tasks.openml import OpenMLCollection
    >>> suite = OpenMLCollection("OpenML-CC18").fetch()  # doctest: +SKIP
    >>> X, y, metadata = suite["vehicle"]  # doctest: +SKIP
    """

    def __init__(
        self,
        suite=None,
        *,
        tasks=None,
        server=None,
        cache_directory=None,
        timeout=30.0,
        n_retries=3,
        offline=False,
        progress=True,
    ):
        config = openml_client.installed_openml().config
        if suite is None and tasks is None:
            raise ValueError("Give an OpenML suite (such as 99), task ids, or both.")
        if not timeout > 0:
            raise ValueError(f"timeout must be a positive number of seconds, got {timeout!r}.")
        if operator.index(n_retries) < 0:
            raise ValueError(f"n_retries must not be negative, got {n_retries!r}.")
        self.suite = suite
        self.tasks = [operator.index(task) for task in (() if tasks is None else tasks)]
        self.server = (server or config.server).rstrip("/")
        host = urlsplit(self.server).netloc
        if not host:
            raise ValueError(
                f"server must be an address such as https://www.openml.org/api/v1/xml, "
                f"got {server!r}."
            )
        if cache_directory is None:
            cache_directory = Path(config.get_config_as_dict()["cachedir"]) / "sklearn_meta"
        # Absolute: tables are read later, maybe from another working directory.
        self.folder = expanded(cache_directory).absolute() / quote(host, safe="")
        self.timeout = timeout
        self.n_retries = n_retries
        self.offline = bool(offline)
        self.progress = progress
        self.skipped_ = {}
        self._listed = None
        self._unanswered = 0

    def __repr__(self):
        what = "" if self.suite is None else f"suite={self.suite!r}, "
        what += f"tasks={self.tasks!r}, " if self.tasks else ""
        return f"OpenMLCollection({what}server={self.server!r})"

    def fetch(self, *, refresh=False):
        """Download whatever the cache lacks.

        Call it before starting many processes, or on a machine with network for one without.
        Whatever cannot be fetched is skipped: a warning names each dataset, and ``skipped_`` has
        the reasons.

        Parameters
        ----------
        refresh : bool, default=False
            Whether to request the suite's list of tasks even if it is cached. If the server cannot
            be reached, the cached list is used, with a warning.

        Returns
        -------
        self
        """
        self.skipped_ = {}
        self._unanswered = 0
        self._listed = self._list(refresh)
        for name in self._bar(list(self), "OpenML tables"):
            try:
                self[name]
            except (OSError, ValueError) as error:
                self._skip(name, error)
        return self

    @property
    def families(self):
        """Dataset name of each name, a dict."""
        return {name: found["metadata"]["family"] for name, found in self._described().items()}

    def __iter__(self):
        return iter([name for name in self._described() if name not in self.skipped_])

    def __len__(self):
        return sum(1 for _ in self)

    def __contains__(self, name):
        return name in self._described() and name not in self.skipped_

    def __getitem__(self, name):
        found = self._described()[name]
        task = found["metadata"]["task_id"]
        file = self.folder / f"task-{task}.parquet"
        try:
            frame = _read_table(file)
            if frame is None:
                self._request(
                    f"Dataset {name!r} (OpenML task {task})",
                    lambda openml, attempt: openml_client.ask_table(openml, found, attempt),
                    file,
                )
                frame = _read_table(file)
        except (OSError, ValueError) as error:
            self.skipped_[name] = str(error)
            raise
        self.skipped_.pop(name, None)
        return RawTable(frame.iloc[:, :-1], frame.iloc[:, -1], dict(found["metadata"]))

    # Names and descriptions

    def _described(self):
        """Description of each dataset by its name, from the cache or the server."""
        if self._listed is None:
            self._listed = self._list()
        return self._listed

    def _list(self, refresh=False):
        listed = {}
        tasks = list(dict.fromkeys([*self._suite_tasks(refresh), *self.tasks]))
        for task in self._bar(tasks, "OpenML descriptions", delay=1):
            file = self.folder / f"task-{task}.json"
            try:
                found = _read_json(file, {"metadata", "source"}) or self._request(
                    f"Dataset 'task-{task}' (OpenML)",
                    lambda openml, attempt, task=task: openml_client.ask_description(openml, task),
                    file,
                )
            except (OSError, ValueError) as error:
                self._skip(f"task-{task}", error)
                continue
            name = found["metadata"]["family"]
            while name in listed:  # another dataset may be called "iris-7"
                name = f"{name}-{task}"
            listed[name] = found
        return listed

    def _suite_tasks(self, refresh):
        """Task ids of the suite; openml does not cache them."""
        if self.suite is None:
            return []
        file = self.folder / f"suite-{quote(str(self.suite), safe='')}.json"
        cached = _read_json(file, {"tasks"})
        if cached and (self.offline or not refresh):
            return cached["tasks"]
        try:
            return self._request(
                f"OpenML suite {self.suite!r}",
                lambda openml, attempt: {"tasks": openml_client.ask_suite(openml, self.suite)},
                file,
            )["tasks"]
        except OSError as error:
            if not cached:
                raise
            warn(f"The cached list of tasks is used. {error}")
            return cached["tasks"]
        except ValueError as error:
            raise ValueError(
                f"{error} Give the number or alias of a suite of tasks at {self.server}."
            ) from error

    def _skip(self, name, error):
        self.skipped_[name] = str(error)
        warn(f"Skipped: {error}")

    def _bar(self, items, title, **options):
        return ProgressBar(items, desc=title, disable=not self.progress, **options)

    # Asking the server

    def _request(self, what, ask, file):
        """Call ``ask(openml, attempt)`` until there is an answer, and write it to ``file``."""
        if self.offline:
            raise OSError(
                f"{what} is not in the cache {self.folder} (or damaged), and offline is set: call "
                "fetch() where the server can be reached."
            )
        if self._unanswered >= _GIVE_UP:
            raise OSError(
                f"{what} was not requested, because {self.server} did not answer for the "
                f"last {self._unanswered} datasets: call fetch() when it answers again."
            )
        check_writable(file, "cache_directory", make=True)
        _sweep(self.folder)
        for attempt in range(self.n_retries + 1):
            if attempt:
                time.sleep(_BACKOFF * 2 ** (attempt - 1))
            try:
                with tempfile.TemporaryDirectory(prefix="scratch-", dir=self.folder) as scratch:
                    scratch = Path(scratch)
                    with openml_client.client(self.server, scratch, self.timeout) as openml:
                        answer = ask(openml, attempt)
                    _put(answer, file, scratch)
            except Exception as error:  # openml, minio and liac-arff raise errors of their own
                if openml_client.is_final(error):
                    self._unanswered = 0
                    why = openml_client.reason(error)
                    raise ValueError(f"{what} cannot be used: {why}.") from error
                failure = error
            else:
                self._unanswered = 0
                return answer
        self._unanswered = self._unanswered + 1 if openml_client.is_silence(failure) else 0
        tries = "1 try" if self.n_retries == 0 else f"{self.n_retries + 1} tries"
        raise OSError(
            f"{what} cannot be fetched from {self.server}: {tries} failed, the last with "
            f"{openml_client.reason(failure)}."
        ) from failure


# Files of the cache


def _sweep(folder):
    """Remove scratch folders that killed processes left behind."""
    for scratch in folder.glob("scratch-*"):
        with suppress(OSError):  # another process may have removed it
            if time.time() - scratch.stat().st_mtime > _A_DAY:
                shutil.rmtree(scratch)


def _read_json(file, keys):
    """Content of a file, or None if it is missing, damaged, or lacks one of the keys."""
    try:
        found = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and keys <= found.keys() else None


def _read_table(file):
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(file, page_checksum_verification=True) as parquet:
            return parquet.read().to_pandas()
    except (OSError, ValueError):  # missing or damaged: fetch it again in both cases
        return None


def _put(answer, file, scratch):
    """Write to the scratch folder, then rename, so that the file is complete or absent."""
    new = scratch / file.name
    if file.suffix == ".json":
        new.write_text(json.dumps(answer, indent=1) + "\n", "utf-8")
    else:
        import pyarrow
        from pyarrow import parquet

        table = pyarrow.Table.from_pandas(answer, preserve_index=False)
        parquet.write_table(table, new, write_page_checksum=True)
    with open(new, "rb+") as written:
        os.fsync(written.fileno())
    os.replace(new, file)

"""Requests through the openml package, which is configured for each one and restored afterwards.

Only this module depends on the internals of openml 0.15 and on the errors that it raises.
"""

import logging
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace
from xml.parsers.expat import ExpatError

_PATIENCE = 10  # a whole answer may take this many timeouts, however steadily data come
_DATABASE_IS_BUSY = 107  # the only error code of OpenML for which a retry may help
_CONFIGURED = threading.RLock()  # openml is configured for the whole process


def installed_openml():
    """The openml package.

    Raises
    ------
    ImportError
        If version 0.15 is not installed; the others are configured in other ways.
    OSError
        If openml cannot write the settings that it makes when imported.
    """
    try:
        import openml
    except ImportError as error:
        raise ImportError(
            'OpenMLCollection needs the package openml: pip install "sklearn_meta[openml]".'
        ) from error
    except OSError as error:
        raise OSError(
            f"The package openml cannot make a folder for its settings ({error}): set "
            "XDG_CONFIG_HOME and XDG_CACHE_HOME to folders that can be written."
        ) from error
    if not openml.__version__.startswith("0.15."):
        raise ImportError(
            f"OpenMLCollection needs openml 0.15, and {openml.__version__} is installed: "
            'pip install "sklearn_meta[openml]".'
        )
    return openml


@contextmanager
def client(server, folder, timeout):
    """The openml package, set up to ask a server with time limits and nothing cached.

    Parameters
    ----------
    server : str
        Address of the REST interface.
    folder : Path
        Folder for openml's downloads meanwhile.
    timeout : float
        Seconds for which the server may be silent; a whole answer may take ten times as long.

    Yields
    ------
    module
        openml.
    """
    openml = installed_openml()
    config = openml.config
    with (
        _CONFIGURED,
        _swapped(
            config,
            # an API key is only for the server that it was given for
            apikey=config.apikey if server == config.server.rstrip("/") else "",
            server=server,
            _root_cache_directory=folder,
            connection_n_retries=1,
            show_progress=False,
        ),
        _swapped(
            openml._api_calls,
            requests=_limited_requests(timeout),
            minio=_limited_minio(timeout),
            # openml logs requests with the root logger, and so configures it as a side effect
            logging=logging.Logger(__name__, logging.ERROR),
        ),
    ):
        yield openml


@contextmanager
def _swapped(module, **values):
    before = {name: getattr(module, name) for name in values}
    try:
        for name, value in values.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


# Requests


def ask_suite(openml, suite):
    """Task ids of a suite, a list of int."""
    tasks = openml.study.get_suite(suite).tasks
    if not tasks:
        raise ValueError("it has no tasks")
    return tasks


def ask_description(openml, task_id):
    """Describe a task and its dataset, without the data.

    Returns
    -------
    dict
        ``metadata`` of the table, and ``source``: how openml finds the data.
    """
    task = openml.tasks.get_task(task_id)
    dataset = openml.datasets.get_dataset(task.dataset_id)
    if (task.task_id, dataset.dataset_id) != (task_id, task.dataset_id):
        raise OSError("the answer is about another task, perhaps from a stale cache")
    target = getattr(task, "target_name", None)
    if not target:
        raise ValueError(f"its dataset {dataset.name!r} has no target in this task")
    regression = isinstance(task, openml.tasks.OpenMLRegressionTask)
    metadata = {
        "id": dataset.dataset_id,
        "task_id": task_id,
        "family": dataset.name,
        "version": dataset.version,
        "target": target,
        "task": "regression" if regression else "classification",
        "source": "openml",
    }
    kept = ("name", "dataset_id", "url", "md5_checksum", "row_id_attribute", "ignore_attribute")
    source = {key: getattr(dataset, key) for key in kept}
    source |= {"data_format": dataset.format, "parquet_url": dataset._parquet_url}
    return {"metadata": metadata, "source": source}


def ask_table(openml, description, attempt):
    """The data of a dataset, in a form that parquet can hold.

    Parameters
    ----------
    openml : module
        As :func:`client` yields it.
    description : dict
        As :func:`ask_description` gave it.
    attempt : int
        Every other attempt goes to the ARFF file instead of parquet.

    Returns
    -------
    DataFrame
        The target is the last column: strings for classes, floats for a regression.
    """
    import pandas as pd
    from arff import ArffException

    # Parquet is smaller, ARFF has a checksum: where one fails, the other may work.
    source = description["source"] | ({"parquet_url": None} if attempt % 2 else {})
    if source["data_format"].lower() == "sparse_arff":
        # openml 0.15 cannot read categories of sparse ARFF with pandas 3. liac-arff adds the zeros.
        source["data_format"] = "ARFF"
    try:
        frame = openml.datasets.OpenMLDataset(description=None, **source).get_data()[0]
    except ArffException as error:  # the checksum was right: a retry would fail in the same way
        if description["source"].get("parquet_url") is None:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        raise
    target = description["metadata"]["target"]
    if not frame.columns.is_unique:
        raise ValueError("two columns have the same name")
    if target not in frame:
        raise ValueError(f"it has no target: there is no column {target!r}")
    if frame.shape[1] < 2:
        raise ValueError("it has no column besides the target")
    frame = frame[frame[target].notna()].reset_index(drop=True)
    if not len(frame):
        raise ValueError("its target is missing in every row")
    columns = {name: _storable(frame[name]) for name in frame if name != target}
    regression = description["metadata"]["task"] == "regression"
    labels = frame[target]
    if labels.dtype.kind == "f" and (labels % 1 == 0).all():  # a missing label made them floats
        labels = labels.astype(int)
    columns[target] = _storable(labels).astype(float if regression else str)
    return pd.DataFrame(columns)


def _storable(column):
    """Convert categories and mixed values to strings."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.rename_categories(str)
    return column.map(str, na_action="ignore") if column.dtype == object else column


# Errors


def is_final(error):
    """Whether a retry would fail in the same way, a bool."""
    from openml import exceptions

    if isinstance(error, exceptions.OpenMLServerException):
        return error.code != _DATABASE_IS_BUSY
    refused = (exceptions.OpenMLPrivateDatasetError, exceptions.OpenMLNotAuthorizedError)
    return isinstance(error, (ValueError, KeyError, NotImplementedError, *refused))


def is_silence(error):
    """Whether the server cannot be reached or does not answer, a bool."""
    from requests import ConnectionError, Timeout
    from urllib3.exceptions import TimeoutError

    return isinstance(error, (ConnectionError, Timeout, TimeoutError))


def reason(error):
    """Describe an error in a few words, a str."""
    from openml.exceptions import OpenMLServerException

    if type(error) is Exception and error.__cause__:  # openml hides the cause
        error = error.__cause__
    text = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, OpenMLServerException):
        text = f"the server says {error.message.removesuffix(' - None')!r} (code {error.code})"
    elif isinstance(error, ExpatError):
        text = f"an answer that is not XML ({text})"
    elif isinstance(error, KeyError):
        text = f"the server's answer has no {text}"
    elif not isinstance(error, ValueError):
        text = f"{type(error).__name__}: {text}"
    return text if len(text) <= 300 else text[:297] + "..."


# Time limits: openml sets none


def _limited_requests(timeout):
    """The module requests, with sessions that have time limits and raise on server errors."""
    import requests

    class Adapter(requests.adapters.HTTPAdapter):
        def send(self, request, **options):
            deadline = time.monotonic() + _PATIENCE * timeout
            response = super().send(request, **{**options, "timeout": timeout})
            _limit(response.raw, deadline)
            failed = (status := response.status_code) >= 500 or status == 429
            # Refusals by OpenML have status 412 and a reason in XML, which openml reads.
            if failed or status >= 400 and b"oml:error" not in response.content:
                response.close()
                raise requests.HTTPError(f"status {status} from {request.url}")
            return response

    class Session(requests.Session):
        def __init__(self):
            super().__init__()
            self.mount("https://", Adapter())
            self.mount("http://", Adapter())

    return SimpleNamespace(**{**vars(requests), "Session": Session})


def _limited_minio(timeout):
    """The module minio, with a client (for parquet files) that has the same limits."""
    import minio
    import urllib3

    def limited(endpoint, *, secure, http_client=None):
        pool = http_client or urllib3.PoolManager()
        pool.connection_pool_kw |= {"timeout": timeout, "retries": urllib3.Retry(0)}
        urlopen = pool.urlopen
        deadline = time.monotonic() + _PATIENCE * timeout
        pool.urlopen = lambda *args, **options: _limit(urlopen(*args, **options), deadline)
        return minio.Minio(endpoint, secure=secure, http_client=pool)

    return SimpleNamespace(**{**vars(minio), "Minio": limited})


def _limit(response, deadline):
    """Make a urllib3 response raise if reading its body takes too long."""
    from urllib3.exceptions import TimeoutError

    def stream(amt=2**16, decode_content=None):
        # read1 returns what has come; read would wait for `amt` bytes, beyond any deadline
        while data := response.read1(amt, decode_content=decode_content):
            if time.monotonic() > deadline:
                response.close()
                raise TimeoutError("the answer came too slowly; increase timeout if it is large")
            yield data

    response.stream = stream
    return response

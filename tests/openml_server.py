"""A local server with the part of OpenML's REST interface that reads tables, and with faults."""

import gzip
import hashlib
import io
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

API = "/api/v1/xml"
KINDS = {"classification": 1, "regression": 2, "clustering": 5}


class Served(NamedTuple):
    """A dataset and its one task."""

    task: int
    data: int
    name: str
    frame: pd.DataFrame
    target: str | None  # None: the task names no target
    kind: str = "classification"
    version: int = 1
    parquet: bool = False
    row_id: str | None = None
    ignore: tuple = ()
    sparse: bool = False


class OpenMLServer:
    """A server on 127.0.0.1 for as long as the ``with`` block lasts.

    ``asked`` lists the paths of the requests; ``keys`` the API keys that came with them.
    """

    def __init__(self, served, suites):
        self.tasks = {item.task: item for item in served}
        self.data = {item.data: item for item in served}
        self.suites = suites
        self.asked = []
        self.keys = set()
        self._faults = {}

    def __enter__(self):
        self.stopped = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._http.openml = self
        self.port = self._http.server_port
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}{API}"

    def stop(self):
        """Close the port: later connections are refused."""
        self.stopped.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def fail(self, path, how, times=float("inf")):
        """Answer requests whose path begins with ``path`` with a fault.

        "error" (status 500), "missing" (a page of status 404), "page" (one of status 200), "busy"
        (OpenML's code 107), "other" (what the next number has), "garble" (other bytes, as many),
        "cut" (half of the body, then the end), "stall" (half of the body, then nothing), "trickle"
        (byte after byte) or "silence" (no answer).
        """
        self._faults[path] = [how, times]

    def mend(self):
        self._faults.clear()

    def fault(self, path):
        for start, fault in self._faults.items():
            if path.startswith(start) and fault[1] > 0:
                fault[1] -= 1
                return fault[0]

    def body(self, path):
        """Return content type and body of a path, or None and an error code."""
        kind, _, rest = path.removeprefix(API).strip("/").partition("/")
        if path == f"{API}/study/{rest}":
            found = self.suites.get(rest)
            return ("text/xml", study(rest, found)) if found is not None else (None, 601)
        if path.startswith(f"{API}/task/"):
            item = self.tasks.get(int(rest))
            return ("text/xml", task(item)) if item else (None, 151)
        if path.startswith(f"{API}/data/features/"):
            item = self.data.get(int(rest.removeprefix("features/")))
            return ("text/xml", features(item)) if item else (None, 273)
        if path.startswith(f"{API}/data/"):
            item = self.data.get(int(rest))
            return ("text/xml", self.description(item)) if item else (None, 111)
        number = int(path.rsplit("_", 1)[1].split(".")[0])
        if path.endswith(".arff"):
            return "text/plain; charset=utf-8", arff(self.data[number])
        return "application/octet-stream", parquet(self.data[number])

    def description(self, item):
        at = f"http://127.0.0.1:{self.port}"
        path = f"dataset_{item.data}"
        optional = [("row_id_attribute", item.row_id)] if item.row_id else []
        optional += [("ignore_attribute", name) for name in item.ignore]
        if item.parquet:
            optional.append(("parquet_url", f"{at}/datasets/0000/{path}.pq"))
        return document(
            "data_set_description",
            ("id", item.data),
            ("name", item.name),
            ("version", item.version),
            ("description", f"The table {item.name}."),
            ("format", "Sparse_ARFF" if item.sparse else "ARFF"),
            ("licence", "Public"),
            ("url", f"{at}/data/download/{path}.arff"),
            *optional,
            ("visibility", "public"),
            ("status", "active"),
            ("md5_checksum", hashlib.md5(arff(item)).hexdigest()),
        )


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body waits 40 ms until its headers are acknowledged

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        server, url = self.server.openml, urlsplit(self.path)
        server.asked.append(url.path)
        server.keys |= {part for part in url.query.split("&") if part}
        try:
            self.answer(server, url.path, server.fault(url.path))
        except ConnectionError:  # the client gave up
            self.close_connection = True

    def answer(self, server, path, fault):
        if fault == "silence":
            server.stopped.wait()
            self.close_connection = True
            return
        if status := {"error": 500, "missing": 404, "page": 200}.get(fault):
            return self.send("text/html", b"<html>A page<br></html>", status=status)
        if fault == "other":
            start, _, number = path.rpartition("/")
            path = f"{start}/{int(number) + 1}"
        kind, body = (None, 107) if fault == "busy" else server.body(path)
        if kind is None:
            error = document("error", ("code", body), ("message", f"Error number {body}"))
            return self.send("text/xml", error, status=412)
        if fault == "garble":
            body = body.replace(b"5", b"6") if kind.startswith("text") else body[::-1]
        self.send(kind, body, fault=fault)

    def send(self, kind, body, status=200, fault=None):
        """Send as OpenML does: XML gzipped and in chunks, data files plain with their length."""
        xml = kind == "text/xml"
        body = gzip.compress(body, 1) if xml else body
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Last-Modified", self.date_time_string(0))
        self.send_header("ETag", f'"{hashlib.md5(body).hexdigest()}"')
        if xml:
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if xml:
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        if fault == "trickle":
            for byte in body:
                self.wfile.write(bytes([byte]))
                time.sleep(0.02)
        self.wfile.write(body[: len(body) // 2] if fault in ("cut", "stall") else body)
        self.wfile.flush()
        if fault == "stall":
            self.server.openml.stopped.wait()
        self.close_connection = self.close_connection or fault is not None


def document(root, *elements):
    """XML with one level of elements; values of type bytes are XML already."""
    lines = [f'<oml:{root} xmlns:oml="http://openml.org/openml">']
    for name, value in elements:
        value = value.decode() if isinstance(value, bytes) else escape(str(value))
        lines.append(f"<oml:{name}>{value}</oml:{name}>")
    return "\n".join([*lines, f"</oml:{root}>"]).encode()


def study(number, tasks):
    """A suite of tasks; a suite of runs if ``tasks`` is "runs"."""
    ids = b"".join(b"<oml:task_id>%d</oml:task_id>" % id for id in tasks if tasks != "runs")
    return document(
        "study",
        ("id", number if number.isdigit() else 1),
        ("main_entity_type", "run" if tasks == "runs" else "task"),
        ("name", f"Suite {number}"),
        ("description", "Tables that tests are run on."),
        ("status", "active"),
        ("creation_date", "2020-01-01 00:00:00"),
        ("creator", 1),
        *([("tasks", ids)] if ids else []),
    )


def task(item):
    target = f"<oml:target_feature>{escape(item.target or '')}</oml:target_feature>"
    return f"""<oml:task xmlns:oml="http://openml.org/openml">
<oml:task_id>{item.task}</oml:task_id>
<oml:task_type_id>{KINDS[item.kind]}</oml:task_type_id>
<oml:task_type>{item.kind}</oml:task_type>
<oml:input name="source_data"><oml:data_set>
<oml:data_set_id>{item.data}</oml:data_set_id>
{"" if item.kind == "clustering" else target}
</oml:data_set></oml:input>
<oml:input name="estimation_procedure"><oml:estimation_procedure>
<oml:type>crossvalidation</oml:type>
<oml:data_splits_url>http://127.0.0.1/none.arff</oml:data_splits_url>
<oml:parameter name="number_repeats">1</oml:parameter>
<oml:parameter name="number_folds">10</oml:parameter>
</oml:estimation_procedure></oml:input>
</oml:task>""".encode()


def attributes(item):
    """Yield each column's name and ARFF type: a list of categories, or a word."""
    for name, column in item.frame.items():
        if isinstance(column.dtype, pd.CategoricalDtype):
            yield name, [str(category) for category in column.cat.categories]
        else:
            yield name, "REAL" if column.dtype.kind == "f" else "INTEGER"


def features(item):
    found = []
    for index, (name, kind) in enumerate(attributes(item)):
        values = kind if isinstance(kind, list) else []
        found.append(
            f"<oml:feature><oml:index>{index}</oml:index><oml:name>{escape(name)}</oml:name>"
            f"<oml:data_type>{'nominal' if values else 'numeric'}</oml:data_type>"
            + "".join(f"<oml:nominal_value>{escape(v)}</oml:nominal_value>" for v in values)
            + f"<oml:number_of_missing_values>{item.frame[name].isna().sum()}"
            "</oml:number_of_missing_values></oml:feature>"
        )
    body = "\n".join(found)
    return (
        f'<oml:data_features xmlns:oml="http://openml.org/openml">{body}</oml:data_features>'
    ).encode()


def arff(item):
    import arff

    rows = item.frame.astype(object).where(item.frame.notna(), None)
    rows = [
        [str(v) if isinstance(kind, list) and v is not None else v for v, kind in zip(row, kinds)]
        for kinds in [[kind for _, kind in attributes(item)]]
        for row in rows.to_numpy().tolist()
    ]
    if item.sparse:  # a cell that is not written is 0, or the first category
        empty = [kind[0] if isinstance(kind, list) else 0 for _, kind in attributes(item)]
        rows = [{j: v for j, v in enumerate(row) if v != empty[j]} for row in rows]
    table = {"relation": item.name, "attributes": list(attributes(item)), "data": rows}
    return arff.dumps(table).encode()


def parquet(item):
    buffer = io.BytesIO()
    item.frame.to_parquet(buffer)
    return buffer.getvalue()


# The tables


def frame(load, every=1):
    """A table of scikit-learn with its target as a last column of categories."""
    data = load(as_frame=True)
    labels = pd.Categorical.from_codes(data.target, [str(name) for name in data.target_names])
    return data.data.assign(label=labels).iloc[::every].reset_index(drop=True)


def mixed():
    """Iris with all that OpenML tables may have: gaps, categories, truth values, row ids."""
    table = frame(load_iris)
    length, width = table.pop("petal length (cm)"), table.pop("petal width (cm)")
    size = pd.cut(length, [0, 2, 5, 9], labels=["small", "middle", "it's large"])
    table["petal size"] = size.where(length != 1.4)
    table["wide"] = pd.Categorical((width > 1).astype(str), categories=["True", "False"])
    table["row"] = np.arange(len(table))
    table["remark"] = np.arange(len(table)) % 7
    table.loc[3, "sepal width (cm)"] = np.nan
    table.loc[5, "label"] = np.nan
    return table


def counts():
    """A sparse table: most cells are 0, or the first category."""
    table = pd.DataFrame(np.random.default_rng(0).poisson(0.3, (20, 3)), columns=list("abc"))
    table.loc[2, "a"] = np.nan
    table["kind"] = pd.Categorical(np.where(table["b"] > 0, "some", "none"), ordered=True)
    return table.assign(label=pd.Categorical(["ham", "spam", "ham", "ham"] * 5))


SERVED = [
    Served(1, 11, "iris", frame(load_iris), "label", parquet=True),
    Served(2, 12, "wine", frame(load_wine), "label"),
    Served(3, 13, "cancer", frame(load_breast_cancer, 4), "label", parquet=True),
    Served(4, 14, "mixed", mixed(), "label", row_id="row", ignore=("remark", "nothing")),
    Served(5, 15, "mixed", mixed(), "label", version=2, parquet=True, row_id="row"),
    Served(6, 16, "diabetes", load_diabetes(as_frame=True).frame, "target", "regression"),
    Served(7, 17, "untargeted", frame(load_iris, 9), None),
    Served(8, 18, "groups", frame(load_iris, 9), None, "clustering"),
    Served(9, 19, "misnamed", frame(load_iris, 9), "class"),
    Served(10, 20, "unlabelled", frame(load_iris, 9).assign(label=np.nan), "label"),
    Served(11, 21, "alone", frame(load_iris, 9)[["label"]], "label"),
    Served(12, 22, "sparse", counts(), "label", sparse=True),
    Served(13, 23, "mixed-5", frame(load_iris, 9), "label"),
]
SUITES = {"99": [1, 2, 3], "three-tables": [1, 2, 3], "1": "runs", "2": []}

"""A Hugging Face hub on 127.0.0.1 that keeps repositories in memory and serves the real client.

It serves the files of a revision (HEAD and GET of ``/owner/name/resolve/revision/file``; large
files are redirected to a content store) and the commit of a branch, and accepts commits of small
files.
"""

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


class Repository:
    """Commits map file names to bytes; branches and tags point to a commit."""

    def __init__(self):
        self.commits = {}
        self.refs = {}

    def commit(self, files, branch="main"):
        """Add files to a branch and return the hash of the commit."""
        tree = {**self.commits.get(self.refs.get(branch), {}), **files}
        digest = hashlib.sha1(repr((len(self.commits), sorted(tree.items()))).encode())
        self.refs[branch] = digest.hexdigest()
        self.commits[self.refs[branch]] = tree
        return self.refs[branch]

    def resolve(self, revision):
        commit = self.refs.get(revision, revision)
        return commit if commit in self.commits else None


class Hub:
    """The server; ``with Hub() as hub`` runs it at ``hub.url``.

    ``repositories`` maps "owner/name" to a Repository. ``requests`` lists (method, path) of all
    requests so far. If ``broken`` is set, requests whose path ends in ``broken_files`` (by default
    all) are answered with that status and with ``reason`` in the header. The next ``busy`` requests
    are answered with 503.
    """

    def __init__(self):
        self.repositories, self.requests, self.broken = {}, [], None
        self.broken_files, self.reason, self.busy = "", None, 0
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.hub, self.server.daemon_threads = self, True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body waits 40 ms until its headers are acknowledged

    def do_GET(self):
        self.answer_or_refuse(self.file, self.stored, self.branch)

    def do_HEAD(self):
        self.answer_or_refuse(self.file, self.stored)

    def do_POST(self):
        self.body = self.read_body()
        self.answer_or_refuse(self.upload_modes, self.new_commit)

    def answer_or_refuse(self, *views):
        hub, path = self.server.hub, self.path.partition("?")[0]
        hub.requests.append((self.command, path))
        if hub.broken and path.endswith(hub.broken_files):
            return self.reply(hub.broken, {"X-Error-Code": hub.reason} if hub.reason else {})
        if hub.busy:
            hub.busy -= 1
            return self.reply(503)
        for view in views:
            if match := re.fullmatch(ROUTES[view.__name__], path):
                return view(**{key: unquote(value) for key, value in match.groupdict().items()})
        return self.reply(404)

    def tree(self, repo, revision):
        """Return the commit and its files, or None after replying with what is missing."""
        repository = self.server.hub.repositories.get(repo)
        if repository is None:  # as the real hub, which does not reveal private repositories
            return self.reply(401, {"X-Error-Code": "RepoNotFound"})
        commit = repository.resolve(revision)
        if commit is None:
            return self.reply(404, {"X-Error-Code": "RevisionNotFound"})
        return commit, repository.commits[commit]

    def file(self, repo, revision, name):
        if (found := self.tree(repo, revision)) is None:
            return
        commit, tree = found
        headers = {"X-Repo-Commit": commit}
        if name not in tree:
            return self.reply(404, {**headers, "X-Error-Code": "EntryNotFound"})
        content = tree[name]
        if not name.endswith(".safetensors"):
            return self.reply(200, {**headers, "ETag": f'"{blob_id(content)}"'}, content)
        digest = hashlib.sha256(content).hexdigest()
        headers |= {"X-Linked-ETag": f'"{digest}"', "X-Linked-Size": str(len(content))}
        store = self.server.hub.url.replace("127.0.0.1", "localhost")  # another host, as on the hub
        self.reply(302, {**headers, "Location": f"{store}/store/{digest}"})

    def stored(self, digest):
        for repository in self.server.hub.repositories.values():
            for content in (c for tree in repository.commits.values() for c in tree.values()):
                if hashlib.sha256(content).hexdigest() == digest:
                    return self.reply(200, {"ETag": f'"{digest}"'}, content)
        self.reply(404)

    def branch(self, repo, revision):
        if found := self.tree(repo, revision):
            self.reply_json({"id": repo, "sha": found[0], "siblings": []})

    def upload_modes(self, repo, revision):
        if (found := self.tree(repo, revision)) is None:
            return
        modes = [
            {"path": name, "uploadMode": "regular", "shouldIgnore": False, "oid": oid}
            for name in (file["path"] for file in json.loads(self.body)["files"])
            for oid in [blob_id(found[1][name]) if name in found[1] else None]
        ]
        self.reply_json({"files": modes})

    def new_commit(self, repo, revision):
        lines = [json.loads(line) for line in self.body.splitlines()]
        files = {
            line["value"]["path"]: base64.b64decode(line["value"]["content"])
            for line in lines
            if line["key"] == "file"
        }
        commit = self.server.hub.repositories[repo].commit(files, revision)
        url = f"{self.server.hub.url}/{repo}/commit/{commit}"
        self.reply_json({"success": True, "commitOid": commit, "commitUrl": url})

    def read_body(self):
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def reply_json(self, answer):
        self.reply(200, {"Content-Type": "application/json"}, json.dumps(answer).encode())

    def reply(self, status, headers=(), content=b""):
        self.send_response(status)
        for name, value in {**dict(headers), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *arguments):
        pass


def blob_id(content):
    """Git's hash of a file with this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


REPO = r"(?P<repo>[^/]+/[^/]+)"
ROUTES = {
    "file": rf"/{REPO}/resolve/(?P<revision>[^/]+)/(?P<name>.+)",
    "stored": r"/store/(?P<digest>\w+)",
    "branch": rf"/api/models/{REPO}/revision/(?P<revision>[^/]+)",
    "upload_modes": rf"/api/models/{REPO}/preupload/(?P<revision>[^/]+)",
    "new_commit": rf"/api/models/{REPO}/commit/(?P<revision>[^/]+)",
}

"""Fetch and upload files of Hugging Face hub repositories, in each call at one commit.

Only this file uses ``huggingface_hub``. It imports it when needed, and asks for files by name:
nothing else of a repository is fetched, and nothing is run.
"""

import os
import re
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

PREFIX = "hub:"
_ID = re.compile(r"(hub:)?(?P<repo>\w[\w.-]*/\w[\w.-]*)(@(?P<revision>\S+))?", re.ASCII)


class HubId(NamedTuple):
    """A repository and a branch, tag or commit of it; None means the branch ``main``."""

    repo: str
    revision: str | None = None

    @property
    def meant(self):
        """The branch, tag or commit; "main" if ``revision`` is None."""
        return self.revision or "main"

    def __str__(self):
        return PREFIX + self.repo + (f"@{self.revision}" if self.revision else "")


def as_hub_id(name):
    """Read ``[hub:]owner/name[@revision]``.

    Parameters
    ----------
    name : object

    Returns
    -------
    HubId or None
        None if ``name`` is not a string or has another form, or if it has no prefix and ends in
        ``.safetensors``, as files of weights do.

    Raises
    ------
    ValueError
        If what follows the prefix ``hub:`` is no id.
    """
    if not isinstance(name, str):
        return None
    match = _ID.fullmatch(name)
    if name.startswith(PREFIX):
        if match is None:
            raise ValueError(
                f"{name!r} is not a hub id: it must be 'hub:owner/name' or "
                "'hub:owner/name@revision'."
            )
    elif match is None or name.endswith(".safetensors"):
        return None
    return HubId(match["repo"], match["revision"])


def fetch(hub_id, names, *, cache_dir=None, local_files_only=False, guessed=False):
    """Fetch files of one commit into the cache of ``huggingface_hub``.

    The environment variables of that package apply (``HF_HUB_OFFLINE``, ``HF_ENDPOINT``,
    ``HF_HOME`` and the others), and so do its login and token.

    Parameters
    ----------
    hub_id : HubId
        Without a revision, the branch ``main`` is fetched.
    names : sequence of str
        Files of the repository.
    cache_dir : path, default=None
        Folder of the cache; the client's usual one if None.
    local_files_only : bool, default=False
        Whether to use the cache only, without asking the hub.
    guessed : bool, default=False
        Whether the id may be a mistyped path. A hub that cannot be reached is then asked only once.

    Returns
    -------
    pathlib.Path
        The folder with the files. Its name is the hash of their commit.

    Raises
    ------
    ImportError
        If ``huggingface_hub`` is not installed.
    ValueError
        If there is no such repository, revision or file.
    OSError
        If the hub cannot or must not be reached, and the cache does not have the files.
    """
    with _errors_that_say_what_to_do(hub_id, "fetch it") as client:
        if guessed and not local_files_only:
            _ask_once(client, hub_id, names[0], cache_dir)
        download = partial(
            client.hf_hub_download,
            hub_id.repo,
            cache_dir=cache_dir,
            local_files_only=local_files_only,
            library_name="sklearn_meta",
        )
        # Download by commit: all files match even if the branch moves in between. Asked for a
        # branch, the client would record its commit before the download; `note` does so later.
        commit = download(names[0], revision=hub_id.meant, dry_run=True).commit_hash
        return Path([download(name, revision=commit) for name in names][0]).parent


def note(hub_id, folder):
    """Record in the cache that a branch or tag is at the commit of a folder.

    Without a connection, that commit is loaded; so call this only for files found to be sound. If
    the cache cannot be written, nothing happens.

    Parameters
    ----------
    hub_id : HubId
    folder : pathlib.Path
        As :func:`fetch` returned it.
    """
    if hub_id.meant == folder.name:
        return
    ref = folder.parents[1] / "refs" / hub_id.meant
    if ref.is_file() and ref.read_text("utf-8") == folder.name:
        return
    with suppress(OSError):  # a read-only cache
        ref.parent.mkdir(parents=True, exist_ok=True)
        written = ref.with_name(f"{ref.name}.{os.getpid()}.tmp")
        written.write_text(folder.name, "utf-8")
        written.replace(ref)


def _ask_once(client, hub_id, name, cache_dir):
    """Raise the client's error if the hub cannot be reached, without its half minute of retries."""
    file = {"repo_id": hub_id.repo, "filename": name, "revision": hub_id.revision}
    if isinstance(client.try_to_load_from_cache(**file, cache_dir=cache_dir), str):
        return
    url = client.hf_hub_url(**file)
    try:
        client.get_hf_file_metadata(url, library_name="sklearn_meta")
    except (client.errors.HfHubHTTPError, client.errors.OfflineModeIsEnabled):
        return  # the client reports these, or retries where the answer makes that worthwhile
    except Exception as error:
        raise client.errors.LocalEntryNotFoundError(str(error)) from error


def upload(hub_id, files, message):
    """Put files into a repository, all of them in one commit.

    Parameters
    ----------
    hub_id : HubId
        A repository that exists; a revision is the branch to commit to.
    files : dict of str to bytes
    message : str
        Commit message.

    Returns
    -------
    HubId
        The id with the hash of the commit.

    Raises
    ------
    ImportError, ValueError, OSError
        As in :func:`fetch`, and if the account may not write there.
    """
    with _errors_that_say_what_to_do(hub_id, "write to it") as client:
        info = client.HfApi(library_name="sklearn_meta").create_commit(
            hub_id.repo,
            [client.CommitOperationAdd(name, content) for name, content in files.items()],
            revision=hub_id.revision,
            commit_message=message,
        )
    return hub_id._replace(revision=info.oid)


@contextmanager
def _errors_that_say_what_to_do(hub_id, aim):
    """Yield the client, and turn its errors into ValueError or OSError with advice."""
    try:
        import huggingface_hub as client
        from huggingface_hub import errors
    except ImportError as error:
        raise ImportError(
            f"{hub_id} is a repository of the Hugging Face hub (and not an existing path): to "
            f'{aim} requires huggingface_hub. Run: pip install "sklearn_meta[hub]"'
        ) from error
    try:
        yield client
    except errors.GatedRepoError as error:  # a subclass of the next
        raise ValueError(
            f"Repository {hub_id.repo!r} is gated, and this account may not read it: ask for "
            f"access at {client.constants.ENDPOINT}/{hub_id.repo}, then log in with `hf auth "
            "login`."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ValueError(
            f"No repository {hub_id.repo!r} on {client.constants.ENDPOINT}, or a private one that "
            "this account may not read. Check the name (there is no path of that name here, "
            "either), create it with `hf repo create`, or log in with `hf auth login`."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ValueError(
            f"Repository {hub_id.repo!r} has no branch, tag or commit "
            f"{hub_id.meant!r}. Leave the revision out for the newest, or give a "
            "full commit hash."
        ) from error
    except errors.LocalEntryNotFoundError as error:
        cause = error.__cause__
        if cause is None or isinstance(cause, errors.OfflineModeIsEnabled):
            why = "may not be contacted (HF_HUB_OFFLINE, local_files_only)"
        else:
            why = f"fails: {cause}"
        raise FileNotFoundError(
            f"{hub_id} is not in the cache, and the hub {why}. There is no path of that name here, "
            "either. Fetch it once with a connection, and with an account that may read it (`hf "
            "auth login`); after that it loads without either."
        ) from error
    except errors.EntryNotFoundError as error:
        raise ValueError(
            f"Repository {hub_id.repo!r} holds no weights of this package, as save_pretrained "
            f"writes them: {error}"
        ) from error
    except errors.HFValidationError as error:
        raise ValueError(f"{hub_id} is not a hub id: {error}") from error
    # The client passes on errors of its HTTP library, and that library differs between versions.
    except Exception as error:
        raise OSError(
            f"{hub_id}: could not {aim} ({error}). Check the connection, the permissions of this "
            "account and the disk space, then try again."
        ) from error

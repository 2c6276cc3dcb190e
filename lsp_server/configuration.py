"""The settings in a server's life: learnt at the start, asked for again, and put to use when they change.

A client that can be asked is asked for its section "draftline" once it is initialized, and whenever it says
that something has changed there; of another, what it sends counts. Files of settings are looked at when a
suggestion is requested.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.uris import to_fs_path

from lsp_server.context import ContextSource
from lsp_server.exclusions import Exclusions
from lsp_server.hosted import remote_engine
from lsp_server.load_progress import drop_spare, load, wake
from lsp_server.prompt_budget import Budget
from lsp_server.settings import Settings
from lsp_server.status import tell_status

if TYPE_CHECKING:
    from lsp_server.server import DraftlineServer

_SECONDS = 5.0  # that a client has to say what is set, before we go on without
_CONTEXT = ("repository", "exclude", "cross_file", "context_tokens")

logger = logging.getLogger(__name__)


def learn(ls: DraftlineServer, params: types.InitializeParams) -> None:
    """Take what ``initialize`` tells: the folder, whether it is trusted, and the editor's own settings."""
    uris = [folder.uri for folder in params.workspace_folders or []]
    ls.folder = next((path for uri in [*uris, params.root_uri] if uri and (path := to_fs_path(uri))), None)
    given = params.initialization_options
    options = dict(given) if isinstance(given, dict) else {}
    ls.tells_status = options.pop("statusNotifications", None) is True
    trusted = options.pop("workspaceTrusted", None) is True
    ls.sources.trust(Path(ls.folder).absolute() if ls.folder and trusted else None)
    ls.sources.set_options(options)


async def begin(ls: DraftlineServer) -> None:
    """Ask what is set, put it to use, and load the model."""
    await _ask(ls)
    apply(ls)
    registration = types.Registration(
        "draftline.settings",
        types.WORKSPACE_DID_CHANGE_CONFIGURATION,
        types.DidChangeConfigurationRegistrationOptions(section="draftline"),
    )
    workspace = ls.client_capabilities.workspace
    changes = workspace.did_change_configuration if workspace else None
    if changes and changes.dynamic_registration:
        ls.client_register_capability(types.RegistrationParams([registration]))


async def changed(ls: DraftlineServer, params: types.DidChangeConfigurationParams) -> None:
    """The client says that something may be set otherwise."""
    if not await _ask(ls):
        ls.sources.set_configuration(params.settings)
    apply(ls)


def look(ls: DraftlineServer, uri: str, invoked: bool) -> None:
    """A suggestion is asked for: use what has changed in files, and bring a model back that is gone."""
    if ls.sources.changed():
        apply(ls)
    if wanted(ls, uri, invoked):
        wake(ls)


async def _ask(ls: DraftlineServer) -> bool:
    """Ask the client what is set, if it can be asked; gives whether it could."""
    workspace = ls.client_capabilities.workspace
    if not (workspace and workspace.configuration):
        return False
    params = types.ConfigurationParams([types.ConfigurationItem(section="draftline")])
    try:
        answer = await asyncio.wait_for(ls.workspace_configuration_async(params), _SECONDS)
    except Exception as error:  # whatever a client's error is made into
        logger.warning("the editor did not say what is set: %s", type(error).__name__)
    else:
        ls.sources.set_configuration(next(iter(answer or ()), None))
    return True


def apply(ls: DraftlineServer) -> None:
    """Go by what is set now; only what has changed is done anew."""
    merged = ls.sources.merged()
    for sentence in merged.wrong:
        ls.tell(sentence, types.MessageType.Warning)
    for sentence in merged.unknown:
        ls.log_once(sentence)
    chosen = merged.settings
    if chosen.repository is None:
        chosen = replace(chosen, repository=ls.folder)
    if not chosen.loads_like(ls.chosen):
        ls.instead = {}
    ls.chosen = chosen
    use(ls, replace(chosen, **ls.instead))


def use(ls: DraftlineServer, settings: Settings) -> None:
    before, ls.settings = ls.settings, settings
    if before != settings:
        ls.completions.use(settings)
    if any(getattr(before, name) != getattr(settings, name) for name in _CONTEXT):
        _follow_anew(ls)
    shared = remote_engine(ls.engine.worker) is not None
    other_idle = shared and settings.idle_minutes != ls.loaded.idle_minutes  # the host is to hear of it
    if settings.enabled and (ls.engine.state == "new" or not settings.loads_like(ls.loaded) or other_idle):
        ls.loaded = settings
        ls.completions.start(load(ls))
    if not settings.enabled:
        drop_spare(ls)
    tell_status(ls)


def _follow_anew(ls: DraftlineServer) -> None:
    """Begin anew to follow what is open: what was read or chosen by other settings is forgotten."""
    settings = ls.settings
    root = Path(settings.repository).absolute() if settings.repository else None
    ls.exclusions = Exclusions(root, settings.exclude)
    ls.context = ContextSource(
        root,
        exclusions=ls.exclusions,
        cross_file=settings.cross_file,
        budget=Budget.of(settings.context_tokens),
    )
    for uri, document in ls.documents.items():
        ls.context.opened(uri, document)


def wanted(ls: DraftlineServer, uri: str, invoked: bool) -> bool:
    """Whether there may be suggestions in a document; invoked: the user asks for one."""
    settings, document = ls.settings, ls.documents.get(uri)
    if document is None or not settings.enabled or not settings.speaks(document.language):
        return False
    on_request = settings.trigger == "manual" or (settings.pause_on_battery and ls.battery.in_use)
    return (invoked or not on_request) and not ls.exclusions.cover(uri)

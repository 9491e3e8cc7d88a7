"""Makes the last decided checkpoint the content of all stores of a directory that no run uses, and puts into each what
its log has. Everything else that is done between two runs begins here.

Every step may be interrupted, and the next call completes it (F56). Logs that were not synced, as with
durability="process", are torn at different places by a loss of power. Then none of them is redone, and all stores go
back to the decided checkpoint. Before one of them is redone, all of them are made durable: else the next loss of power
could send back only the others. Must not know what moves between stores, nor what a run is.
"""

from collections.abc import Iterable, Mapping

from topology.codes.startup import OLDER_STATE_NOT_DRAINED, STATE_LOSS_ACCEPTED
from topology.errors import StartError
from topology.storage.directory.decision import NAME, decided_in, known_in
from topology.storage.directory.state_dir import StateDir
from topology.storage.encoding.entries import NamedEntry, named, packed_named
from topology.storage.log.opening import log_paths
from topology.storage.sqlite.schema import FORMAT
from topology.storage.sqlite.store import SqliteStore
from topology.storage.store import StoreBroken
from topology.storage.values import Changes, EntryRow
from topology.storage.worker_store import fold, is_behind, log_path, refuse_older, remove_log, settle_log, start_errors


def resolve(state: StateDir, stores: Mapping[int, SqliteStore], *, accept_loss: bool = False) -> tuple[int, list[str]]:
    """Resolve all stores of the directory. Return the number of the decided checkpoint, which all of them have then,
    and each accepted loss as a sentence. Writes nothing if there is nothing to do.

    Raises StartError; also for stores of an older format, unless nothing was in flight when the last run ended.
    """
    _upgrade(state, stores)
    decided = decided_in(state.files, state.path, stores.values(), accept_loss=accept_loss)
    lost = [*_without_decision(state, stores, decided), *_without_lost(state, stores, decided, accept_loss=accept_loss)]
    for store in stores.values():
        with start_errors(store.path):
            store.resolve(decided)
    if state.has_torn_logs:
        for store in stores.values():
            _drop_log(state, store)
    elif state.has_unsynced_logs:
        for store in stores.values():
            settle_log(state.files, store)
    state.set_logs_durable()
    for store in stores.values():
        with start_errors(store.path):
            fold(state.files, store)
            store.end_run()
    return decided, lost


def _drop_log(state: StateDir, store: SqliteStore) -> None:
    with start_errors(store.path):
        if store.has_log:
            store.replace(Changes(), ends_log=True)
        remove_log(state.files, store.path)


def _without_decision(state: StateDir, stores: Mapping[int, SqliteStore], decided: int) -> list[str]:
    """Return a sentence if it was accepted that no file says of a checkpoint whether it is decided."""
    unknown = max((store.prepared for store in stores.values()), default=0)
    known = known_in(state.files, state.path)
    if unknown <= decided or known >= max((store.checkpoint for store in stores.values()), default=0):
        return []
    how = "is missing" if known < 0 else f"is an older copy, of checkpoint {known}"
    what = f"the file {NAME} {how}, so checkpoint {unknown} is lost if it was decided"
    return [f"--accept-loss: {what} ({STATE_LOSS_ACCEPTED})"]


def _without_lost(state: StateDir, stores: Mapping[int, SqliteStore], decided: int, *, accept_loss: bool) -> list[str]:
    """Go on without what is lost, if that is accepted; return each loss as a sentence. Raises StartError."""
    lost = []
    for store in stores.values():
        paths = log_paths(log_path(store.path))
        if is_behind(store, decided):
            if not accept_loss:
                refuse_older(store, decided)
            name = store.path.name
            what = f"{name} is an older copy, of checkpoint {store.checkpoint:,}, so everything after it is lost"
        elif accept_loss and store.has_log and all(state.files.look(path) is None for path in paths):
            what = f"the log {paths[0].stem} is missing, so the changes in it since the last checkpoint are lost"
        else:
            continue
        _drop_log(state, store)
        lost.append(f"--accept-loss: {what} ({STATE_LOSS_ACCEPTED})")
    return lost


# -- older formats


def _upgrade(state: StateDir, stores: Mapping[int, SqliteStore]) -> None:
    """Give stores the present format. Inputs that an older format remembers after a clean end are kept only if they may
    come again: those of dead letters, which may be in any store; those for several messages, of which it is unknown
    which one is dead; and emissions of a timer. Raises StartError."""
    older = [store for store in stores.values() if store.format < FORMAT]
    if not older:
        return
    if not state.clean:
        text = f"{older[0].path} has format {older[0].format}, and the last run was interrupted"
        raise StartError(text, code=OLDER_STATE_NOT_DRAINED)
    dead = {origin for store in stores.values() for origin in store.loaded.dead_origins}

    def stays(one: NamedEntry) -> bool:
        entry = one.entry
        return entry.timer or entry.origin in dead or (bool(dead) and len(entry.messages) > 1)

    for store in older:
        with start_errors(store.path):
            try:
                rows = [
                    EntryRow(row.component, data)
                    for row in store.entries()
                    for data in _again(entry for entry in named(row.entries) if stays(entry))
                ]
            except ValueError as error:
                raise StoreBroken(f"{store.path} is damaged: {error}", store.path) from error
            store.replace(Changes(), entries=rows)


def _again(entries: Iterable[NamedEntry]) -> Iterable[bytes]:
    """Return rows of entries whose messages were those of an earlier run, and may be another's now."""
    return packed_named(known._replace(entry=known.entry._replace(messages=())) for known in entries)

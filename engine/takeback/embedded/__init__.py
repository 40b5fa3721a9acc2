"""Embedded Postgres: a server of one's own, shared by the processes that name one directory.

    with acquire(directory) as server:
        connect(server.url)

The first client starts the server, the last one out stops it, and a client that was killed counts
as out. Everything the room does is in one of these:

    client      acquire, Server, stop, discard: what callers use
    keeper      the small process that starts the server and ends it after the last client
    postmaster  one running server: started, taken over or ended
    cluster     the data directory: made whole or not at all
    site        which file lies where, and who may own it
    account     as whom the server runs, and what that account can reach
    binaries    which Postgres programs are run
    probe       whether the server answers on its socket
    lock        flock, which the kernel drops for the dead
    refusal     how a reason is worded

Lock order: gate, then a client's file, then keeper, then server. Whoever holds one of these never
waits for an earlier one, except the keeper: it waits for the gate holding its own lock, and nobody
who holds the gate waits for the keeper's lock, they only look whether it is held.
"""

from takeback.embedded.client import Server, acquire, default_directory, discard, stop

__all__ = ["Server", "acquire", "default_directory", "discard", "stop"]

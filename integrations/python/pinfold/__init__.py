"""Sandboxes for coding agents, by pinfold's local API.

    import pinfold

    with pinfold.Client() as client, client.start("/home/me/src/app") as session:
        done = session.run(["make", "test"])
        print(done.status, done.stdout.decode())

`pinfold.aio` has the same for asyncio. Every method of the API is there as `call`
(docs/guides/api.md).
"""

from ._messages import ApiError, Completed, Entry, ExecLimits, Output, PinfoldError
from .client import Client, Process, Session

__all__ = [
    "ApiError",
    "Client",
    "Completed",
    "Entry",
    "ExecLimits",
    "Output",
    "PinfoldError",
    "Process",
    "Session",
]

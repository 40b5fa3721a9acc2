"""What each process of a crowd does: calls a row that has a limit, and carries out what is due."""

import dataclasses

from takeback.client.batching import Call
from takeback.declare import BLIND, Limit, Remote, Tool, hours
from tests.dispatch.office import Office, World, row

BOUND = 60


FREE: Tool = row("send_letter", Remote(upstream=BLIND))
LIMITED: Tool = dataclasses.replace(FREE, limits=(Limit(count=BOUND, per=hours(1)),))


def call_and_work(url: str, name: str, calls: int) -> list[str]:
    """To whom this process has sent a letter, of all that there were.

    The calls are recorded by a release that knows of no limit: all of them are due.
    """
    world = World()
    before = Office(url, world, rows=[FREE])
    before.call_many(
        None, [Call(tool="send_letter", arguments={"to": f"{name}-{n}"}) for n in range(calls)]
    )
    before.close()
    office = Office(url, world, rows=[LIMITED])
    office.worker_of(name).run(drain=True)
    office.close()
    return [one.to for one in world.effects]

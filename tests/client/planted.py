"""A driver's connection that raises what is planted in it, instead of asking the server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import psycopg
from sqlalchemy import event

from takeback import Takeback


@dataclass(slots=True)
class Plant:
    """What the next statements of an app's own connections end in."""

    waiting: list[BaseException | None] = field(default_factory=list)

    def put(self, problem: BaseException, *, after: int = 0) -> None:
        """Plants ``problem``, for the statement that comes after so many others."""
        self.waiting = [*[None] * after, problem]

    def pull(self) -> None:
        """Raises what is planted for the statement that is about to be said."""
        if self.waiting and (problem := self.waiting.pop(0)) is not None:
            raise problem


def planted(app: Takeback) -> Plant:
    """Has every connection that the app opens from here on look at ``Plant`` first."""
    plant = Plant()

    class Connection(psycopg.Connection[Any]):
        """A transaction is ended as ever; only statements are kept from the server."""

        def wait(self, gen: Any, *given: Any, **said: Any) -> Any:
            if gen.__name__ == "_execute_gen":
                plant.pull()
            return super().wait(gen, *given, **said)

    def connect(_dialect: Any, _record: Any, given: Any, said: Any) -> Any:
        return Connection.connect(*given, **said)

    for engine in app.context.database.engines:
        event.listen(engine, "do_connect", connect)
    app.list()
    return plant

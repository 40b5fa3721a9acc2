"""Round what is not ours: an app's own code that a command runs."""

from __future__ import annotations

from types import TracebackType

from takeback.model.errors import TakebackError


class ForeignFailed(TakebackError):
    """Code of the app failed; the message says which and how."""

    code = "internal_error"


class Foreign:
    """Says in one sentence how the code in the block failed, unless it is one of our own errors."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, TakebackError):
            said = getattr(error, "orig", None) or error
            text = " ".join(str(said).split())
            raise ForeignFailed(f"{self._what}: {type(said).__name__}: {text}") from error

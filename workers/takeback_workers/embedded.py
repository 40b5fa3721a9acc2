"""The embedded worker as a program: ``python -m takeback_workers.embedded [--drain]``.

It is ``takeback worker`` under a name that a process manager can call without the script: the same
options, log, signals and exit codes.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from takeback.cli.main import main as run_command_line


def main() -> NoReturn:
    """Runs until it is stopped, or with --drain until all is done."""
    sys.argv[1:] = ["worker", *sys.argv[1:]]
    run_command_line()


if __name__ == "__main__":
    main()

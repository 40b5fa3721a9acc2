"""Declaring tools loads nothing that runs (S4.6)."""

import subprocess
import sys

BLOCKED = ("alembic", "dramatiq", "psycopg", "rfc8785", "sqlalchemy", "structlog", "typer")

LOAD_WITHOUT = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED!r}:
            raise ImportError(f"{{name}} is blocked")

sys.meta_path.insert(0, Blocker())
from takeback.declare import Catalog, Money, Read, Remote, Tool
from pydantic import BaseModel

class Nothing(BaseModel):
    pass

assert len(Catalog(Tool("look", Nothing, effect=Read(), description="Looks."))) == 1
rooms = {{name.split(".")[1] for name in sys.modules if name.startswith("takeback.")}}
print(sorted(rooms))
"""


def test_a_declaration_loads_with_every_runtime_package_blocked():
    """S4.6."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD_WITHOUT], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.strip() == "['declare']"

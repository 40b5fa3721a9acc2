"""SQL and transactions: what a statement is written as, and who ends what is open."""

import ast
import re
from collections.abc import Iterator

from tests.tidy.source import Finding, Function, Rule, Source, Sources, functions

SQL_START = re.compile(
    r"\s*(ALTER|CALL|COPY|CREATE|DELETE|DROP|EXPLAIN|GRANT|INSERT|LISTEN|LOCK|MERGE|NOTIFY|REVOKE"
    r"|SELECT|SET|TRUNCATE|UPDATE|VACUUM|WITH)\s"
)
STAR = re.compile(r"\b(?:SELECT|RETURNING)\s+(?:(\w+)\.)?\*", re.IGNORECASE)
# A star over what the same statement has just named says no less than the names.
NAMED_BEFORE = re.compile(r"(\w+)(?:\s*\([^)]*\))?\s+AS\s+(?:NOT\s+)?(?:MATERIALIZED\s+)?\(")
# These open transactions, so they end them.
LEDGER_TRANSACTION_MODULES = ("takeback.ledger.pool", "takeback.ledger.transaction")
EXECUTING = ("execute", "executemany", "scalar", "scalars", "stream")


def no_sql_is_put_together_from_pieces(sources: Sources) -> Iterator[Finding]:
    """A constant may be: `{COLUMNS}`, in capitals, is the same at every call."""
    for source in sources:
        if source.is_engine or (source.is_code and source.path.startswith("workers/")):
            for node in ast.walk(source.tree):
                if isinstance(node, ast.expr) and is_sql(pieced(node)):
                    what = "SQL put together from pieces; bind values, quote names"
                    yield Finding(source.path, node.lineno, what)


def pieced(node: ast.expr) -> ast.expr | None:
    """The first piece of a string that is put together when it is used, by whichever means."""
    match node:
        case ast.JoinedStr(values=[first, *rest]) if not all(map(is_constant, rest)):
            return first
        case ast.BinOp(op=ast.Add() | ast.Mod(), left=left, right=right) if not is_constant(right):
            return left
        case ast.Call(func=ast.Attribute(value=value, attr="format" | "replace")):
            return value
    return None


def is_constant(node: ast.expr) -> bool:
    match node:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return name.isupper()
        case ast.FormattedValue(value=value):
            return is_constant(value)
    return False


def is_sql(node: ast.AST | None) -> bool:
    match node:
        case ast.Constant(value=str(text)):
            return bool(SQL_START.match(text))
    return False


def every_column_is_named(sources: Sources) -> Iterator[Finding]:
    for source in sources:
        if source.is_engine:
            for text, line in statements(source.tree):
                named = set(NAMED_BEFORE.findall(text))
                if any(star.group(1) not in named for star in STAR.finditer(text)):
                    yield Finding(source.path, line, "names no columns")


def statements(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every string that is no docstring; one with holes as a whole."""
    seen = set(docstring_nodes(tree))
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr(values=pieces):
                constants = [piece for piece in pieces if isinstance(piece, ast.Constant)]
                seen.update(constants)
                yield " ".join(str(constant.value) for constant in constants), node.lineno
            case ast.Constant(value=str(text)) if node not in seen:
                yield text, node.lineno


def docstring_nodes(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | Function):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str()) as constant), *_]:
                    yield constant


def ledger_functions_take_the_transaction_first(sources: Sources) -> Iterator[Finding]:
    for source in sources:
        if in_ledger(source):
            for function in functions(source.tree):
                names = [argument.arg for argument in function.args.posonlyargs]
                names += [argument.arg for argument in function.args.args]
                first = next((name for name in names if name not in ("self", "cls")), None)
                keywords = [argument.arg for argument in function.args.kwonlyargs]
                takes = "tx" in names or "tx" in keywords or executes(function)
                if takes and first != "tx":
                    what = f"{function.name} runs statements, so its first argument is `tx`"
                    yield Finding(source.path, function.lineno, what)


def executes(function: Function) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in EXECUTING
        for node in ast.walk(function)
    )


def the_ledger_ends_no_transaction(sources: Sources) -> Iterator[Finding]:
    for source in sources:
        if in_ledger(source):
            for node in ast.walk(source.tree):
                match node:
                    case ast.Call(func=ast.Attribute(attr="commit" | "rollback" as ending)):
                        what = f"{ending}: who opens a transaction ends it"
                        yield Finding(source.path, node.lineno, what)


def in_ledger(source: Source) -> bool:
    return (
        source.path.startswith("engine/takeback/ledger/")
        and source.path.endswith(".py")
        and source.module not in LEDGER_TRANSACTION_MODULES
    )


_LEDGER = "engine/takeback/ledger/a.py"

RULES = (
    Rule(
        find=no_sql_is_put_together_from_pieces,
        bad=[
            {_LEDGER: "x = f'SELECT id FROM {table}'\n"},
            {_LEDGER: "x = f'''\n  UPDATE t SET a = {a}'''\n"},
            {_LEDGER: "x = 'DELETE FROM ' + table\n"},
            {_LEDGER: "x = 'SELECT %s ' % column\n"},
            {_LEDGER: "x = 'INSERT INTO {} '.format(table)\n"},
            {"workers/takeback_workers/a.py": "x = f'NOTIFY {channel}'\n"},
        ],
        good=[
            {_LEDGER: "x = text('SELECT id FROM t WHERE id = :id')\n"},
            {_LEDGER: "x = sql.SQL('DROP DATABASE {} ').format(sql.Identifier(name))\n"},
            {_LEDGER: "x = f'{count} rows were selected'\n"},
            {_LEDGER: "x = f'SELECT {COLUMNS} FROM t'\n"},
            {"tests/test_a.py": "x = f'SELECT {column} FROM t'\n"},
        ],
    ),
    Rule(
        find=every_column_is_named,
        bad=[
            {_LEDGER: "x = 'SELECT * FROM t'\n"},
            {_LEDGER: "x = 'INSERT INTO t VALUES (1) returning t.*'\n"},
            {_LEDGER: "x = f'WITH a AS (SELECT 1) SELECT t.* FROM {TABLE} AS t'\n"},
        ],
        good=[
            {_LEDGER: '"""Why SELECT * is not written here."""\nx = "SELECT count(*) FROM t"\n'},
            {_LEDGER: "x = f'WITH a AS MATERIALIZED (SELECT {COLUMNS} FROM t) SELECT a.* FROM a'"},
        ],
    ),
    Rule(
        find=ledger_functions_take_the_transaction_first,
        bad=[
            {_LEDGER: "def find(ref, tx):\n    pass\n"},
            {_LEDGER: "def find(ref, *, tx):\n    pass\n"},
            {_LEDGER: "def find(connection):\n    connection.execute(FIND)\n"},
            {_LEDGER: "class A:\n    async def f(self, ref, tx):\n        pass\n"},
        ],
        good=[
            {_LEDGER: "def find(tx, ref):\n    tx.execute(FIND)\ndef pure(row):\n    return row\n"},
            {"engine/takeback/ledger/pool.py": "def f(url):\n    connect(url).execute('x')\n"},
        ],
    ),
    Rule(
        find=the_ledger_ends_no_transaction,
        bad=[
            {_LEDGER: "def f(tx):\n    tx.commit()\n"},
            {_LEDGER: "def f(tx):\n    tx.connection.rollback()\n"},
        ],
        good=[{"engine/takeback/ledger/transaction.py": "def f(tx):\n    tx.commit()\n"}],
    ),
)

"""Running what documents show, and holding what it prints against what they say it prints.

print(mail.status)  # scheduled         the comment is the line that is printed
print(mail.ref)  # send_mail-…          `…` is anything
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import tokenize
from typing import Any

from tests.docs.page import Block


def run(block: Block, namespace: dict[str, Any]) -> None:
    """Runs a block, statement by statement, so that what each prints is held against its words."""
    tree = ast.parse(block.text)
    comments = comments_of(block.text)
    # Lines of a traceback are those of the page.
    ast.increment_lineno(tree, block.line)
    for statement in tree.body:
        module = ast.Module([statement], type_ignores=[])
        code = compile(module, block.page, "exec", dont_inherit=True)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        expected = [comments.get(line - block.line) for line in printing(statement)]
        hold(printed.getvalue(), expected, place=f"{block.page}:{statement.lineno}")


def expected_output(text: str) -> list[str | None]:
    """What a whole file says that it prints; None for a print without a word about it."""
    comments = comments_of(text)
    return [comments.get(line) for line in printing(ast.parse(text))]


def hold(printed: str, expected: list[str | None], *, place: str) -> None:
    """Fails unless each line that was printed is the one expected in its place."""
    lines = printed.splitlines()
    told = f"{place} printed {lines}, and says {expected}"
    assert len(lines) == len(expected), told
    for line, pattern in zip(lines, expected, strict=True):
        assert pattern is not None and matches(pattern, line), told


def matches(pattern: str, line: str) -> bool:
    """
    >>> matches("send_mail-…", "send_mail-7F3K9QDM"), matches("send_mail-…", "restore-7F3K9QDM")
    (True, False)
    """
    parts = map(re.escape, pattern.split("…"))
    return re.fullmatch(".*".join(parts), line) is not None


def printing(tree: ast.AST) -> list[int]:
    """The lines on which calls of ``print`` end, in order."""
    return sorted(
        node.end_lineno or node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    )


def comments_of(text: str) -> dict[int, str]:
    """What each line says behind its ``#``."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {
        token.start[0]: token.string.lstrip("#").strip()
        for token in tokens
        if token.type == tokenize.COMMENT
    }

"""What pages show runs as it stands there, and prints what they say it prints."""

import doctest
import json
import tomllib
from types import ModuleType
from typing import Any

import pytest

from tests.docs import command_line, example, page, refusal
from tests.docs.example import run
from tests.docs.page import Block, Page, pages

WORDS: dict[str, set[str]] = {
    "python": {"no-run"},
    "sql": {"refused"},
    "console": set(),
    "json": set(),
    "toml": set(),
    "text": set(),
}
BLOCKS = [block for page in pages() for block in page.blocks]


def runs(block: Block) -> bool:
    return block.language == "python" and "file" not in block.said and "no-run" not in block.words


@pytest.mark.parametrize(
    "shown", [p for p in pages() if any(map(runs, p.blocks))], ids=lambda shown: shown.name
)
def test_the_examples_of_a_page_run(shown: Page, beginning: dict[str, Any]):
    for block in filter(runs, shown.blocks):
        run(block, beginning)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_a_block_says_what_it_is_and_can_be_read(block: Block):
    assert block.language in WORDS, f"{block.place}: name its language"
    assert block.words <= WORDS[block.language]
    match block.language:
        case "python":
            compile(block.text, block.page, "exec")
        case "json":
            json.loads(block.text)
        case "toml":
            tomllib.loads(block.text)


def test_an_example_that_prints_something_else_is_noticed(beginning: dict[str, Any]):
    with pytest.raises(AssertionError, match="printed"):
        run(wrong("print(1 + 1)  # 3\n"), beginning)
    with pytest.raises(AssertionError, match="printed"):
        run(wrong("print(1 + 1)\n"), beginning)
    with pytest.raises(ZeroDivisionError):
        run(wrong("1 / 0\n"), beginning)


def wrong(text: str) -> Block:
    return Block(page="docs/a.md", line=1, language="python", words=frozenset(), said={}, text=text)


@pytest.mark.parametrize("module", [command_line, example, page, refusal], ids=lambda m: m.__name__)
def test_the_examples_of_these_tests_own_modules_hold(module: ModuleType):
    assert doctest.testmod(module).failed == 0

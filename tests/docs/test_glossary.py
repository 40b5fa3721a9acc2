"""GLOSSARY.md gives each word one meaning, where it is looked for."""

from tests.docs.page import read

WORDS = read("GLOSSARY.md").table("word", "meaning").column("word")


def test_words_are_in_order_and_each_is_there_once():
    assert sorted(set(WORDS)) == WORDS

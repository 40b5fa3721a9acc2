"""Refs: legible, unambiguous, and never another intent when one is mistyped."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.model.ref import ALPHABET, is_wellformed, make_ref, nearest, normalise

TOOLS = st.from_regex(r"[a-z][a-z0-9_]{0,62}", fullmatch=True)
ENTROPY = st.binary(min_size=5, max_size=5)
REFS = st.builds(make_ref, TOOLS, ENTROPY)


@given(TOOLS, ENTROPY)
def test_a_ref_is_the_tool_and_eight_digits(tool, entropy):
    ref = make_ref(tool, entropy)
    assert re.fullmatch(rf"{tool}-[{ALPHABET}]{{8}}", ref)
    assert is_wellformed(ref)
    assert make_ref(tool, entropy) == ref


def test_the_documented_example_is_well_formed():
    assert is_wellformed("refund_charge-7F3K9QDM")
    assert is_wellformed("send_customer_email-7F3K9QDM")


def test_no_letter_can_be_taken_for_another():
    assert len(ALPHABET) == 32
    assert set("ILOU").isdisjoint(ALPHABET)


@pytest.mark.parametrize("entropy", [b"", b"1234", b"123456"])
def test_any_other_amount_of_entropy_is_refused(entropy):
    with pytest.raises(ValueError, match="5 bytes"):
        make_ref("refund_charge", entropy)


def test_refs_of_different_entropy_differ():
    entropies = [number.to_bytes(5) for number in range(0, 2**40, 2**40 // 4096)]
    assert len({make_ref("t", entropy) for entropy in entropies}) == len(entropies)


@given(REFS)
def test_any_one_wrong_character_is_detected(ref):
    tool, code = ref[:-8], ref[-8:]
    for place in range(8):
        for wrong in ALPHABET:
            if wrong != code[place]:
                assert not is_wellformed(f"{tool}{code[:place]}{wrong}{code[place + 1 :]}")


@given(REFS)
def test_any_swap_of_two_neighbours_is_detected(ref):
    tool, code = ref[:-8], ref[-8:]
    for place in range(7):
        one, other = code[place], code[place + 1]
        if one != other:
            assert not is_wellformed(f"{tool}{code[:place]}{other}{one}{code[place + 2 :]}")


@given(REFS)
def test_a_ref_survives_being_read_aloud_and_pasted(ref):
    tool, code = ref[:-8], ref[-8:]
    spoken = code.replace("0", "O").replace("1", "l").lower()
    assert normalise(f"  {tool}{spoken}\n") == ref
    assert normalise(f"{tool}{code.replace('1', 'I')}") == ref
    assert normalise(ref) == ref


def test_only_the_code_is_mended():
    assert normalise("close_all-0il00000") == "close_all-01100000"
    assert normalise("Close_All-01100000") == "Close_All-01100000"


@pytest.mark.parametrize("text", ["", " ", "-", "refund_charge", "7F3K9QDM", "a-b", "ı-ıııııııı"])
def test_what_is_no_ref_comes_back_trimmed(text):
    assert not is_wellformed(normalise(text))


@given(st.text())
def test_normalising_settles_at_once(text):
    assert normalise(normalise(text)) == normalise(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7F3K9QDM",
        "-7F3K9QDM",
        "refund_charge7F3K9QDM",
        "refund_charge-7F3K9QD",
        "refund_charge-7F3K9QDMM",
        "refund_charge-7f3k9qdm",
        "refund_charge-7F3K9QDM\n",
        " refund_charge-7F3K9QDM",
        "Refund_charge-7F3K9QDM",
        "1refund-7F3K9QDM",
        f"{'r' * 64}-7F3K9QDM",
        "refund-charge-7F3K9QDM",
        "refund_charge-７F3K9QDM",
    ],
)
def test_anything_else_is_not_well_formed(text):
    assert not is_wellformed(text)


@given(st.text())
def test_no_text_breaks_the_check(text):
    assert is_wellformed(text) in {True, False}


def test_look_alikes_are_offered_nearest_first_and_never_the_ref_itself():
    known = ["refund_charge-7F3K9QDM", "refund_charge-7F3K9QND", "refund_charge-00000000"]
    assert nearest("refund_charge-7F3K9QDN", known) == tuple(known[:2])
    assert nearest("refund_charge-7F3K9QMD", known)[0] == known[0]
    assert nearest("refunt_charge-7F3K9QDM", known)[0] == known[0]
    assert nearest("refund_charge-7F3K9QDM", known) == (known[1],)
    assert nearest("delete_customer-7F3K9QDM", known) == ()

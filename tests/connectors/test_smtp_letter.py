"""An email on the wire: nothing in it turns into a header, a recipient or an end of message."""

import re
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from email.utils import parsedate_to_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from takeback.connectors.smtp.letter import write
from takeback.model.errors import Rejected
from tests.connectors.peer import email

OURS = {"From", "To", "Subject", "Date", "Message-ID", "MIME-Version"}
BREAKS = ("\r\n", "\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\0")


def written(**changes) -> EmailMessage:
    content = write(email(**changes), intent_id="0199").content
    return message_from_bytes(content, _class=EmailMessage, policy=default)


def plain(message: EmailMessage) -> str:
    body = message.get_body(("plain",))
    assert body is not None
    return body.get_content().replace("\r\n", "\n")


def test_the_message_id_is_the_intent_at_the_senders_domain():
    letter = write(email(sender="Shop <shop@mail.example.com>"), intent_id="0199-7abc")
    assert letter.message_id == "<0199-7abc@mail.example.com>"
    assert f"Message-ID: {letter.message_id}\r\n".encode() in letter.content


def test_a_long_message_id_is_neither_folded_apart_nor_encoded():
    domain = ".".join(["d" * 60] * 3) + ".example"
    letter = write(email(sender=f"s@{domain}"), intent_id="01990000-0000-7000-8000-000000000000")
    message = message_from_bytes(letter.content, _class=EmailMessage, policy=default)
    assert str(message["Message-ID"]).strip() == letter.message_id
    assert b"=?utf-8" not in letter.content


def test_the_date_is_a_valid_instant():
    assert parsedate_to_datetime(str(written()["Date"])).year >= 2024


@pytest.mark.parametrize("line_break", BREAKS, ids=ascii)
@pytest.mark.parametrize(
    "spoilt",
    [
        lambda line_break: {"subject": f"hello{line_break}Bcc: eve@example.com"},
        lambda line_break: {"subject": f"hello{line_break}"},
        lambda line_break: {"sender": f"shop@example.com{line_break}Bcc: eve@example.com"},
        lambda line_break: {"sender": f"Shop{line_break}Bcc: e@f.example <shop@example.com>"},
        lambda line_break: {"to": f"dana@example.com{line_break}Bcc: eve@example.com"},
        lambda line_break: {"to": f"{line_break}dana@example.com"},
        lambda line_break: {"to": f"Dana{line_break} <dana@example.com>"},
        lambda line_break: {"to": ("dana@example.com", f"eve@example.com{line_break}")},
        lambda line_break: {"headers": (("X-Order", f"1{line_break}Bcc: eve@example.com"),)},
        lambda line_break: {"headers": ((f"X-Order{line_break}Bcc", "eve@example.com"),)},
    ],
)
def test_a_line_break_in_a_header_is_refused(spoilt, line_break):
    with pytest.raises(Rejected):
        write(email(**spoilt(line_break)), intent_id="0199")


@pytest.mark.parametrize(
    "address",
    [
        "",
        "dana",
        "dana@",
        "@example.com",
        "dana@@example.com",
        "dana@example.com, eve@example.com",
        "dana@example.com eve@example.com",
        "dana@example..com",
        ".dana@example.com",
        "dana.@example.com",
        "da na@example.com",
        "dana@exa mple.com",
        "<dana@example.com",
        "dana@example.com>",
        "Dana <dana@example.com> <eve@example.com>",
        "Dana <dana@example.com>, eve@example.com",
        "dana@example.com> SIZE=1",
        "dana@example.com>\r\nRCPT TO:<eve@example.com",
        "Friends: dana@example.com, eve@example.com;",
        "dana(comment)@example.com",
        f"{'a' * 65}@example.com",
        f"a@{'b' * 250}.com",
        "dana\ud800@example.com",
    ],
)
@pytest.mark.parametrize("field", ["to", "sender"])
def test_what_is_no_single_address_is_refused(address, field):
    with pytest.raises(Rejected):
        write(email(**{field: address}), intent_id="0199")


@pytest.mark.parametrize(
    "given_address,bare,name",
    [
        ("dana@example.com", "dana@example.com", ""),
        (" dana@example.com ", "dana@example.com", ""),
        ("<dana@example.com>", "dana@example.com", ""),
        ("Dana Ruiz <dana@example.com>", "dana@example.com", "Dana Ruiz"),
        ('"Ruiz, Dana" <dana@example.com>', "dana@example.com", "Ruiz, Dana"),
        ('"Dana \\"D\\" Ruiz" <dana@example.com>', "dana@example.com", 'Dana "D" Ruiz'),
        ("Ruiz, Dana <dana@example.com>", "dana@example.com", "Ruiz, Dana"),
        ("eve@example.com <dana@example.com>", "dana@example.com", "eve@example.com"),
        ("Дана <dana@example.com>", "dana@example.com", "Дана"),
        ("o'neil+x_1@sub.example.com", "o'neil+x_1@sub.example.com", ""),
        ("root@localhost", "root@localhost", ""),
    ],
)
def test_an_address_is_taken_with_or_without_a_name(given_address, bare, name):
    letter = write(email(to=given_address), intent_id="0199")
    assert [one.addr_spec for one in letter.recipients] == [bare]
    assert [one.display_name for one in letter.recipients] == [name]
    header = written(to=given_address)["To"].addresses
    assert [(one.addr_spec, one.display_name) for one in header] == [(bare, name)]


def test_an_international_address_stands_in_the_header_as_it_is():
    letter = write(email(to="Zoë <é@bücher.example>"), intent_id="0199")
    assert "\r\nTo: Zoë <é@bücher.example>\r\n" in letter.content.decode()


@pytest.mark.parametrize(
    "changes,international",
    [
        ({}, False),
        ({"subject": "Грüße", "text": "é", "to": "Дана <dana@example.com>"}, False),
        ({"to": "é@example.com"}, True),
        ({"to": "dana@bücher.example"}, True),
        ({"sender": "é@example.com"}, True),
        ({"headers": (("Reply-To", "é@example.com"),)}, True),
    ],
)
def test_only_an_address_that_is_not_ascii_needs_an_international_server(changes, international):
    letter = write(email(**changes), intent_id="0199")
    assert letter.international is international
    assert letter.content.isascii() is not international


def test_several_recipients_are_named_once_each():
    letter = write(
        email(to=("a@example.com", "B <b@example.com>", "a@example.com")), intent_id="0199"
    )
    assert [one.addr_spec for one in letter.recipients] == ["a@example.com", "b@example.com"]


def test_no_recipient_at_all_is_refused():
    with pytest.raises(Rejected):
        write(email(to=()), intent_id="0199")


@pytest.mark.parametrize(
    "name",
    [
        *("From", "to", "CC", "Bcc", "Sender", "Subject", "Date", "Message-Id", "MIME-Version"),
        *("Content-Type", "content-transfer-encoding", "", "X Y", "X:Y", "Ü", "X-\u2028"),
    ],
)
def test_a_header_that_is_the_connectors_or_no_header_is_refused(name):
    with pytest.raises(Rejected):
        write(email(headers=((name, "x"),)), intent_id="0199")


def test_headers_of_the_author_are_kept():
    headers = (("Reply-To", "Help <help@example.com>"), ("X-Order", "O-1 ü"), ("X-Order", "O-2"))
    message = written(headers=headers)
    assert str(message["Reply-To"]) == "Help <help@example.com>"
    assert [str(value) for value in message.get_all("X-Order", [])] == ["O-1 ü", "O-2"]


def test_a_header_that_stands_once_is_refused_twice():
    with pytest.raises(Rejected):
        write(
            email(headers=(("Reply-To", "a@example.com"), ("Reply-To", "b@example.com"))),
            intent_id="0199",
        )


def test_html_stands_beside_the_text():
    message = written(text="plain é", html="<p>rich é</p>")
    rich = message.get_body(("html",))
    assert plain(message) == "plain é\n"
    assert rich is not None
    assert rich.get_content().replace("\r\n", "\n") == "<p>rich é</p>\n"


@pytest.mark.parametrize("changes", [{"text": "a\0b"}, {"html": "a\0b"}, {"text": "\ud800"}])
def test_a_body_that_is_no_text_is_refused(changes):
    with pytest.raises(Rejected):
        write(email(**changes), intent_id="0199")


@pytest.mark.parametrize("broken", ["=0ABcc=3A_eve=40example.com", "=0D=0A=0D=0Abody"])
@pytest.mark.parametrize(
    "placed",
    [
        lambda word: {"subject": word},
        lambda word: {"to": f"{word} <dana@example.com>"},
        lambda word: {"sender": f"{word} <shop@example.com>"},
        lambda word: {"headers": (("X-Order", word),)},
        lambda word: {"headers": (("Reply-To", f"{word} <help@example.com>"),)},
    ],
)
def test_an_encoded_line_break_never_becomes_one(broken, placed):
    try:
        letter = write(email(**placed(f"=?utf-8?q?x{broken}?=")), intent_id="0199")
    except Rejected:
        return
    head = letter.content.partition(b"\r\n\r\n")[0]
    assert not re.search(rb"(?im)^(bcc|body)", head)
    assert b"Message-ID: <0199@example.com>" in head


bodies = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
subjects = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]))


@given(text=bodies, html=st.none() | bodies)
@example(text=".", html=None)
@example(text="..\n.\r\n.\r.", html="\n.\n")
@example(text="x" * 2000, html=None)
@example(text="From me\n", html=None)
def test_any_text_arrives_as_it_was_in_lines_that_end_alike(text, html):
    letter = write(email(text=text, html=html), intent_id="0199")
    assert letter.content.endswith(b"\r\n")
    assert not re.search(rb"(?<!\r)\n|\r(?!\n)|\0", letter.content)
    assert max(map(len, letter.content.split(b"\r\n"))) <= 998
    assert letter.content.isascii()
    expected = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
    message = message_from_bytes(letter.content, _class=EmailMessage, policy=default)
    assert plain(message).removesuffix("\n") == expected


@given(subject=subjects, name=subjects)
@example(subject=" " * 200, name="x" * 300)
@example(subject="é" * 400, name='"\\')
def test_any_subject_or_name_adds_no_header_and_no_recipient(subject, name):
    headers = (("X-Name", name),)
    name = re.sub(r"[<>]", "", name)
    letter = write(
        email(subject=subject, to=f"{name} <dana@example.com>", headers=headers), intent_id="0199"
    )
    message = message_from_bytes(letter.content, _class=EmailMessage, policy=default)
    assert set(message.keys()) - {"X-Name", "Content-Type", "Content-Transfer-Encoding"} == OURS
    assert len(message.keys()) == len(OURS) + 3
    assert [one.addr_spec for one in message["To"].addresses] == ["dana@example.com"]
    assert [one.addr_spec for one in letter.recipients] == ["dana@example.com"]
    assert plain(message) == "It is on its way.\n"

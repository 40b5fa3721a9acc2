"""The settings of a mail server: every URL means one thing or is refused with the next step."""

import pytest

from takeback.connectors.smtp import SmtpServer, Tls
from takeback.model.errors import InvalidSettings

SECRET = "hunter2"


@pytest.mark.parametrize(
    "url,expected",
    [
        ("smtp://mail.example.com", SmtpServer(host="mail.example.com", port=25)),
        ("smtp://mail.example.com/", SmtpServer(host="mail.example.com", port=25)),
        ("SMTP://Mail.Example.com:2525", SmtpServer(host="mail.example.com", port=2525)),
        ("smtps://h", SmtpServer(host="h", port=465, tls=Tls.IMPLICIT)),
        ("smtps://h:4650", SmtpServer(host="h", port=4650, tls=Tls.IMPLICIT)),
        ("smtp://h?tls=starttls", SmtpServer(host="h", port=25, tls=Tls.STARTTLS)),
        ("smtp://h?tls=none", SmtpServer(host="h", port=25, tls=Tls.NONE)),
        ("smtp://h?timeout=2.5", SmtpServer(host="h", port=25, timeout_seconds=2.5)),
        ("smtp://h?helo=me.example", SmtpServer(host="h", port=25, helo="me.example")),
        ("smtp://[::1]:2525", SmtpServer(host="::1", port=2525)),
        (
            "smtp://us%40er:p%2Fa%3As%23s@h",
            SmtpServer(host="h", port=25, user="us@er", password="p/a:s#s"),
        ),
        (
            "smtp://%C3%BC:%C3%A9@h:587?tls=starttls&timeout=10",
            SmtpServer(
                host="h",
                port=587,
                user="ü",
                password="é",
                tls=Tls.STARTTLS,
                timeout_seconds=10,
            ),
        ),
    ],
)
def test_a_url_says_host_port_login_and_options(url, expected):
    assert SmtpServer.from_url(url) == expected


@pytest.mark.parametrize(
    "url,found",
    [
        ("", "scheme"),
        ("mail.example.com:25", "scheme"),
        ("http://h", "scheme"),
        ("smtp://", "names no host"),
        ("smtp://:25", "names no host"),
        ("smtp://a..b", "no valid name"),
        (f"smtp://{'a' * 64}.example", "no valid name"),
        ("smtp://[::1", "host can't be read"),
        ("smtp://h:0", "port is no number"),
        ("smtp://h:65536", "port is no number"),
        ("smtp://h:mail", "port is no number"),
        (f"smtp://user:{SECRET}", "port is no number"),
        (f"smtp://user:{SECRET}/x@h", "after the port"),
        (f"smtp://user:{SECRET}#x@h", "after the port"),
        ("smtp://h/inbox", "after the port"),
        (f"smtp://user:{SECRET} @h", "white space"),
        ("smtp://h\r\nX", "white space"),
        ("smtp://user@h", "without a password"),
        ("smtp://user:@h", "without a password"),
        (f"smtp://:{SECRET}@h", "without a user"),
        (f"smtp://user:{SECRET}%00@h", "NUL"),
        ("smtp://h?timeout=0", "timeout=0"),
        ("smtp://h?timeout=-1", "timeout=-1"),
        ("smtp://h?timeout=nan", "timeout=nan"),
        ("smtp://h?timeout=inf", "timeout=inf"),
        ("smtp://h?timeout=soon", "timeout=soon"),
        ("smtp://h?timeout=", "timeout="),
        ("smtp://h?timeout=1&timeout=2", "given twice"),
        ("smtp://h?tls=maybe", "tls=maybe"),
        ("smtp://h?tls=", "tls="),
        ("smtps://h?tls=starttls", "contradicts"),
        ("smtps://h?tls=none", "contradicts"),
        ("smtp://h?retries=3", "'retries'"),
        ("smtp://h?helo=", "helo="),
        ("smtp://h?helo=%0Aevil", "helo="),
        ("smtp://h?helo=m%C3%BCller", "helo="),
        ("smtp://h?cafile=/nowhere/ca.pem", "No such file"),
    ],
)
def test_a_wrong_url_is_refused_with_found_expected_and_next_step(url, found):
    with pytest.raises(InvalidSettings) as refusal:
        SmtpServer.from_url(url)
    message = str(refusal.value)
    assert found in message
    assert "expected" in message
    assert message.endswith(".")
    assert SECRET not in message


def test_a_file_without_certificates_is_refused_as_cafile(tmp_path):
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(InvalidSettings, match="PEM certificates"):
        SmtpServer.from_url(f"smtp://h?cafile={tmp_path / 'ca.pem'}")


def test_the_password_is_in_no_representation():
    server = SmtpServer.from_url(f"smtp://user:{SECRET}@h")
    assert server.password == SECRET
    assert SECRET not in repr(server) + str(server) + f"{server}"

"""What takeback.testing offers, and that a fake needs no more than itself."""

import subprocess
import sys

import pytest

from takeback import testing


def test_every_offered_name_is_there():
    assert testing.__all__ == sorted(testing._HOMES)
    for name in testing.__all__:
        assert getattr(testing, name).__name__ == name


def test_a_name_that_is_not_offered_is_an_attribute_error():
    with pytest.raises(AttributeError, match="FakeWeather"):
        testing.__getattr__("FakeWeather")


def test_the_fake_providers_load_without_the_mail_servers_packages():
    program = (
        "import sys; sys.modules['aiosmtpd'] = None\n"
        "from takeback.testing import FakeFiles, FakePayments\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)

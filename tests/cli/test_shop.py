"""The example shop from the command line, as its documents tell it."""

import signal

import pytest

from tests.cli.terminal import Terminal, call, environment, running

SHOP = "takeback_shop.app:app"


@pytest.fixture
def shop(terminal: Terminal, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", database_url)
    monkeypatch.setenv("TAKEBACK_APP", SHOP)
    return terminal


def test_a_customer_is_deleted_by_mistake_and_brought_back(shop: Terminal):
    assert shop("migrate").exit == 0
    deleted = shop(*call("delete_customer", customer_id="C-1"), "--json").document
    assert deleted["affected_count"] == 6
    assert shop("restore", deleted["ref"]).exit == 0
    states = {one["tool"]: one["state"] for one in shop("list", "--json").document}
    assert states == {"delete_customer": "restored", "restore": "succeeded"}
    assert shop("verify").exit == 0


def test_a_refund_of_much_money_waits_for_a_person(shop: Terminal):
    said = shop(
        *call("refund_charge", charge_id="ch_2", amount=90000, currency="EUR", reason="duplicate")
    )
    assert said.exit == 0
    assert said.out.startswith("needs_approval  refund_charge-")


def test_a_mistyped_status_is_answered_with_the_call_to_paste(shop: Terminal):
    said = shop(*call("update_ticket", ticket_id="T-7", status="OPEN"), "--json")
    assert (said.exit, said.code) == (1, "invalid_argument")
    assert said.document["error"]["next_call"]["arguments"]["status"] == "open"


def test_the_shop_is_sound_and_all_seven_tools_are_bound(shop: Terminal):
    said = shop("doctor", "--json")
    assert said.exit == 0
    assert len(said.document["app"]["tools"]) == 7
    assert shop("catalog", "list").exit == 0


def test_up_without_an_app_is_the_shop_and_says_so(terminal: Terminal, database_url: str):
    with running("up", environ=environment(TAKEBACK_DATABASE_URL=database_url)) as up:
        lines = [up.line() for _ in range(4)]
        assert f"{SHOP} (none was named: this is the example shop)" in lines[2]
        assert "embedded" not in lines[0]
        up.error_line("worker_started")
        up.tell(signal.SIGTERM)
        assert up.ended().exit == 0

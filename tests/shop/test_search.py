"""``search_orders`` and ``export_orders``: a person's words, ranked, and orders in a few lines."""

import csv
import io
from decimal import Decimal

import pytest

from takeback import Door


def search(shop, query, **said):
    return shop.call("search_orders", query=query, **said)


def refs(answer):
    return [match["ref"] for match in answer["matches"]]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("O-1", "O-1"),
        ("o-12", "O-12"),
        ("T-7", "T-7"),
        ("C-4", "C-4"),
        ("ch_2", "O-2"),
        ("dana@example.com", "C-1"),
        ("Ruiz-Ortega", "C-4"),
        ("zoe", "C-2"),
        ("Zoë's", "C-2"),
        ("lukasz wojcik", "C-5"),
        ("nguyen", "C-3"),
        ("佐藤", "C-6"),
        ("odegard", "C-8"),
        ("twin boiler", "O-2"),
        ("broken cup", "T-1"),
    ],
)
def test_the_best_match_of_a_persons_words_comes_first(shop, query, first):
    """S0.6."""
    assert refs(search(shop, query))[0] == first


def test_what_has_more_of_the_words_ranks_higher(shop):
    found = refs(search(shop, "Dana espresso twin", area="orders"))
    assert found == ["O-2", "O-1", "O-3"]


@pytest.mark.parametrize(
    ("area", "kind"), [("orders", "order"), ("customers", "customer"), ("tickets", "ticket")]
)
def test_an_area_has_nothing_of_the_others(shop, area, kind):
    found = search(shop, "dana", area=area)
    assert {match["kind"] for match in found["matches"]} == {kind}


def test_eight_matches_at_most_and_whether_there_are_more(shop):
    found = search(shop, "example")
    assert len(found["matches"]) == 8
    assert found["more_matches_exist"] is True
    assert search(shop, "boiler")["more_matches_exist"] is False


def test_nothing_found_is_no_error(shop):
    found = search(shop, "xylophone")
    assert (found.status, found["matches"]) == ("no_matches", [])


@pytest.mark.parametrize("query", ["%", "_", "\\", "'; DROP TABLE shop.orders; --", "%(a)s :b"])
def test_signs_that_mean_something_to_a_database_mean_nothing_here(shop, query):
    assert search(shop, query).status in ("ok", "no_matches")
    assert search(shop, "100%_")["matches"] == []


def test_a_match_says_what_a_person_would_ask_next(shop):
    (match,) = search(shop, "O-2")["matches"]
    assert match == {
        "ref": "O-2",
        "kind": "order",
        "label": "1 × Espresso machine, twin boiler",
        "customer": "C-1 Dana Ruiz",
        "status": "shipped",
        "total": "900.00 EUR",
        "charge_id": "ch_2",
    }


def test_a_deleted_customer_is_found_no_more_and_not_named_by_her_tickets(shop):
    shop.call("delete_customer", customer_id="C-1")
    assert "Dana Ruiz" not in str(search(shop, "Dana Ruiz").to_dict()["matches"]).replace(
        "Dana Ruiz-Ortega", ""
    )
    (ticket,) = search(shop, "T-7")["matches"]
    assert ticket["customer"] == "C-1 (deleted)"


def test_a_search_is_never_recorded(shop):
    search(shop, "dana")
    assert shop.intents == 0


def test_a_search_joins_the_callers_transaction(shop):
    with shop.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE shop.customers SET name = 'Xenia' WHERE id = 'C-1'")
        found = shop.call("search_orders", query="Xenia", area="customers", tx=connection)
        assert refs(found) == ["C-1"]
        connection.rollback()
    assert refs(search(shop, "Xenia", area="customers")) == []


def test_an_export_says_how_many_orders_what_they_come_to_and_a_few_of_them(shop):
    """S3.7: every aggregate, and three rows chosen across the groups."""
    answer = shop.call("export_orders", format="csv")
    assert answer["totals"] == {"orders": 12, "EUR": "2235.40"}
    assert sum(group["count"] for group in answer["groups"]) == 12
    assert sum(Decimal(group["totals"]["EUR"]) for group in answer["groups"]) == Decimal("2235.40")
    assert (len(answer["matches"]), answer["matches_not_shown"]) == (3, 9)
    told = {row["status"] for row in answer["matches"]}
    assert told == {group["label"] for group in answer["groups"][:3]}
    assert len(answer.to_json()) <= 1330


@pytest.mark.parametrize("format", ["csv", "json"])
def test_the_whole_export_is_in_the_full_answer(shop, format):
    """S3.9: what a model is not shown, an interface has."""
    full = shop.call("export_orders", format=format).full.disclose(Door.INTERFACE)
    assert [row["id"] for row in full["matches"]] == [f"O-{n}" for n in range(1, 13)]
    if format == "csv":
        assert list(csv.DictReader(io.StringIO(full["result"]))) == full["matches"]
    else:
        assert full["result"] is None


def test_an_export_since_an_instant_leaves_out_what_was_placed_before(shop):
    answer = shop.call("export_orders", format="json", since="2026-10-22T00:00:00+02:00")
    assert [row["id"] for row in answer["matches"]] == ["O-12"]
    assert (answer["more_matches_exist"], answer["matches_not_shown"]) == (False, 0)


def test_an_export_of_nothing_is_no_error(shop):
    answer = shop.call("export_orders", format="csv", since="2030-01-01T00:00:00Z")
    assert answer.status == "no_matches"


def test_an_export_since_an_instant_without_its_offset_is_refused(shop):
    refused = shop.call("export_orders", format="csv", since="2026-10-22T00:00:00")
    assert refused.error["violations"][0]["field"] == "since"

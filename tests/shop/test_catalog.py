"""The seven tools of the shop, row by row as they are promised."""

from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

import takeback_shop.catalog
from takeback import InvalidSettings
from takeback.catalog.check import check_file
from takeback.catalog.registry import build, schema
from takeback.declare import (
    BLIND,
    CANCEL_ONLY,
    COMPENSATE,
    CONFLICT,
    DIFFERS,
    FOREVER,
    FULL,
    GATED,
    LOOKUP,
    READ_ONLY,
    SILENT,
    STAGING,
    WHILE_STANDING,
    Keyed,
    Local,
    Read,
    Remote,
    Tool,
)
from takeback_shop import handlers, setting
from takeback_shop.assembly import assemble
from takeback_shop.catalog import CATALOG

ARGUMENTS = {
    "search_orders": ["query", "area?"],
    "update_ticket": ["ticket_id", "status", "note?"],
    "delete_customer": ["customer_id"],
    "send_customer_email": ["to", "template", "order_id", "note?"],
    "refund_charge": ["charge_id", "amount", "currency", "reason"],
    "delete_attachment": ["path"],
    "export_orders": ["format", "since?"],
}
REACH = {
    "search_orders": (SILENT, True, READ_ONLY),
    "update_ticket": (GATED, True, STAGING),
    "delete_customer": (GATED, True, FULL),
    "send_customer_email": (GATED, True, STAGING),
    "refund_charge": (GATED, True, STAGING),
    "delete_attachment": (GATED, False, FULL),
    "export_orders": (SILENT, False, READ_ONLY),
}
KEYS = {
    "update_ticket": ("ticket_id", "status"),
    "delete_customer": ("customer_id",),
    "send_customer_email": ("to", "template", "order_id"),
    "refund_charge": ("charge_id", "amount", "currency"),
    "delete_attachment": ("path",),
}
CLOSED_SETS = {
    ("search_orders", "area"): ("orders", "customers", "tickets"),
    ("update_ticket", "status"): ("open", "pending", "closed"),
    ("send_customer_email", "template"): ("refund_issued", "order_delayed", "apology"),
    ("refund_charge", "reason"): ("duplicate", "fraudulent", "requested_by_customer"),
    ("export_orders", "format"): ("csv", "json"),
}


def row(name: str) -> Tool:
    found = CATALOG.get(name)
    assert found is not None
    return found


def test_the_declaration_is_one_that_can_be_read_as_text():
    assert check_file(str(takeback_shop.catalog.__file__)) == []


def test_every_tool_is_declared_and_bound_from_the_start():
    assert build(CATALOG, handlers).names == tuple(ARGUMENTS)


@pytest.mark.parametrize(("name", "expected"), ARGUMENTS.items())
def test_a_tool_takes_the_arguments_that_are_promised(name: str, expected: list[str]):
    fields = row(name).arguments.model_fields.items()
    assert [f"{field}{'' if kind.is_required() else '?'}" for field, kind in fields] == expected


@pytest.mark.parametrize(("name", "expected"), REACH.items())
def test_a_tool_has_the_tier_and_the_reach_that_are_promised(name: str, expected: Any):
    tool = row(name)
    assert (tool.tier, tool.inline, tool.exposure) == expected


@pytest.mark.parametrize(("name", "expected"), KEYS.items())
def test_a_write_has_the_key_that_is_promised_and_reaches_for_ever(name: str, expected: Any):
    recipe = row(name).recipe
    assert (recipe.fields, recipe.scope) == (expected, FOREVER)


@pytest.mark.parametrize(("of", "expected"), CLOSED_SETS.items())
def test_a_closed_set_has_the_members_that_are_promised(of: tuple[str, str], expected: Any):
    tool, field = of
    annotation: Any = row(tool).arguments.model_fields[field].annotation
    literal = next((one for one in get_args(annotation) if get_args(one)), annotation)
    assert get_args(literal) == expected


def test_the_two_reads_change_nothing():
    reads = [tool.name for tool in CATALOG if isinstance(tool.effect, Read)]
    assert reads == ["search_orders", "export_orders"]


def test_a_ticket_is_set_for_as_long_as_it_stands():
    effect = row("update_ticket").effect
    assert isinstance(effect, Local) and effect.repeats is WHILE_STANDING
    assert effect.retention is None


def test_a_deleted_customer_is_kept_for_thirty_days():
    effect = row("delete_customer").effect
    assert isinstance(effect, Local) and effect.retention == timedelta(days=30)


def test_a_mail_waits_a_minute_and_can_then_neither_be_looked_up_nor_taken_back():
    effect = row("send_customer_email").effect
    assert isinstance(effect, Remote)
    assert (effect.window, effect.upstream, effect.reversal) == (
        timedelta(seconds=60),
        BLIND,
        CANCEL_ONLY,
    )


def test_a_refund_waits_ten_minutes_and_is_keyed_at_its_provider():
    effect = row("refund_charge").effect
    assert isinstance(effect, Remote) and isinstance(effect.upstream, Keyed)
    assert (effect.window, effect.reversal) == (timedelta(seconds=600), COMPENSATE)


def test_a_refund_over_five_hundred_needs_approval():
    approval = row("refund_charge").approval
    assert approval is not None
    assert (approval.argument, approval.over) == ("amount", 50_000)


def test_a_file_is_deleted_so_that_it_can_be_looked_up_and_brought_back():
    effect = row("delete_attachment").effect
    assert isinstance(effect, Remote)
    assert (effect.upstream, effect.reversal) == (LOOKUP, COMPENSATE)


def test_another_note_is_told_and_another_reason_is_a_conflict():
    assert row("update_ticket").on_difference == {"note": DIFFERS}
    assert row("send_customer_email").on_difference == {"note": DIFFERS}
    assert row("refund_charge").on_difference == {"reason": CONFLICT}


def test_every_write_says_in_words_what_it_does_and_what_taking_it_back_does():
    for tool in CATALOG:
        if not isinstance(tool.effect, Read):
            assert tool.wording is not None and tool.affects is not None, tool.name
            assert tool.triggers, tool.name


def test_every_argument_of_every_schema_is_closed_and_bounded():
    for bound in build(CATALOG, handlers):
        document = schema(bound)
        assert document["additionalProperties"] is False
        for name, property_ in document["properties"].items():
            if property_.get("type") == "string" and name not in ("repeat_of", "expect"):
                bounded = property_.keys() & {"maxLength", "enum", "format", "pattern"}
                assert bounded, (bound.name, name)


def settings(environ: dict[str, str]) -> setting.ShopSettings:
    return setting.load({"SHOP_STATE_DIR": "/tmp/shop", **environ})


def email_window(environ: dict[str, str]) -> timedelta:
    effect = assemble(settings(environ)).registry.tool("send_customer_email").effect
    assert isinstance(effect, Remote)
    return effect.window


def test_the_window_of_mails_is_a_setting_of_the_shop_and_not_of_the_declaration():
    assert email_window({}) == timedelta(seconds=60)
    assert email_window({"SHOP_EMAIL_WINDOW_S": "2.5"}) == timedelta(seconds=2.5)
    assert "environ" not in Path(str(takeback_shop.catalog.__file__)).read_text()


def test_a_window_of_zero_is_taken_literally():
    """powertools-python #4759."""
    assert email_window({"SHOP_EMAIL_WINDOW_S": "0"}) == timedelta(0)


@pytest.mark.parametrize("word", ["soon", "-1", "nan", "inf", "1e300"])
def test_a_window_that_is_none_is_refused_by_name(word: str):
    with pytest.raises(InvalidSettings, match="SHOP_EMAIL_WINDOW_S"):
        settings({"SHOP_EMAIL_WINDOW_S": word})


def test_only_the_mails_window_changes_with_the_setting():
    changed = assemble(settings({"SHOP_EMAIL_WINDOW_S": "1"})).catalog
    for before, after in zip(CATALOG, changed, strict=True):
        assert (before == after) is (before.name != "send_customer_email")


def test_mail_goes_to_this_machine_unless_it_is_set_otherwise():
    assert settings({}).smtp_url == "smtp://127.0.0.1:2525"
    assert settings({"SHOP_SMTP_URL": "smtp://mail:25"}).smtp_url == "smtp://mail:25"


def test_the_fakes_keep_what_they_did_outside_of_takebacks_own_data():
    from takeback.embedded import default_directory

    directory = setting.load({}).state_directory
    assert not directory.is_relative_to(default_directory())
    assert directory.name == "takeback-shop"

"""Catalog, handlers and schema put together, under the shop's settings."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from takeback import Settings, Takeback
from takeback.declare import Catalog, Remote, Tool
from takeback_shop import handlers, schema
from takeback_shop.catalog import CATALOG
from takeback_shop.setting import ShopSettings


def assemble(shop: ShopSettings, settings: Settings | None = None) -> Takeback:
    """The shop's app; ``settings`` None reads Takeback's own when they are first needed."""
    catalog = CATALOG
    if shop.email_window is not None:
        catalog = _with_email_window(CATALOG, shop.email_window)
    return Takeback(catalog, handlers=handlers, settings=settings, migrations=(schema.migrate,))


def _with_email_window(catalog: Catalog, window: timedelta) -> Catalog:
    """The same rows, but that mails are held for another time: a declaration reads no settings."""
    return Catalog(*(_held_for(tool, window) for tool in catalog))


def _held_for(tool: Tool, window: timedelta) -> Tool:
    if tool.name != "send_customer_email" or not isinstance(tool.effect, Remote):
        return tool
    return replace(tool, effect=replace(tool.effect, window=window))

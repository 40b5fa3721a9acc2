"""Every tool of the shop, declared once: what it takes, what it does, and who may reach it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints

from takeback.declare import (
    BLIND,
    CANCEL_ONLY,
    COMPENSATE,
    CONFLICT,
    DIFFERS,
    FULL,
    GATED,
    KEYED,
    LOOKUP,
    OMIT,
    READ_ONLY,
    SILENT,
    STAGING,
    WHILE_STANDING,
    Affects,
    Approval,
    Catalog,
    Currency,
    Email,
    Instant,
    Local,
    Money,
    Read,
    Remote,
    Tool,
    Wording,
    days,
    hours,
    minutes,
    seconds,
)

# C-1, T-7, ch_1, or whatever another system uses for an id, such as 2026/0042.
Id = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:#-]*$"
    ),
]
Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Note = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]
FilePath = Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class SearchOrders(BaseModel):
    """Find orders, customers and tickets by words."""

    query: Line = Field(
        description="what the user said: names, words or ids, such as Dana espresso or O-1"
    )
    area: Literal["orders", "customers", "tickets"] | None = Field(
        default=None, description="where to look; everywhere when left out"
    )


class UpdateTicket(BaseModel):
    """Set the status of a support ticket."""

    ticket_id: Id = Field(description="the ticket, such as T-7")
    status: Literal["open", "pending", "closed"]
    note: Note | None = Field(default=None, description="what to write down beside it")


class DeleteCustomer(BaseModel):
    """Delete a customer with their orders and addresses."""

    customer_id: Id = Field(description="the customer, such as C-1")


class SendCustomerEmail(BaseModel):
    """Send a customer one of the shop's mails."""

    to: Email
    template: Literal["refund_issued", "order_delayed", "apology"]
    order_id: Id = Field(description="the order that it is about, such as O-1")
    note: Note | None = Field(default=None, description="a sentence of your own in the mail")


class RefundCharge(BaseModel):
    """Give back money that was charged."""

    charge_id: Id = Field(description="the charge, such as ch_1")
    amount: Money
    currency: Currency
    reason: Literal["duplicate", "fraudulent", "requested_by_customer"]


class DeleteAttachment(BaseModel):
    """Delete a file from the shop's store."""

    path: FilePath = Field(description="its path, such as tickets/T-7/photo.jpg")


class ExportOrders(BaseModel):
    """Export orders."""

    format: Literal["csv", "json"]
    since: Instant | None = Field(default=None, description="only orders placed since then")


CATALOG = Catalog(
    Tool(
        "search_orders",
        SearchOrders,
        effect=Read(on_forbidden=OMIT),
        description="Finds orders, customers and tickets by a person's words.",
        tier=SILENT,
        inline=True,
        exposure=READ_ONLY,
        triggers=("find", "look up", "which order", "who is"),
    ),
    Tool(
        "update_ticket",
        UpdateTicket,
        effect=Local(repeats=WHILE_STANDING),
        key=("ticket_id", "status"),
        on_difference={"note": DIFFERS},
        description="Sets the status of a support ticket, with a note if there is one.",
        tier=GATED,
        inline=True,
        exposure=STAGING,
        triggers=("close the ticket", "reopen", "resolved", "waiting for the customer"),
        affects=Affects(kind="ticket", id="ticket_id"),
        wording=Wording(
            subject="Setting ticket {ticket_id} to {status}",
            undo="sets the ticket back to what it was",
        ),
    ),
    Tool(
        "delete_customer",
        DeleteCustomer,
        effect=Local(retention=days(30)),
        key=("customer_id",),
        description="Deletes a customer with their orders and addresses; tickets stay.",
        tier=GATED,
        inline=True,
        exposure=FULL,
        triggers=("delete the customer", "remove the account", "forget me"),
        affects=Affects(kind="customer", id="customer_id"),
        wording=Wording(
            subject="Deleting customer {customer_id}",
            undo="brings back the customer with the same orders and addresses",
        ),
    ),
    Tool(
        "send_customer_email",
        SendCustomerEmail,
        effect=Remote(window=seconds(60), upstream=BLIND, reversal=CANCEL_ONLY),
        key=("to", "template", "order_id"),
        on_difference={"note": DIFFERS},
        description="Sends a customer one of the shop's mails about an order.",
        tier=GATED,
        inline=True,
        exposure=STAGING,
        triggers=("write to the customer", "let them know", "apologise", "send a mail"),
        affects=Affects(kind="email", id="to"),
        wording=Wording(
            subject="Email '{template}' to {to}",
            scheduled="leaves at {until} unless taken back",
            done="was sent",
            undo="cancels the email before it leaves",
        ),
    ),
    Tool(
        "refund_charge",
        RefundCharge,
        effect=Remote(window=minutes(10), upstream=KEYED(ttl=hours(24)), reversal=COMPENSATE),
        key=("charge_id", "amount", "currency"),
        on_difference={"reason": CONFLICT},
        description="Gives back all or part of a charge; more than 500.00 needs a person's word.",
        tier=GATED,
        inline=True,
        exposure=STAGING,
        triggers=("refund", "money back", "chargeback"),
        affects=Affects(kind="charge", id="charge_id"),
        approval=Approval(argument="amount", over=50_000),
        wording=Wording(
            subject="Refund of {amount} {currency} (minor units) of charge {charge_id}",
            scheduled="is made at {until} unless taken back",
            done="was made",
            undo="cancels the refund, or charges the amount again once it was made",
            leaves=("a refund that was made stays visible on the customer's statement",),
        ),
    ),
    Tool(
        "delete_attachment",
        DeleteAttachment,
        effect=Remote(upstream=LOOKUP, reversal=COMPENSATE),
        key=("path",),
        description="Deletes a file from the shop's store; its versions stay.",
        tier=GATED,
        exposure=FULL,
        triggers=("delete the attachment", "remove the file", "wrong upload"),
        affects=Affects(kind="file", id="path"),
        wording=Wording(
            subject="Deleting file {path}",
            undo="makes the file visible again, as it was",
        ),
    ),
    Tool(
        "export_orders",
        ExportOrders,
        effect=Read(on_forbidden=OMIT),
        description="Exports orders as csv or json: how many, their totals, and the first rows.",
        tier=SILENT,
        exposure=READ_ONLY,
        triggers=("export", "spreadsheet", "all orders since"),
    ),
)

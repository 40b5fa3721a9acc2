"""The mails that the shop writes: one text a template."""

from __future__ import annotations

from takeback import Attempt
from takeback.connectors.smtp import Email
from takeback_shop.catalog import SendCustomerEmail

SENDER = "The Shop <support@shop.example>"

SUBJECTS = {
    "refund_issued": "Your refund for order {order_id}",
    "order_delayed": "Your order {order_id} takes longer than we said",
    "apology": "We are sorry about order {order_id}",
}

TEXTS = {
    "refund_issued": (
        "we have given your money for order {order_id} back. Your bank shows it within\n"
        "three to five working days."
    ),
    "order_delayed": (
        "your order {order_id} has not left us yet. We write again as soon as it does;\n"
        "until then you can cancel it at no cost."
    ),
    "apology": (
        "something went wrong with your order {order_id}, and the fault was ours. We are\n"
        "sorry, and we are putting it right."
    ),
}


def compose(arguments: SendCustomerEmail, attempt: Attempt) -> Email:
    """The mail that a call asks for; the ref of its intent is in a header, for whoever is asked."""
    parts = ["Hello,", TEXTS[arguments.template].format(order_id=arguments.order_id)]
    if arguments.note:
        parts.append(arguments.note)
    parts.append("Yours,\nThe Shop")
    return Email(
        sender=SENDER,
        to=arguments.to,
        subject=SUBJECTS[arguments.template].format(order_id=arguments.order_id),
        text="\n\n".join(parts) + "\n",
        headers=(("X-Takeback-Ref", attempt.ref),),
    )

"""A clinic: nested arguments, lists of objects, and the 249 countries that people are from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints

from takeback.declare import (
    OMIT,
    SILENT,
    WHILE_STANDING,
    Catalog,
    Currency,
    Email,
    Instant,
    Local,
    Money,
    Read,
)
from takeback.testing.recovery.country import COUNTRIES
from takeback.testing.recovery.subject import Subject, handlers_for, row

if TYPE_CHECKING:
    Country = str
else:
    Country = StrEnum("Country", COUNTRIES)

PatientId = Annotated[str, StringConstraints(pattern=r"^P-[0-9]{4}$")]
Channel = Literal["sms", "email", "phone_call"]


class Urgency(Enum):
    """What people say, and the number that the clinic's old system has for it."""

    ROUTINE = 3
    SOON = 2
    EMERGENCY = 1


class Reminder(BaseModel):
    """One message before an appointment."""

    channel: Channel
    hours_before: int = Field(ge=1, le=72)
    to: Email | None = None


class Dose(BaseModel):
    """How much at which time of day."""

    time: Literal["morning", "noon", "evening", "bed_time"]
    milligrams: int = Field(ge=1, le=2000, description="how much")


class Address(BaseModel):
    """Where somebody lives."""

    street: str = Field(min_length=1, max_length=80)
    city: str = Field(min_length=1, max_length=80)
    country: Country


class BookAppointment(BaseModel):
    """A visit."""

    patient_id: PatientId
    speciality: Literal["cardiology", "dermatology", "general_practice", "ear_nose_throat"]
    starts_at: Instant
    urgency: Urgency
    reminders: list[Reminder] = Field(default=[], max_length=4)


class Prescribe(BaseModel):
    """A medicine for somebody."""

    patient_id: PatientId
    medicine: Literal["ibuprofen", "paracetamol", "amoxicillin", "metformin"]
    form: Literal["tablet", "syrup", "injection"]
    doses: list[Dose] = Field(min_length=1, max_length=6)
    note: str | None = Field(default=None, max_length=200)


class RegisterPatient(BaseModel):
    """A new patient."""

    name: str = Field(min_length=1, max_length=80)
    email: Email
    nationality: Country
    address: Address


class BillPatient(BaseModel):
    """A bill."""

    patient_id: PatientId
    amount: Money
    currency: Currency
    method: Literal["bank_transfer", "credit_card", "insurance"]


class MovePatient(BaseModel):
    """To another ward."""

    patient_id: PatientId
    ward: Literal["north_wing", "south_wing", "intensive_care"]


class FindPatients(BaseModel):
    """By words."""

    query: str = Field(min_length=1)
    status: Literal["admitted", "discharged"]


CATALOG = Catalog(
    row("book_appointment", BookAppointment, "Books a visit.", triggers=("see a doctor", "visit")),
    row("prescribe_medicine", Prescribe, "Prescribes.", triggers=("prescription", "drug")),
    row("register_patient", RegisterPatient, "Registers.", triggers=("new patient", "sign up")),
    row("bill_patient", BillPatient, "Sends a bill.", triggers=("invoice", "charge")),
    row(
        "move_patient",
        MovePatient,
        "Moves to another ward.",
        effect=Local(repeats=WHILE_STANDING),
        triggers=("transfer", "ward"),
    ),
    row(
        "find_patients",
        FindPatients,
        "Finds.",
        effect=Read(on_forbidden=OMIT),
        tier=SILENT,
        triggers=("search",),
    ),
)


_HOME = {"street": "Calle Mayor 27", "city": "Zaragoza", "country": "ES"}

_WANTED: Sequence[tuple[str, Mapping[str, Any]]] = (
    (
        "book_appointment",
        {
            "patient_id": "P-0042",
            "speciality": "general_practice",
            "starts_at": "2026-12-01T09:30:00Z",
            "urgency": 2,
            "reminders": [
                {"channel": "sms", "hours_before": 24},
                {"channel": "phone_call", "hours_before": 2, "to": "dana@example.com"},
            ],
        },
    ),
    (
        "prescribe_medicine",
        {
            "patient_id": "P-0007",
            "medicine": "ibuprofen",
            "form": "tablet",
            "doses": [
                {"time": "morning", "milligrams": 400},
                {"time": "bed_time", "milligrams": 200},
            ],
            "note": "with food",
        },
    ),
    (
        "register_patient",
        {
            "name": "Dana Ruiz",
            "email": "dana@example.com",
            "nationality": "NZ",
            "address": _HOME,
        },
    ),
    (
        "bill_patient",
        {
            "patient_id": "P-0042",
            "amount": 8450,
            "currency": "CHF",
            "method": "bank_transfer",
        },
    ),
    ("move_patient", {"patient_id": "P-0007", "ward": "intensive_care"}),
    ("find_patients", {"query": "Ruiz", "status": "admitted"}),
)

_NEAR = {
    "general_practice": ("family doctor", "primary_care"),
    "sms": ("text", "text message"),
    "phone_call": ("telephone", "ring"),
    "ibuprofen": ("Advil", "painkiller"),
    "tablet": ("pill", "capsule"),
    "morning": ("breakfast", "am"),
    "bed_time": ("night", "before sleep"),
    "bank_transfer": ("wire", "sepa"),
    "intensive_care": ("ICU", "critical"),
    "admitted": ("inpatient", "current"),
    "NZ": ("Aotearoa", "kiwi"),
    "ES": ("Iberia", "Spanish"),
    "CHF": ("francs", "Swiss francs"),
}

_FOREIGN = {
    "general_practice": ("Allgemeinmedizin", "médecine générale"),
    "sms": ("Kurznachricht",),
    "tablet": ("Tablette", "comprimé"),
    "morning": ("morgens", "утром"),
    "bed_time": ("vor dem Schlafen",),
    "bank_transfer": ("Überweisung", "振込"),
    "intensive_care": ("Intensivstation", "soins intensifs"),
    "admitted": ("stationär",),
    "NZ": ("Neuseeland", "Nouvelle-Zélande"),
    "ES": ("Spanien", "España"),
    "CHF": ("Franken",),
}

_MISNAMED = {
    "book_appointment": ("schedule_appointment", "book_visit"),
    "prescribe_medicine": ("write_prescription", "prescribe_drug"),
    "register_patient": ("create_patient", "sign_up_patient"),
    "bill_patient": ("charge_patient", "send_invoice"),
    "move_patient": ("transfer_patient", "change_ward"),
    "find_patients": ("search_patients", "patient_search"),
}


def clinic() -> Subject:
    """The clinic, and what is wanted of it."""
    return Subject(
        name="clinic",
        catalog=CATALOG,
        handlers=handlers_for(CATALOG),
        wanted=_WANTED,
        near=_NEAR,
        foreign=_FOREIGN,
        misnamed=_MISNAMED,
    )

"""The currencies that money may be given in, and how many decimals each one's major unit has.

ISO 4217 list one as published on 2026-01-01: national currencies and funds. Codes without a minor
unit (gold, drawing rights, the codes for testing and for no currency) are left out, since an
amount in them can't be counted in minor units.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_CODES_BY_EXPONENT = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    # BGN was withdrawn on that day; charges made in it before can still be refunded.
    2: """
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD
    CDF CHE CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP
    GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD
    MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP
    PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT
    TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW ZWG
    """,
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}

MINOR_UNIT_EXPONENTS: Mapping[str, int] = MappingProxyType(
    dict(
        sorted(
            (code, exponent)
            for exponent, codes in _CODES_BY_EXPONENT.items()
            for code in codes.split()
        )
    )
)


def minor_unit_exponent(currency: str) -> int:
    """How many decimals the major unit has: 2 for EUR, since 12900 is 129.00.

    Raises KeyError for a code that is not in the list.

    >>> minor_unit_exponent("JPY"), minor_unit_exponent("EUR"), minor_unit_exponent("KWD")
    (0, 2, 3)
    """
    return MINOR_UNIT_EXPONENTS[currency]

"""Email over SMTP: an effect that can't be looked up and must not be repeated (``BLIND``).

    compose(arguments, attempt) -> Email -> Letter -> greeting · TLS · login
                                                    -> MAIL · RCPT · DATA · body     proofs
                                                    ───────── the final dot ─────────
                                                    -> answer                        in doubt

Everything before the final dot is a proof that nothing happened: a server may deliver only what
was ended by that dot. From its first byte on, only the server's own answer decides.
``takeback.connectors.smtp.delivery`` holds the table of outcomes.
"""

from takeback.connectors.smtp.delivery import mailer
from takeback.connectors.smtp.letter import Email
from takeback.connectors.smtp.server import SmtpServer, Tls

__all__ = ["Email", "SmtpServer", "Tls", "mailer"]

"""A small shop whose support agent uses Takeback: what every document, demo and check is about.

catalog     every tool, declared once
handlers    what each tool does
table       the shop's own tables        seed      what stands in them at first
schema      making and filling them      look      finding rows by a person's words
mail        what the shop writes         setting   where mail and providers are
app         catalog, handlers and schema as one app: ``takeback_shop.app:app``
agent       a scripted agent             worker    the process that carries out
demo        the agent's story, on a database and a mail server of its own
"""

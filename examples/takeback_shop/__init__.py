"""A small shop whose support agent uses Takeback: what every document, demo and check is about.

The shop itself:

    catalog     every tool, declared once
    handlers    what each tool does
    assembly    both as one app; app is the one that the environment sets up
    table       the tables; schema makes them, and fills them with what stands in seed
    look        finding rows by a person's words
    export      orders as csv or json
    mail        what the shop writes
    setting     where mail and providers are

The demo:

    agent       a support agent that follows a script
    stage       a database, a mail server and a worker of its own
    telling     the story as text or as JSON
    demo        all of it, as one command
"""

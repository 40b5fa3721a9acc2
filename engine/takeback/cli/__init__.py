"""The command line: a door that translates what is typed, calls the app, and prints what it says.

    main      the entry point: where --json and --app stand, which verb, which exit code
    door      what a verb is handed: the settings, the app, and a voice
    voice     the two streams, a document for programs or lines for people
    failure   what is said when something went wrong, and the exit code
    sheet     how an answer, a table and a timeline look to people
    calling, looking, proving, doctor, working, declaring, story: the verbs

No SQL and no rule lives here.
"""

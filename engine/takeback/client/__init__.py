"""The door of the library: a call becomes an intent, an intent is shown, an intent is taken back.

Joins the caller's transaction and never ends it, or opens one of its own and ends that.
"""

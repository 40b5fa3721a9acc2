"""Proving the log, and computing the projection anew from it: reads events, calls no handler."""

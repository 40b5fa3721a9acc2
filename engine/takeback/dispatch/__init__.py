"""Carrying out what is due: claim under a lease, begin durably, perform, settle behind a fence.

No network call is made while a transaction is open, and no transaction outlives a batch. Round
one remote effect the order is claim · commit · begin · commit · perform · settle · commit: a death
before ``begin`` loses nothing, one after it leaves the attempt in doubt, and nothing is done twice
unasked. For a provider that keeps our key the claim begins.
"""

"""What becomes of a malformed call: a caller that knows only our answers, and calls to try it on.

caller     the rules of a deterministic caller; knows nothing of Takeback, and reads JSON only
case       one malformed call, and what was wanted
fault      what goes wrong with a call, one function each
corpus     every fault on every wanted call, one at a time and several together
subject    apps to call: the shop, a clinic, a harbour of forty tools, a library of other scripts
trial      one caller on one case, on a real database that is rolled back
ablation   answers with less in them, which have to fare worse
score      attempts, tokens, wrong commits and reasons to stop, counted
"""

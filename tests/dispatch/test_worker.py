"""The worker's loop."""


def test_smoke_of_it_all(office, world, clock):
    a = office.call(None, "send_letter", {"to": "a"})
    b = office.call(None, "pay", {"to": "b"})
    c = office.call(None, "ship", {"to": "c"})
    office.worker_of("w", sleep=clock.advance).run(drain=True)
    assert [office.state(x.ref) for x in (a, b, c)] == ["succeeded"] * 3
    r = office.restore(None, b.ref)
    office.worker_of("w", sleep=clock.advance).run(drain=True)
    assert office.state(b.ref) == "restored"
    print(office.kinds(b.ref), office.kinds(r.ref), world.effects)

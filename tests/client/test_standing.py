"""What was taken back and done anew: every answer about it names the one that stands."""

LETTER = {"to": "dana@example.com", "subject": "hello"}
REFUND = {"charge": "c1", "amount": 100, "currency": "EUR"}


def anew(desk, ref):
    """Takes ``ref`` back, and that too: the ref of what was done anew."""
    back = desk.app.restore(None, ref)
    desk.work()
    told = desk.app.restore(None, back.ref)
    desk.work()
    return told["redone"]["ref"]


def test_a_repeat_of_what_was_done_anew_is_told_so_and_offered_no_second_time(desk):
    first = desk.app.call(None, "refund", REFUND).ref
    desk.work()
    stands = anew(desk, first)
    again = desk.app.call(None, "refund", REFUND)
    everywhere = [again, desk.app.status(first), desk.app.show(first).envelope]
    for told in everywhere:
        assert (told.ref, told["redone_by"]) == (first, {"ref": stands})
        assert told.summary.endswith(f"It stands anew as {stands}.")
        assert "again" not in told
    assert again.replayed
    assert {one["summary"] for one in desk.app.list() if one["ref"] == first} == {again.summary}
    assert [what for what, _ in desk.world.done] == ["refund", "charge", "refund"]


def test_what_was_done_anew_again_and_again_is_followed_to_the_one_that_stands(desk):
    first = desk.app.call(None, "refund", REFUND).ref
    desk.work()
    second = anew(desk, first)
    third = anew(desk, second)
    for ref in (first, second):
        assert desk.app.status(ref)["redone_by"] == {"ref": third}
        told = desk.app.restore(None, ref)
        assert (told["redone_by"], told.restore["arguments"]) == ({"ref": third}, {"ref": third})
    back = desk.app.restore(None, third).ref
    desk.work()
    for ref in (first, second):
        told = desk.app.call(None, "refund", REFUND) if ref == first else desk.app.status(ref)
        assert told["redone_by"] == {"ref": third, "stands": False}
        assert told.summary.endswith(f"called anew as {third}, which does not stand either.")
        assert desk.app.restore(None, ref).restore is None
    assert desk.app.call(None, "refund", REFUND)["again"] == {"repeat_of": first}
    fourth = desk.app.restore(None, back)["redone"]["ref"]
    assert desk.app.status(first)["redone_by"] == {"ref": fourth}


def test_what_was_called_with_any_text_is_followed_too(desk):
    letter = LETTER | {"subject": 'a "redone" \\u0000 {'}
    first = desk.app.call(None, "send_letter", letter).ref
    assert desk.app.status(first).status == "scheduled"
    assert desk.app.status(first).ref == first
    stands = anew(desk, first)
    assert desk.app.status(first)["redone_by"] == {"ref": stands}

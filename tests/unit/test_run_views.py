"""Read models of the inspector: lanes of a lineage, turns that were mended, the sentence about a loop."""

from holdfast.core.journal.lineage import Branch
from holdfast.views.checkpoints import CheckpointLine
from holdfast.views.conversation import conversation
from holdfast.views.lineage import branch_lines, lineage_lanes


def point(number: int, seq: int, label: str = "") -> CheckpointLine:
    return CheckpointLine(number, seq, 0.0, label, "program", 1, 0, True, "", ())


def test_a_fork_leaves_the_lane_of_its_origin_where_it_was_made() -> None:
    """Its lane begins at that event and ends at its own head; points that it has borrowed are its origin's."""
    tree = Branch("a", 0, (Branch("b", 40, (Branch("c", 50, ()),)),))
    lines = branch_lines(tree, dict.fromkeys("abc", "finished"))
    points = {"a": [point(1, 20, "draft"), point(2, 60)], "b": [point(1, 20, "draft"), point(3, 45)]}
    lanes = lineage_lanes(tree, lines, {"a": 80, "b": 100, "c": 50}, points)
    assert [(lane.line.run, lane.above, lane.left, lane.right) for lane in lanes] == [
        ("a", None, 0.0, 0.8),
        ("b", 0, 0.4, 1.0),
        ("c", 1, 0.5, 0.5),
    ]
    assert [[dot.place for dot in lane.dots] for lane in lanes] == [
        ["a@#20", "a@#60", "a"],
        ["b@#45", "b"],
        ["c"],
    ]
    assert [dot.words for dot in lanes[0].dots] == ["draft", "point 2", "head"]


def test_points_of_a_lane_can_be_told_apart() -> None:
    """Of ten thousand points, only as many are drawn as there is room for."""
    tree = Branch("a", 0, ())
    lanes = lineage_lanes(
        tree, branch_lines(tree, {}), {"a": 10_000}, {"a": [point(n, n) for n in range(1, 10_000)]}
    )
    assert 20 < len(lanes[0].dots) <= 35


def test_a_result_that_a_call_lacked_is_marked() -> None:
    """A repair names the call; other results stay as they are."""
    request = {
        "messages": [
            {"role": "tool", "tool_call_id": "c1", "content": "found"},
            {"role": "tool", "tool_call_id": "c10", "content": "also found"},
        ]
    }
    talk = conversation(request, None, mended=[[1, "result", "call c1 (look) had no result: found"]])
    assert [turn.mark for turn in talk.turns] == ["mended", ""]
    assert talk.mended == ("call c1 (look) had no result: found",)

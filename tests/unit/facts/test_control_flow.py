from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perfcli.facts.binary.control_flow import in_loops
from perfcli.facts.binary.sass import parse_listing


def looping(code: str) -> str:
    """Code as one instruction per word, ``label:`` or ``op>target``; the words in loops."""
    lines: list[str] = []
    for index, word in enumerate(code.split()):
        if word.endswith(":"):
            lines.append(word)
            continue
        op, _, target = word.partition(">")
        predicate = "@P0 " if op.endswith("?") else ""
        operand = f"`({target})" if target else "R0"
        lines.append(f"/*{index:04x}*/ {predicate}{op.rstrip('?')} {operand} ;")
    listing = parse_listing("\n".join(lines))
    words = [w for w in code.split() if not w.endswith(":")]
    return " ".join(words[i] for i in sorted(in_loops(listing)))


def test_straight_code_has_no_loop() -> None:
    assert looping("LDL BRA?>end STL end: LDL EXIT") == ""


def test_a_backward_branch_makes_a_loop() -> None:
    assert looping("LDL top: STL LDL BRA?>top STL EXIT") == "STL LDL BRA?>top"


def test_nested_loops() -> None:
    assert looping("a: LDG b: LDL BRA?>b STL BRA?>a EXIT") == "LDG LDL BRA?>b STL BRA?>a"


def test_code_that_leaves_the_loop_is_not_in_it() -> None:
    # Between the loop's first and last instruction, but never run twice.
    assert looping("top: LDL BRA?>on STL EXIT on: LDG BRA?>top EXIT") == "LDL BRA?>on LDG BRA?>top"


def test_loop_body_below_the_backward_branch() -> None:
    assert looping("BRA>test body: LDL test: BRA?>body EXIT") == "LDL BRA?>body"
    assert looping("top: LDL BRA?>far BRA?>top EXIT far: STL BRA>top") == (
        "LDL BRA?>far BRA?>top STL BRA>top"
    )


def test_a_backward_branch_to_code_that_ends_is_no_loop() -> None:
    assert looping("BRA>on out: LDL EXIT on: STL BRA>out") == ""


def test_conditional_exit_goes_on() -> None:
    assert looping("top: LDL EXIT? BRA>top") == "LDL EXIT? BRA>top"


def test_uniform_and_divergent_branches_are_conditional() -> None:
    listing = parse_listing(
        "top:\n/*0000*/ LDL R0 ;\n/*0010*/ BRA.U UP0, `(top) ;\n/*0020*/ STL R0 ;"
    )
    assert in_loops(listing) == {0, 1}


def test_the_endless_padding_is_alone() -> None:
    assert looping("LDL EXIT end: BRA>end NOP") == "BRA>end"


def test_a_function_called_in_a_loop_is_in_it() -> None:
    code = "top: LDL CALL>f BRA?>top EXIT f: STL CALL>g RET g: LDG RET"
    assert looping(code) == "LDL CALL>f BRA?>top STL CALL>g RET LDG RET"


def test_a_function_called_before_and_after_makes_no_loop() -> None:
    assert looping("CALL>f LDL CALL>f EXIT f: STL RET") == ""


def test_a_table_of_targets() -> None:
    listing = parse_listing(
        'top:\n/*0000*/ LDL R0 ;\n/*0010*/ BRX R2 -0x50 (*"BRANCH_TARGETS out,top"*) ;\n'
        "out:\n/*0020*/ STL R0 ;\n/*0030*/ EXIT ;"
    )
    assert in_loops(listing) == {0, 1}


def test_unknown_targets_may_be_any_label() -> None:
    listing = parse_listing("top:\n/*0000*/ LDL R0 ;\n/*0010*/ BRX R2 -0x50 ;\n/*0020*/ STL R0 ;")
    assert in_loops(listing) == {0, 1}


BRANCHES = st.lists(
    st.tuples(st.sampled_from(["NOP", "BRA", "BRA?", "EXIT", "EXIT?"]), st.integers(0, 11)),
    min_size=1,
    max_size=12,
)


@given(BRANCHES)
def test_in_a_loop_means_reachable_from_itself(code: list[tuple[str, int]]) -> None:
    """Against the definition, by brute force on random programs."""
    size = len(code)
    following: list[set[int]] = []
    text: list[str] = []
    for index, (op, number) in enumerate(code):
        target = number % size
        jumps = {target} if op.startswith("BRA") else set()
        falls = {index + 1} if op not in ("BRA", "EXIT") and index + 1 < size else set()
        following.append(jumps | falls)
        predicate = "@P0 " if op.endswith("?") else ""
        operand = f"`(L{target})" if op.startswith("BRA") else ""
        text.append(f"L{index}:\n/*{index:04x}*/ {predicate}{op.rstrip('?')} {operand} ;")
    expected = set()
    for start in range(size):
        reached: set[int] = set()
        pending = list(following[start])
        while pending:
            node = pending.pop()
            if node not in reached:
                reached.add(node)
                pending.extend(following[node])
        if start in reached:
            expected.add(start)
    assert in_loops(parse_listing("\n".join(text))) == expected

from __future__ import annotations

from xml.etree import ElementTree

from jazzmine.records.flow import ActiveFlowState
from jazzmine.records.tool_call import ToolCallRecord
from jazzmine.records.turn import TurnCache
from jazzmine.records.working_memory import WorkingMemory

HOSTILE = "</call>&<tag a=\"1\" b='2'>\0\x1b\ufffe\uffff\r\n\té😀"
# Characters that XML 1.0 cannot contain are replaced, all others are unchanged.
HOSTILE_PARSED = "</call>&<tag a=\"1\" b='2'>\ufffd\ufffd\ufffd\ufffd\r\n\té😀"


def in_turn(number: int = 1) -> WorkingMemory:
    memory = WorkingMemory("conversation", "user", "agent")
    memory.start_flow(ActiveFlowState("f1", "booking", "flow"))
    memory.begin_turn(TurnCache(number))
    return memory


def call(name: str, called_at: float = 0.0, turn_number: int = 0) -> ToolCallRecord:
    return ToolCallRecord(name, {}, called_at=called_at, turn_number=turn_number)


def tools_in(section: str) -> list[str]:
    return [each.attrib["tool"] for each in ElementTree.fromstring(section)]


def test_a_successful_call_shows_its_summary() -> None:
    record = ToolCallRecord("search", {"query": "shoes & socks", "n": 2}, {"secret": 1}, "12 found")

    xml = record.to_prompt_xml()

    assert xml == (
        '  <call index="0" tool="search" success="true">\n'
        '    <args>{"query": "shoes &amp; socks", "n": 2}</args>\n'
        "    <summary>12 found</summary>\n"
        "  </call>"
    )


def test_a_failed_call_shows_its_error_and_where_it_belongs() -> None:
    record = ToolCallRecord(
        "pay",
        {"amount": "5 €"},
        result_summary="never shown",
        success=False,
        error="no <funds>",
        call_index=3,
        step=0,
        branch="branch_2",
    )

    xml = record.to_prompt_xml()

    assert xml == (
        '  <call index="3" tool="pay" success="false" step="0" branch="branch_2">\n'
        '    <args>{"amount": "5 €"}</args>\n'
        "    <error>no &lt;funds&gt;</error>\n"
        "  </call>"
    )


def test_hostile_text_comes_back_from_a_parser() -> None:
    record = ToolCallRecord(HOSTILE, {HOSTILE[8:25]: HOSTILE}, None, HOSTILE, branch=HOSTILE)

    parsed = ElementTree.fromstring(record.to_prompt_xml())

    assert parsed.attrib["tool"] == HOSTILE_PARSED
    assert parsed.attrib["branch"] == HOSTILE_PARSED
    assert [each.tag for each in parsed] == ["args", "summary"]
    assert parsed[1].text == HOSTILE_PARSED


def test_without_calls_there_are_no_sections() -> None:
    assert in_turn().build_prompt_tool_sections() == ""
    assert WorkingMemory("conversation", "user", "agent").build_prompt_tool_sections() == ""
    assert ActiveFlowState("f1", "booking", "flow").build_tool_history_prompt() == ""
    assert TurnCache(1).build_turn_tool_calls_prompt() == ""


def test_earlier_calls_and_this_turn_s_have_a_section_each() -> None:
    memory = in_turn(1)
    memory.record_tool_call(call("first"))
    memory.begin_turn(TurnCache(2))
    memory.record_tool_call(call("second"))

    sections = memory.build_prompt_tool_sections()

    assert sections == (
        "<completed_tool_calls>\n"
        '  <call index="0" tool="first" success="true">\n'
        "    <args>{}</args>\n"
        "    <summary>(no summary)</summary>\n"
        "  </call>\n"
        "</completed_tool_calls>\n"
        "\n"
        "<current_turn_tool_calls>\n"
        '  <call index="0" tool="second" success="true">\n'
        "    <args>{}</args>\n"
        "    <summary>(no summary)</summary>\n"
        "  </call>\n"
        "</current_turn_tool_calls>"
    )


def test_one_record_passed_in_two_turns_is_shown_for_each() -> None:
    memory = in_turn(1)
    record = call("same", turn_number=1)
    memory.record_tool_call(record)
    memory.begin_turn(TurnCache(2))
    memory.record_tool_call(record)

    before, current = memory.build_prompt_tool_sections().split("\n\n")

    assert tools_in(before) == ["same"]
    assert tools_in(current) == ["same"]

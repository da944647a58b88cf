"""The interpreter builds plain values, calls only what it was given and refuses the rest."""

import io
import pickle

import pytest

from coterie.plain_pickle import (
    OPCODES,
    DamagedPickleError,
    PickleInterpreter,
    RefusedPickleError,
    Symbol,
    UnknownSymbolError,
    text_of,
)

PLAIN = {"text": "Grüße", "bytes": b"\x00\xff", "list": [(), (1,), [2.5, None, True]], 3: {}}


def read(content, symbols=None, **rules):
    return PickleInterpreter(symbols or {}, **rules).read(io.BytesIO(content))


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_plain_values_come_back(protocol):
    assert read(pickle.dumps(PLAIN, protocol)) == PLAIN


def test_the_interpreter_calls_only_what_it_was_given(tmp_path):
    path = tmp_path / "one.pkl"
    path.write_bytes(b"\x80\x02cany\nname\nK\x02K\x03\x86R.")
    with path.open("rb") as stream:
        assert PickleInterpreter({"any name": pow}).read(stream) == 8


def test_pickles_that_follow_each_other_do_not_share_anything():
    stream = io.BytesIO(b"K\x01q\x00.K\x02.h\x00.")
    interpreter = PickleInterpreter({})
    assert [interpreter.read(stream), interpreter.read(stream)] == [1, 2]
    with pytest.raises(DamagedPickleError, match="did not keep"):
        interpreter.read(stream)


@pytest.mark.parametrize("content", [b"cos\nsystem\n.", b"\x8c\x02os\x8c\x06system\x93."])
def test_symbols_outside_the_table_are_refused(content):
    with pytest.raises(UnknownSymbolError, match="it names 'os system'") as caught:
        read(content, {"os path": None})
    assert caught.value.name == "os system"


def test_a_long_symbol_is_not_repeated_in_full():
    with pytest.raises(UnknownSymbolError) as caught:
        read(b"cos\n" + b"x" * 10_000 + b"\n.")
    assert len(str(caught.value)) < 300


def test_a_symbol_without_a_handler_may_be_named_but_not_called():
    assert read(b"cany\nname\n.", {"any name": None}) == Symbol("any name")
    with pytest.raises(RefusedPickleError, match="REDUCE on 'any name', which is not a known"):
        read(b"cany\nname\n)R.", {"any name": None})


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"K\x01Q.", "BINPERSID"),
        (b"}}b.", "BUILD"),
        (b"}2.", "DUP"),
        (b"cany\nname\n)\x81.", "NEWOBJ"),
        (b"K\x01)R.", "REDUCE on 'int'"),
    ],
)
def test_what_the_rules_do_not_provide_for_is_refused(content, named):
    with pytest.raises(RefusedPickleError, match=f"instruction {named}"):
        read(content, {"any name": dict})


def test_opcodes_can_be_narrowed():
    assert read(b"K\x01.") == 1
    with pytest.raises(RefusedPickleError, match="instruction BININT1"):
        read(b"K\x01.", opcodes=OPCODES - {"BININT1"})


def test_persistent_ids_go_to_their_handler():
    assert read(b"K\x05Q.", persistent=lambda identifier: ("found", identifier)) == ("found", 5)


def test_what_build_returns_takes_the_place_of_the_object_in_the_memo():
    content = b"]cany\nname\n)Rq\x01K\x07ba" + b"h\x01a."
    first, second = read(content, {"any name": dict}, build=lambda before, state: [before, state])
    assert first == [{}, 7]
    assert second is first


def test_errors_of_handlers_are_damage_and_refusals_stay_refusals():
    def refuse():
        raise RefusedPickleError("no")

    with pytest.raises(DamagedPickleError, match="positional argument"):
        read(b"cany\nname\nK\x01\x85R.", {"any name": lambda: None})
    with pytest.raises(DamagedPickleError, match="without a tuple"):
        read(b"cany\nname\nK\x01R.", {"any name": dict})
    with pytest.raises(RefusedPickleError, match="no"):
        read(b"cany\nname\n)R.", {"any name": refuse})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "exhausted"),
        (b".", "one value"),
        (b"K\x01K\x02.", "one value"),
        (b"(K\x01.", "one value"),
        (b"K\x01(\x85.", "more values than it has"),
        (b"t.", "a mark"),
        (b"g7\n.", "did not keep"),
        (b"K\x01K\x02a.", "not a list"),
        (b"K\x01K\x02K\x03s.", "not a dict"),
        (b"}(K\x01u.", "malformed dict"),
        (b"K\x01K\x02\x93.", "text was expected"),
        (b"T\xff\xff\xff\x7fshort.", "expected 2147483647 bytes"),
    ],
)
def test_malformed_pickles_are_damage(content, reason):
    with pytest.raises(DamagedPickleError, match=reason):
        read(content)


def test_the_number_of_instructions_is_bounded():
    content = b"]" + b"K\x01a" * 10 + b"."
    assert read(content, most_instructions=22) == [1] * 10
    with pytest.raises(RefusedPickleError, match="more than 21 instructions"):
        read(content, most_instructions=21)


def test_deeply_nested_keys_are_refused_before_they_are_hashed():
    with pytest.raises(DamagedPickleError, match="malformed dict"):
        read(b"})" + b"\x85" * 1_000_000 + b"K\x01s.")


def test_text_of():
    assert text_of(b"\xfc") == text_of("ü") == "ü"
    with pytest.raises(TypeError):
        text_of(1)


def test_an_old_text_with_odd_escapes_is_read_without_a_warning():
    """Warnings are errors in tests, and would be printed to people."""
    assert read(b"S'\\s'\n.") == b"\\s"

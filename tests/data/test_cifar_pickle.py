"""Plain data is read like pickle would; anything that would run code is refused, unexecuted."""

import builtins
import os
import pickle
import pickletools

import numpy as np
import pytest

from coterie.data.cifar_pickle import read_cifar_pickle
from coterie.errors import DataError

PLAIN = {
    "text": "Grüße",
    "bytes": b"\x00\xff",
    "numbers": [0, 1, -1, 255, 256, 70_000, -(2**31), 2**40],
    "nested": {"tuple": (1,), "four": (1, 2, 3, 4), "empty": ((), [], {})},
    3: [None, True, False],
}

# An array as python 2 wrote it in protocol 0, with the byte order given twice.
PYTHON2_ARRAY = (
    b"(dp1\nS'data'\np2\ncnumpy.core.multiarray\n_reconstruct\np3\n(cnumpy\nndarray\np4\n"
    b"(I0\ntp5\nS'b'\np6\ntp7\nRp8\n(I1\n(I2\nI2\ntp9\ncnumpy\ndtype\np10\n(S'u1'\np11\nI0\nI1\n"
    b"tp12\nRp13\n(I3\nS'|'\np14\nNNNI-1\nI-1\nI0\ntp15\nbI00\nS'abcd'\np16\ntp17\nbsS'again'\n"
    b"g8\ns."
)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_come_back(protocol):
    assert read_cifar_pickle(pickle.dumps(PLAIN, protocol), "file") == PLAIN


@pytest.mark.parametrize("protocol", [0, 1])
def test_plain_values_of_old_protocols_come_back(protocol):
    value = {"a": [1, 2, (3, None)], "b": {"c": 10**12}, "t": True}
    assert read_cifar_pickle(pickle.dumps(value, protocol), "file") == value


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, ">i4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_integer_arrays_come_back(protocol, dtype, order):
    array = np.asarray(np.arange(24).reshape(2, 3, 4) * 7, dtype=dtype, order=order)
    result = read_cifar_pickle(pickle.dumps({"x": array, "y": array}, protocol), "file")
    for key in ("x", "y"):
        assert result[key].dtype == array.dtype
        np.testing.assert_array_equal(result[key], array)


def test_python2_protocol0_array():
    result = read_cifar_pickle(PYTHON2_ARRAY, "file")
    assert result[b"data"].dtype == np.uint8
    np.testing.assert_array_equal(result[b"data"], [[97, 98], [99, 100]])
    assert result[b"again"] is result[b"data"]


class _Calls:
    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", ["system", "eval"])
def test_malicious_pickle_is_refused_and_not_executed(tmp_path, protocol, name):
    trace = tmp_path / "executed"
    call = {
        "system": _Calls(os.system, f"touch {trace}"),
        "eval": _Calls(builtins.eval, f"open({str(trace)!r}, 'w')"),
    }[name]
    content = pickle.dumps({"data": [call]}, protocol)
    with pytest.raises(DataError, match=rf"{name}.*not executed") as caught:
        read_cifar_pickle(content, "some/file")
    assert str(caught.value).startswith("some/file")
    assert not trace.exists()


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"(S'echo'\nios\nsystem\n.", "os.system"),
        (b"(cos\nsystem\nS'echo'\no.", "os.system"),
        (b"\x80\x02\x8c\x02os\x8c\x06system\x93.", "os.system"),
        (b"\x80\x02cnumpy\nndarray\n)\x81.", "NEWOBJ"),
        (b"\x80\x02\x82\x01.", "unregistered extension code"),
        (b"Pthing\n.", "data outside the file"),
        (b"I1\nQ.", "data outside the file"),
        (b"}}b.", "no attribute"),
        (b"cnumpy\ndtype\n(N}S'__call__'\nNstb.", "attribute"),
        (b"cnumpy\ndtype\n}S'a'\nNsb.", "no attribute"),
        (b"cnumpy\nndarray\n(I9\ntR.", "not callable"),
        (b"c_codecs\nencode\n(Vx\nVrot13\ntR.", "'_codecs.encode'"),
        (b"cnumpy.core.multiarray\n_reconstruct\n(Vx\ntR.", "'_reconstruct'"),
        (b"cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR.", "'O8'"),
        (b"cnumpy\ndtype\n(S'f4'\nI0\nI1\ntR.", "'f4'"),
        (b"}S'data'\ncnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\ntRs.", "its values"),
    ],
)
def test_everything_else_is_refused_by_name(content, named):
    with pytest.raises(DataError, match="not executed") as caught:
        read_cifar_pickle(content, "file")
    assert named in str(caught.value)


def test_object_array_is_refused():
    content = pickle.dumps(np.array([{}, None], dtype=object), 2)
    with pytest.raises(DataError, match="'O8'"):
        read_cifar_pickle(content, "file")


@pytest.mark.parametrize(
    "shape", [b"(I2\nI3\nt", b"(I4294967296\nI4294967296\nt", b"(I-2\nI-2\nt", b"I4\n", b"(S'4'\nt"]
)
def test_array_must_have_exactly_its_bytes(shape):
    content = PYTHON2_ARRAY.replace(b"(I2\nI2\nt", shape)
    assert content != PYTHON2_ARRAY
    with pytest.raises(DataError, match="damaged"):
        read_cifar_pickle(content, "file")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b".",
        b"garbage",
        b"t.",
        b"g7\n.",
        b"p7\n.",
        b"a.",
        b"I1\nI2\na.",
        b"I1\nI2\nI3\ns.",
        b"(I1\nd.",
        b"0.",
        b"I1\nI2\n\x93.",
        b"T\xff\xff\xff\x7fshort.",
        b"\x8e" + b"\xff" * 8 + b".",
        b"cnumpy\ndtype\nI1\nR.",
        b"cnumpy\ndtype\n(S'u2'\ntR(I3\nS'?'\ntb.",
        b"cnumpy\ndtype\n(S'u2'\ntRI3\nb.",
    ],
)
def test_malformed_streams_are_data_errors(content):
    with pytest.raises(DataError, match="not executed"):
        read_cifar_pickle(content, "file")


def test_every_truncation_is_a_data_error():
    whole = pickle.dumps({"data": np.arange(6, dtype=np.uint8), "labels": [1, 2]}, 2)
    for length in range(len(whole)):
        with pytest.raises(DataError):
            read_cifar_pickle(whole[:length], "file")


def test_random_damage_never_escapes():
    whole = bytearray(pickle.dumps({"data": np.arange(6, dtype=np.uint8), "labels": [1, 2]}, 4))
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(2000):
        damaged = bytearray(whole)
        damaged[random.integers(len(whole))] = random.integers(256)
        try:
            read_cifar_pickle(bytes(damaged), "file")
        except DataError:
            refused += 1
    assert refused > 500


@pytest.mark.parametrize("count", [1_000, 100_000])
def test_nested_keys_do_not_exhaust_the_stack(count):
    deep = b"(" * count + b"t" * count
    content = b"}" + deep + b"I1\ns."
    if count < 10_000:
        assert list(read_cifar_pickle(content, "file").values()) == [1]
    else:
        with pytest.raises(DataError, match="more than 10000 tuples"):
            read_cifar_pickle(content, "file")


@pytest.mark.parametrize("put", [b"r\xff\xff\xff\xff", b"p4294967295\n"])
def test_a_far_position_does_not_reserve_memory(put):
    with pytest.raises(DataError, match="position 4294967295"):
        read_cifar_pickle(b"I1\n" + put + b".", "file")


def test_writer_used_here_is_what_it_claims():
    names = {opcode.name for opcode, _, _ in pickletools.genops(PYTHON2_ARRAY)}
    assert {"GLOBAL", "REDUCE", "BUILD", "STRING"} <= names


def test_a_pickle_of_millions_of_instructions_is_refused():
    """Each of these bytes would make a list."""
    with pytest.raises(DataError, match="more than 1000000 instructions"):
        read_cifar_pickle(b"\x80\x02" + b"]" * 1_000_100 + b".", "file")

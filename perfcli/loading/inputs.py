"""Reads inputs that people type, ``tokens=4x1024:int64``, for a model that comes without any."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from perfcli.errors import PerfcliError
from perfcli.model import Scalar
from perfcli.names import suggestion

EXAMPLE = "--input x=8,128,768:bf16"
_SHORT = {
    "bf16": "bfloat16", "f16": "float16", "fp16": "float16", "half": "float16",
    "f32": "float32", "fp32": "float32", "float": "float32",
    "f64": "float64", "fp64": "float64", "double": "float64",
    "fp8e4m3": "float8_e4m3fn", "f8e4m3": "float8_e4m3fn", "float8_e4m3": "float8_e4m3fn",
    "fp8e5m2": "float8_e5m2", "f8e5m2": "float8_e5m2",
    "i8": "int8", "i16": "int16", "short": "int16", "i32": "int32", "int": "int32",
    "i64": "int64", "long": "int64", "u8": "uint8", "byte": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64", "b1": "bool", "c64": "complex64", "c128": "complex128",
}  # fmt: skip
_DTYPES = frozenset(_SHORT.values()) | {"float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"}
_LAYOUTS = ("channels_last", "channels_last_3d")
_MARKS = (*_LAYOUTS, "grad", "nograd", "strides=768,1", "below=50257")
_WORDS: dict[str, Scalar] = {"true": True, "false": False, "none": None}
_NAMED = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*=(?P<rest>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class GivenInput:
    """Describes one argument of a call: a tensor, or a plain value."""

    text: str
    """As it was typed."""
    name: str = ""
    """Of a keyword argument; empty for the next positional one."""
    shape: tuple[int, ...] | None = None
    """Of a tensor; None for a plain value."""
    dtype: str = "float32"
    strides: tuple[int, ...] = ()
    layout: str = ""
    """``channels_last`` or ``channels_last_3d``; empty: contiguous, or as ``strides`` says."""
    grad: bool | None = None
    """Whether it requires a gradient; None: in training it does, if it has a floating dtype."""
    below: int | None = None
    """The values of an integer tensor are smaller than this, where it has values."""
    value: Scalar = None

    @property
    def is_floating(self) -> bool:
        return self.dtype.startswith(("float", "bfloat", "complex"))


def read_inputs(texts: Iterable[str]) -> tuple[GivenInput, ...]:
    """Return what each text says. Raises PerfcliError for one that says nothing, and for a name
    that is given twice."""
    found = tuple(map(_read_input, texts))
    names = [each.name for each in found if each.name]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise PerfcliError(f"--input has {twice} twice: an argument gets one value")
    return found


def join_inputs(shared: Sequence[str], own: Sequence[str]) -> tuple[str, ...]:
    """Return the inputs of one side: its own, and of those that both sides have the ones with
    other names; its own positional ones replace all of these."""
    if not own:
        return tuple(shared)
    named = {_split_name(text)[0] for text in own}
    kept = [text for text in shared if _split_name(text)[0] not in named]
    return (*kept, *own)


def _split_name(text: str) -> tuple[str, str]:
    found = _NAMED.fullmatch(text.strip())
    return (found["name"], found["rest"].strip()) if found else ("", text.strip())


def _read_input(text: str) -> GivenInput:
    name, rest = _split_name(text)
    if nested := re.search(r"[{\[(]\s*[\[({'\"]|[{]", rest):
        raise PerfcliError(
            f"--input {text}: one input is one tensor or one plain value, no {nested[0]}…: what is "
            "called with lists or dictionaries needs a function that makes them, "
            "def build(): return Net(), ([torch.randn(8, 4), torch.randn(3, 4)],)"
        )
    if name in ("strides", "below"):  # x=8,8:strides=1,8 without what stands before it
        raise _refuse(text, f"{name} stands behind a shape")
    shape, *marks = (part.strip() for part in rest.split(":"))
    sizes = _read_sizes(shape)
    if not marks and (sizes is None or re.fullmatch(r"[-+]?\d+", shape)):
        return GivenInput(text, name, value=_read_value(text, shape))
    if sizes is None:
        raise _refuse(text, f"{shape!r} is no shape")
    given = GivenInput(text, name, sizes)
    for mark in marks:
        given = _mark(given, mark)
    return given


def _read_sizes(text: str) -> tuple[int, ...] | None:
    """Return the sizes of ``8,128``, ``8x128``, ``(8, 128)``, ``()``; None where it is no shape."""
    inner = re.fullmatch(r"[(\[](.*)[)\]]", text)
    bare = (inner[1] if inner else text).strip()
    if inner and not bare:
        return ()
    parts = [part.strip() for part in re.split(r"[,x×*]", bare)]
    parts = parts[:-1] if len(parts) > 1 and not parts[-1] else parts  # (8,)
    if not all(re.fullmatch(r"\d+", part) for part in parts):
        return None
    return tuple(map(int, parts))


def _mark(given: GivenInput, mark: str) -> GivenInput:
    """Return the input with one thing more that stands behind a colon."""
    key, equals, value = mark.partition("=")
    if key in _LAYOUTS:
        return replace(given, layout=_check_layout(given, key))
    if key in ("grad", "requires_grad", "nograd"):
        return replace(given, grad=key != "nograd")
    if key == "strides" and equals:
        strides = _read_sizes(value)
        if strides is None or len(strides) != len(given.shape or ()):
            raise _refuse(given.text, f"strides={value} is not one number for each size")
        return replace(given, strides=strides)
    if key == "below" and equals:
        if not value.isdigit() or not int(value):
            raise _refuse(given.text, f"below={value} is no number above 0")
        return replace(given, below=int(value))
    name = dtype_name(mark)
    if name not in _DTYPES:
        known = (*_SHORT, *_DTYPES, *_MARKS)
        raise _refuse(given.text, f"{mark!r} is no dtype: {suggestion(name, known)}")
    return replace(given, dtype=name)


def dtype_name(typed: str) -> str:
    """Return torch's name of a dtype as it was typed, ``bf16`` or ``torch.bfloat16``."""
    name = typed.removeprefix("torch.").lower()
    return _SHORT.get(name, name)


def _check_layout(given: GivenInput, layout: str) -> str:
    wanted = 4 if layout == "channels_last" else 5
    if len(given.shape or ()) != wanted:
        raise _refuse(given.text, f"{layout} needs {wanted} sizes")
    return layout


def _read_value(text: str, value: str) -> Scalar:
    if value.lower() in _WORDS:
        return _WORDS[value.lower()]
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    if not re.match(r"[A-Za-z_]", value):
        raise _refuse(text, f"{value!r} is neither a shape nor a number")
    return value


def _refuse(text: str, what: str) -> PerfcliError:
    return PerfcliError(
        f"--input {text}: {what}; expected [NAME=]SHAPE:DTYPE, for example {EXAMPLE} or "
        "--input tokens=4x1024:int64, or a plain value, --input n=3"
    )

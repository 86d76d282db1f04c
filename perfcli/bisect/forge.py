"""Variants of one scenario, compiled as far as a search needs them, each class of code once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from perfcli import units
from perfcli.bisect.knowledge import Knowledge, Unread, _class_of, _name_of, _parts_of
from perfcli.bisect.metrics import SearchMetric, _value_of
from perfcli.bisect.space import Settings, Space
from perfcli.blobs import unpack
from perfcli.errors import PerfcliError, UserCodeFailed, WorkerFailed
from perfcli.model import Bundle, CompileRequest, Generated, KernelFacts, KernelText, Run
from perfcli.search.drive import Code
from perfcli.worker.roles import Generator, Made
from perfcli.workflow.request import describe

_UNSET = ""


def _common_base(wanted: Sequence[Settings], least: int) -> Settings | None:
    """Return each setting as most of the variants have it.

    None where fewer than ``least`` of them set all that it sets: what leaves one out can't part
    from it.
    """
    names = dict.fromkeys(name for settings in wanted for name in settings)
    base = {}
    for name in sorted(names):
        values = Counter(_text(settings, name) for settings in wanted)
        ((text, _),) = values.most_common(1)
        if text != _UNSET:
            base[name] = json.loads(text)
    parting = sum(base.keys() <= settings.keys() for settings in wanted)
    return base if parting >= least else None


def _text(settings: Settings, name: str) -> str:
    return json.dumps(settings[name]) if name in settings else _UNSET


def _texts_of(bundle: Bundle) -> list[tuple[KernelFacts, KernelText]]:
    """Return all of a variant."""
    return [(kernel, _text_kernels(kernel, bundle)) for kernel in bundle.run.kernels]


def _text_kernels(kernel: KernelFacts, bundle: Bundle) -> KernelText:
    source = unpack(bundle.blobs[kernel.source])
    return KernelText(_own_name(kernel.name, source), kernel.language, source, kernel.kind)


def _own_name(name: str, source: str) -> str:
    """Return the kernel's name in its text, where Inductor may have shortened it: the last function
    at the top."""
    if f"def {name}(" in source:
        return name
    tops = [line for line in source.splitlines() if line.startswith("def ")]
    return tops[-1].removeprefix("def ").partition("(")[0] if tops else name


def _key_of(kernel: KernelFacts, text: KernelText) -> tuple[object, ...]:
    """Return what a kernel's binaries, and the work of its launches, depend on."""
    numbers = sorted({**kernel.sizes, **kernel.scalars}.items())
    # Inductor numbers kernels: one more shifts the names of all that follow.
    return text.source.replace(text.name, "kernel"), tuple(numbers)


class Forge:
    """``request`` is that of the base: its variant is replaced. ``changed`` is called when there is
    more to know."""

    def __init__(
        self,
        generator: Generator,
        request: CompileRequest,
        space: Space,
        metric: SearchMetric,
        known: Knowledge,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.request = request
        self.space = space
        self.metric = metric
        self.known = known
        self.compiled = 0
        """Variants whose code was generated here; those known before are not counted."""
        self.failures: dict[str, str] = {}
        """Why variants that were asked for have no answer, by ``name_of`` their settings."""
        self.details: dict[str, str] = {}
        """What is printed below these errors, of those that came in this search."""
        self.generator = generator
        self.measured: Callable[[Settings], float] | None = None
        """What is asked for the metric in place of the code, where there is a device."""
        self.told: Callable[[str], None] = lambda doing: None
        """What hears what is done now."""
        self.read: Callable[[Run], Mapping[str, float]] = self._read_metric
        """What reads values off a compiled variant, by name: the metric's, and others to keep."""
        self.skim: Callable[[Settings, Run], Mapping[str, float]] = lambda settings, run: {}
        """What tells from code alone that its binaries need not be looked at: a value of the metric
        to go on with, and others to keep; empty where they are."""
        self.skimmed: set[str] = set()
        """Classes of which only that is known."""
        self._changed = changed
        self._bundles: dict[str, Bundle] = {}
        self._runs: dict[str, Run] = {}
        self._made: dict[tuple[object, ...], KernelFacts] = {}
        self._ahead: set[str] = set()
        """Classes whose kernels were compiled before their values were asked for."""
        self._unread = Unread()

    @property
    def classes(self) -> int:
        """Return how many classes of identical code there are, as far as it decides the metric: all
        that are known."""
        known = self.known.codes.items()
        return len({self._class(code, json.loads(n)).name for n, code in known if code.name})

    def detail_of(self, settings: Settings) -> str:
        """Return what is printed below a variant's error: the user's part of the traceback."""
        return self.details.get(_name_of(settings), "")

    def request_of(self, settings: Settings) -> CompileRequest:
        variant = self.space.variant(settings, self.request.variant.python)
        return replace(self.request, variant=replace(variant, name=describe(variant)))

    def codes(self, wanted: Sequence[Settings]) -> list[Code]:
        """Return the class of each."""
        found = dict(self.arriving(wanted))
        return [found[number] for number in range(len(wanted))]

    def arriving(self, wanted: Sequence[Settings]) -> Iterator[tuple[int, Code]]:
        """Yield the class of each, as they come; those that are not known are compiled.

        A variant that does not compile has no class; what killed its worker may not do so again,
        and is not kept.
        """
        names = [_name_of(settings) for settings in wanted]
        missing: dict[str, Settings] = {}
        for number, settings in enumerate(wanted):
            self._infer(settings)
            code = self.known.codes.get(names[number]) or self.known.failed.get(names[number])
            if code is not None:
                yield number, self._told(code, settings)
            else:
                missing[names[number]] = settings
        for name, code in self._compiled(missing):
            for number, settings in enumerate(wanted):
                if names[number] == name:
                    yield number, self._told(code, settings)

    def _compiled(self, missing: dict[str, Settings]) -> Iterator[tuple[str, Code]]:
        """Yield codes by name; what the others have in common is compiled once."""
        if not missing:
            return
        base = None
        if self.request.script is None:  # what a script does besides is not done in two processes
            base = _common_base(list(missing.values()), self.request.jobs + 1)
        asked = dict(missing)
        if base is not None and not self._unread.has(base):
            asked.setdefault(_name_of(base), base)
        for name, code in self._generated(asked, base):
            if missing.pop(name, None) is not None:
                yield name, code
        for name, settings in missing.items():
            # Left out, as it is the base in all that was read.
            self._infer(settings)
            if name in self.known.codes:
                yield name, self.known.codes[name]
            else:
                yield from self._generated({name: settings}, None)

    def _generated(
        self, asked: dict[str, Settings], base: Settings | None
    ) -> Iterator[tuple[str, Code]]:
        names = list(asked)
        requests = [self.request_of(settings) for settings in asked.values()]
        common = None if base is None else self.request_of(base)
        left = len(requests)
        self.told(f"compiling the code of {units.plural(left, 'variant')}")
        for place, made in self.generator.generate(requests, common):
            name = names[place]
            left -= 1
            if left:
                self.told(f"compiling the code of {units.plural(left, 'more variant')}")
            self.compiled += 1
            code = self._code(made, asked[name])
            if isinstance(made, PerfcliError):
                self.details[name] = made.detail
            # A user's code that was edited since, or a worker that died, may do better next time.
            if isinstance(made, UserCodeFailed):
                self.known.failed[name] = code
            elif not isinstance(made, WorkerFailed):
                self.known.codes[name] = code
            self._changed()
            yield name, code

    def _told(self, code: Code, settings: Settings) -> Code:
        """Return its class, and tell whoever watches."""
        if code.name is None:
            self.failures[_name_of(settings)] = code.failure
        return self._class(code, settings)

    def _class(self, code: Code, settings: Settings) -> Code:
        if code.name is None:
            return code
        parts = self.known.parts.get(code.name, {})
        measured = self.measured is not None
        return Code(_class_of(code.name, settings, self.metric, parts, measured))

    def awakes(self, base: Settings, name: str) -> bool:
        """Return whether an option that nobody reads without any change is read in ``base``, or may
        be."""
        before = self._unread.is_read(self.space.settings(frozenset()), name)
        return not before and self._unread.is_read(base, name) is not False

    def is_valued(self, settings: Settings) -> bool:
        """Return whether its class and its value are known."""
        code = self.known.codes.get(_name_of(settings))
        return code is not None and self.has_value(self._class(code, settings).name or "")

    def is_refused(self, settings: Settings) -> bool:
        """Return whether torch can't compile it, unlike code of the user's that raised."""
        code = self.known.codes.get(_name_of(settings))
        return code is not None and code.name is None

    def can_infer(self, settings: Settings) -> bool:
        """Return whether its class needs no compiling, by what is known now."""
        return self._unread.code_of(settings) is not None

    def _infer(self, settings: Settings) -> None:
        """Note its class if that needs no compiling."""
        name = _name_of(settings)
        if name in self.known.codes or (code := self._unread.code_of(settings)) is None:
            return
        self.known.codes[name] = Code(code)
        self.known.inferred.add(name)
        self._changed()

    def _code(self, made: Made, settings: Settings) -> Code:
        if isinstance(made, PerfcliError):
            return Code(None, str(made))
        self._unread.add(settings, made.code, made.unread)
        self.known.add_sources(made.bundle.run.sources)
        self.known.parts.setdefault(made.code, _parts_of(made))
        code = self._class(Code(made.code), settings).name
        assert code is not None
        if not self.has_value(code):
            self._look(code, made, settings)
        return Code(made.code)

    def _look(self, code: str, made: Generated, settings: Settings) -> None:
        """Take the value where the code tells it, else keep what it is told of.

        Where it is not known the variant still has its code: another metric may be.
        """
        if self.measured is not None or self.metric.is_timed:
            return
        run, skims = made.bundle.run, self.metric.kind == "binary"
        with suppress(PerfcliError):
            if values := self.skim(settings, run) if skims else self.read(run):
                self._know(code, values)
                if skims:
                    self.skimmed.add(code)
                return
        self._bundles[code] = made.bundle

    def _read_metric(self, run: Run) -> dict[str, float]:
        return {self.metric.name: _value_of(self.metric, run)}

    def _know(self, code: str, values: Mapping[str, float]) -> None:
        self.known.values.setdefault(code, {}).update(values)
        self._changed()

    def has_value(self, code: str) -> bool:
        """Return whether ``value`` has nothing to do for this class."""
        return self.metric.name in self.known.values.get(code, {})

    def value(self, settings: Settings, code: str) -> float:
        """Return the exact metric of a class. Raises PerfcliError where it has none, CompileFailed
        where Triton refuses a kernel."""
        found = self.known.values.get(code, {}).get(self.metric.name)
        if found is not None:
            return found
        if self.measured is not None:
            value = self.measured(settings)
            self._know(code, {self.metric.name: value})
            return value
        self.compile(settings, code)
        return self.known.values[code][self.metric.name]

    def compile(self, settings: Settings, code: str) -> Run:
        """Return the run of a class, with the binaries of its kernels where the metric is of these;
        then its value is known. Raises as ``value``."""
        if code in self._runs:
            return self._runs[code]
        self._compile_kernels_ahead()
        bundle = self._bundles.pop(code, None) or self._again(settings)
        run = bundle.run
        if self.metric.kind == "binary":
            weighs = self.metric.is_estimated
            kernels = self._with_binaries(_texts_of(bundle), self.request_of(settings))
            run = replace(run, kernels=kernels, weighed=weighs)
        self._know(code, self.read(run))
        self._runs[code] = run
        return run

    def _with_binaries(
        self, texts: Sequence[tuple[KernelFacts, KernelText]], request: CompileRequest
    ) -> tuple[KernelFacts, ...]:
        """Return the kernels with their candidates. What has the same text and sizes as a kernel of
        an earlier class is not asked for again: of a large model a variant changes a few."""
        keys = [_key_of(kernel, text) for kernel, text in texts]
        missing = {
            key: pair for key, pair in zip(keys, texts, strict=True) if key not in self._made
        }
        if missing:
            weighs = self.metric.is_estimated
            self.told(f"compiling {units.plural(len(missing), 'kernel')}")
            made = self.generator.with_binaries([*missing.values()], request, weighs)
            self._made.update(zip(missing, made, strict=True))
        found = [(kernel, self._made[key]) for key, (kernel, _) in zip(keys, texts, strict=True)]
        return tuple(
            replace(
                kernel,
                candidates=made.candidates,
                alternatives=made.alternatives,
                notes=tuple(dict.fromkeys((*kernel.notes, *made.notes))),
            )
            for kernel, made in found
        )

    def _compile_kernels_ahead(self) -> None:
        """Compile the kernels of all classes that wait for their values at one go, so that all
        cores have one: what a class asks for alone is often a single kernel."""
        waiting = [b for code, b in self._bundles.items() if code not in self._ahead]
        self._ahead.update(self._bundles)
        if self.metric.kind != "binary" or len(waiting) < 2:
            return
        try:
            self._with_binaries([pair for b in waiting for pair in _texts_of(b)], self.request)
        except PerfcliError:  # one is refused, and what the others compiled to is cached
            for bundle in waiting:
                with suppress(PerfcliError):
                    self._with_binaries(_texts_of(bundle), self.request)

    def generate_again(self, settings: Settings) -> float:
        """Return the seconds that generating the code takes, nothing else being compiled."""
        return self._again(settings).run.compile_seconds["trace"]

    def _again(self, settings: Settings) -> Bundle:
        """Compile it again: its class is known from an earlier search, its kernels are not."""
        ((_, made),) = self.generator.generate([self.request_of(settings)])
        if isinstance(made, PerfcliError):
            raise made
        self.compiled += 1
        self.known.add_sources(made.bundle.run.sources)
        return made.bundle

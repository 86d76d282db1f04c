"""Turns what stands on the command line into requests that a worker can compile."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfcli import units
from perfcli.errors import PerfcliError
from perfcli.loading import registry
from perfcli.loading.builders import check_builder
from perfcli.loading.inputs import join_inputs, read_inputs
from perfcli.loading.references import Reference, name_missing, parse_reference
from perfcli.machine import environment, targets
from perfcli.machine.environment import Interpreter
from perfcli.model import CompileRequest, Device, Run, Scalar, ScriptCommand, Target, Variant
from perfcli.options import assignments, files
from perfcli.storing.whole import spare
from perfcli.workflow.context import Context, Probe
from perfcli.workflow.fingerprint import Job, make_job
from perfcli.workflow.worktrees import describe_revision, pin_reference, read_text

DEFAULT_TARGET = "h100"


@dataclass(frozen=True, slots=True)
class Question:
    """Says what is compiled, whichever variant compiles it."""

    scenario: str
    """As typed; see ``loading.references``."""
    params: tuple[str, ...] = ()
    preset: str | None = None
    target: str | None = None
    device: str | None = None
    dynamic: bool = False
    threads: int | None = None
    """That kernels for the CPU are generated for; None: torch's own number."""
    vary: str | None = None
    """A parameter and the values that the compiled model is called with: ``batch=4,8,16``."""
    world: int = 1
    """Ranks of the process group that the model runs in."""
    toggles: tuple[str, ...] = ()
    """Options that the two sides of a comparison have differently: ``OPT``, or ``OPT=VAL``."""
    steps: int | None = None
    """How many steps a script runs for; None: what ``ScriptCommand`` says."""
    inputs: tuple[str, ...] = ()
    """What a class, an instance or a function is called with: ``x=8x128:bf16``."""
    folder: str = ""
    """Absolute folder that it runs in; empty: the current one."""

    def ask_side(self, side: Side) -> Question:
        """Return the question as one side asks it."""
        return replace(
            self,
            scenario=side.scenario or self.scenario,
            params=(*self.params, *side.params),
            inputs=join_inputs(self.inputs, side.inputs),
        )


@dataclass(frozen=True, slots=True)
class Side:
    """Holds one variant as typed: assignments, the interpreter that has torch, and what this side
    alone has of the question."""

    assignments: tuple[str, ...] = ()
    python: str | None = None
    scenario: str = ""
    """What is compiled; empty: what the question says."""
    params: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()


def order_jobs(question: Question, sides: Sequence[Side], context: Context) -> list[Job]:
    """Return a job for each side, the question's toggles applied. Raises PerfcliError for what the
    user got wrong, and where the sides are the same."""
    for text in dict.fromkeys(side.scenario or question.scenario for side in sides):
        check_compiled(text, context)
    probe = context.choose_probe(question.device)
    for toggle in question.toggles:
        sides = _toggle_sides(toggle, sides, probe)
    jobs = make_jobs(question, sides, probe, context.jobs)
    if len(jobs) > 1 and len({job.fingerprint for job in jobs}) == 1:
        empty = _list_empty_files(sides)
        raise PerfcliError(
            f"both sides are the same: {' and '.join(empty)} sets no option"
            if empty
            else "both sides are the same: say what differs with -a OPT=VAL, -b OPT=VAL, "
            "--toggle OPT, --b-param, --b-python, or name two things to compare"
        )
    if len(jobs) > 1 and (said := _find_defaults(jobs)):
        context.notes.warn(f"both sides are the same: {said}")
    return jobs


def check_compiled(text: str, context: Context) -> None:
    """Say which commit is meant where a text on the command line names a revision. Raise
    PerfcliError where it names what is not compiled, or a file that will be written."""
    reference = read_reference(text)
    if reference.kind == "run":
        what = name_foreign(Path(text)) or "a stored run"
        if Path(text).is_dir():
            what = f"a folder ({what})"
        raise PerfcliError(
            f"{text} is {what}, not a scenario: compare takes two of them, explain and "
            "inspect-kernel one"
        )
    if reference.path:
        spare(Path(reference.path), context.written)
    if reference.revision and pin_reference(reference) != reference:
        context.notes.say(f"{text}: {describe_revision(reference)}")


def name_foreign(path: Path) -> str:
    """Return what a path is that is imported, as ``bringing.name_foreign``; what reads such things
    is imported only where there is a path."""
    if not path.exists():
        return ""
    from perfcli.importing import bringing

    return bringing.name_foreign(path)


def read_reference(text: str) -> Reference:
    """Return what a text on the command line means. Raises PerfcliError as ``parse_reference``."""
    return parse_reference(text, name_foreign)


def make_jobs(
    question: Question, sides: Sequence[Side], probe: Probe, jobs: int | None = None
) -> list[Job]:
    """Return requests for all sides of a question, in jobs. Raises PerfcliError for whatever the
    user got wrong, before anything is compiled."""
    device, target = choose_device(question.device, question.target)
    made = []
    for side in sides:
        asked = question.ask_side(side)
        reference = pin_reference(read_reference(asked.scenario))
        # A script runs as it is where its device was asked for and is here.
        here = question.device == "cuda" and not question.target and targets.has_gpu()
        params, preset, varied = _read_params(asked, reference)
        interpreter = probe(side.python)
        request = build_request(
            reference.text,
            make_variant(side, interpreter, device),
            params=params,
            preset=preset,
            device=device,
            target=target,
            dynamic=question.dynamic,
            jobs=jobs,
            threads=question.threads,
            varied=varied,
            world=question.world,
            inputs=asked.inputs,
            on_device=reference.script is not None and here,
            script=_count_steps(reference, question.steps),
            folder=question.folder,
        )
        made.append(make_job(request, interpreter))
    return made


def _count_steps(reference: Reference, steps: int | None) -> ScriptCommand | None:
    """Return the script, which runs for so many steps. Raises PerfcliError where there is none."""
    if steps is None:
        return reference.script
    if reference.script is None:
        raise PerfcliError(f"--steps {steps} is for scripts, and {reference.text} is none")
    return replace(reference.script, steps=steps)


def make_variant(side: Side, interpreter: Interpreter, device: Device) -> Variant:
    """Return the variant that a side means in its interpreter. Raises PerfcliError for options
    that its torch or the device does not know."""
    variant = Variant("", python=side.python)
    if side.assignments:
        catalogue = assignments.load_catalogue(interpreter.torch_dir)
        variant = assignments.make_variant("", side.assignments, catalogue, python=side.python)
        assignments.check_device(variant, catalogue, device)
    # Named as typed; started by its path, since a virtual environment's folder will do.
    path = interpreter.path if side.python else None
    return replace(variant, name=describe(variant), python=path)


def build_request(
    scenario: str,
    variant: Variant,
    *,
    params: Mapping[str, Scalar] | None = None,
    preset: str | None = None,
    device: Device = "cuda",
    target: Target | None = None,
    dynamic: bool = False,
    jobs: int | None = None,
    threads: int | None = None,
    varied: Sequence[Mapping[str, Scalar]] = (),
    world: int = 1,
    on_device: bool = False,
    cache_dir: str | None = None,
    inputs: Sequence[str] = (),
    script: ScriptCommand | None = None,
    folder: str = "",
) -> CompileRequest:
    """Return what a worker compiles. This is the one place where such a request is made: what it
    leaves out has the same meaning for whoever asks."""
    return CompileRequest(
        scenario=scenario,
        params=dict(params or {}),
        preset=preset,
        variant=variant,
        device=device,
        target=target,
        dynamic=dynamic,
        jobs=jobs or len(os.sched_getaffinity(0)),
        cache_dir=str(environment.cache_dir()) if cache_dir is None else cache_dir,
        on_device=on_device,
        threads=threads,
        varied=tuple(varied),
        script=script,
        world=world,
        inputs=tuple(inputs),
        folder=folder,
    )


def _toggle_sides(toggle: str, sides: Sequence[Side], probe: Probe) -> list[Side]:
    """Make the two sides of ``--toggle``: a yes-or-no option's default and the other value, or with
    ``OPT=VAL`` whatever the default is and that value."""
    base, head = sides
    if "=" in toggle:
        return [base, replace(head, assignments=(*head.assignments, toggle))]
    added = []
    for number, side in enumerate(sides):
        catalogue = assignments.load_catalogue(probe(side.python).torch_dir)
        entry = assignments.find(catalogue, toggle)
        assignment = f"{entry.name}={str(assignments.toggle(entry)[number]).lower()}"
        added.append(replace(side, assignments=(*side.assignments, assignment)))
    return added


def _list_empty_files(sides: Sequence[Side]) -> list[str]:
    """Return the files of options that were typed and set nothing."""
    typed = dict.fromkeys(text for side in sides for text in side.assignments)
    return [text for text in typed if files.is_file(text) and not files.read_file(Path(text))]


def _find_defaults(jobs: Sequence[Job]) -> str:
    """Return what to say where two sides differ in nothing but options set to their default; else
    empty."""
    own: list[object] = []
    said: dict[str, None] = {}
    for job in jobs:
        variant, interpreter = job.request.variant, job.interpreter
        catalogue = assignments.load_catalogue(interpreter.torch_dir) if variant.options else None
        usual = assignments.defaults(variant, catalogue) if catalogue else {}
        rest = {name: value for name, value in variant.options.items() if name not in usual}
        own.append((interpreter, rest, dict(variant.env)))
        said |= dict.fromkeys(
            f"{name}={units.setting(value)} is the default of torch {interpreter.torch} already"
            for name, value in usual.items()
        )
    return " and ".join(said) if said and own[0] == own[-1] else ""


def describe(variant: Variant) -> str:
    """Return ``default``, or what the variant sets: ``triton.cudagraphs=true python
    2.15/bin/python``."""
    settings = [*units.settings(variant.options)]
    settings += [f"{name}={value}" for name, value in variant.env.items()]
    if variant.python:
        settings.append(f"python {variant.python}")
    return " ".join(settings) or "default"


def check_question(question: Question) -> None:
    """Raise PerfcliError for a file that is not there, and for parameters that a shipped scenario
    does not have. Nothing is compiled, and no interpreter is asked."""
    _read_params(question, read_reference(question.scenario))


def recompile(run: Run, variant: Variant, jobs: int | None = None) -> CompileRequest:
    """Build what compiles a stored run's question again, in another variant. A user's file resolves
    the parameters once more: those of the run are all of them, typed."""
    return build_request(
        run.scenario,
        variant,
        params=run.params,
        device=run.device,
        target=run.target,
        dynamic=run.dynamic,
        jobs=jobs,
        threads=run.threads,
        world=run.world,
        varied=[call.params for call in run.recompilations.varied] if run.recompilations else (),
        script=run.script,
        inputs=run.inputs,
    )


def choose_device(device: str | None, target: str | None) -> tuple[Device, Target | None]:
    """Return the device and target that are meant: cuda where there is a GPU, else a target without
    one. Raises PerfcliError where the two contradict each other or the device is not there."""
    if device == "cpu":
        if target:
            raise PerfcliError(f"--target {target} is a GPU: leave out --target or --device cpu")
        return "cpu", None
    if device not in (None, "cuda"):
        raise PerfcliError(f"--device is cuda or cpu, not {device!r}")
    if target:
        return "cuda", targets.get(target)
    if device == "cuda" or targets.has_gpu():
        return "cuda", targets.this_gpu()
    return "cuda", targets.get(DEFAULT_TARGET)


_Varied = list[dict[str, Scalar]]


def _read_params(
    question: Question, reference: Reference
) -> tuple[dict[str, Scalar], str | None, _Varied]:
    """Return the typed parameters, and those that further calls have otherwise; those of a user's
    file stay text, with the preset, because only a worker may run the file and knows them."""
    given: dict[str, Scalar] = dict(_split(text) for text in question.params)
    varied = _read_varied(question.vary, given)
    if varied:
        given |= varied[0]
    if reference.script is not None:
        _check_script(question, reference)
        return {}, None, []
    if reference.kind == "file":
        if reference.revision:
            _check_revision(reference, given, question.inputs)
            return given, question.preset, varied[1:]
        if not Path(reference.path).is_file():
            missing = name_missing(Path(reference.path), reference.path)
            raise PerfcliError(f"{missing}: expected path/to/file.py or path/to/file.py:name")
        check_builder(reference.path, reference.name, given, read_inputs(question.inputs))
        return given, question.preset, varied[1:]
    if Path(question.scenario).is_dir():
        raise PerfcliError(f"{question.scenario} is a folder: name a file in it, path/to/model.py")
    scenario = registry.scenario(question.scenario)
    if question.inputs:
        raise PerfcliError(
            f"{scenario.name} makes its own inputs: leave out --input; perfcli scenarios "
            f"{scenario.name} lists its parameters"
        )
    every = [registry.resolve_params(scenario, question.preset, given | each) for each in varied]
    typed = [{name: params[name] for name in varied[0]} for params in every]
    return registry.resolve_params(scenario, question.preset, given), None, typed[1:]


def _check_revision(reference: Reference, given: Collection[str], inputs: Sequence[str]) -> None:
    """Raise PerfcliError for a file at a revision as for one that is here."""
    asked = read_inputs(inputs)
    text = read_text(reference)
    if not text:
        return
    try:
        check_builder(reference.path, reference.name, given, asked, text)
    except PerfcliError as error:
        raise PerfcliError(f"at {reference.revision}, {error}", detail=error.detail) from error


def _check_script(question: Question, reference: Reference) -> None:
    """Raise PerfcliError for a script that is not there, and for what only builders are given."""
    script = reference.script
    here = script is None or script.module or bool(reference.revision)
    if script is not None and not here and not Path(script.path).is_file():
        missing = name_missing(Path(script.path), script.path)
        raise PerfcliError(f"{missing}: expected a script, path/to/train.py")
    typed: dict[str, object] = {
        "-p": question.params,
        "--preset": question.preset,
        "--input": question.inputs,
    }
    typed |= {"--vary": question.vary, "--dynamic": question.dynamic}
    if wrong := [name for name, given in typed.items() if given]:
        raise PerfcliError(
            f"{reference.text} runs as a script, for which there is no {wrong[0]}: give it its own "
            "arguments (after --), or name what is compiled, path/to/file.py:name"
        )


def _read_varied(text: str | None, given: Mapping[str, Scalar]) -> _Varied:
    """Return the parameters of each call that ``--vary`` asks for: the run's own, then others."""
    if text is None:
        return []
    name, values = _split(text)
    if name in given:
        raise PerfcliError(f"--vary gives {name} its values: leave out -p {name}={given[name]}")
    listed = [value.strip() for value in values.split(",")]
    if len(listed) < 2 or not all(listed):
        raise PerfcliError(
            f"--vary takes two values or more, for example {name}=4,8,16; got {text!r}"
        )
    if repeated := [value for value in listed if listed.count(value) > 1]:
        raise PerfcliError(f"--vary has {name}={repeated[0]} twice: every call needs its own size")
    return [{name: value} for value in listed]


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise PerfcliError(f"a parameter is written NAME=VALUE, for example layers=3; got {text!r}")
    return name.strip(), value.strip()

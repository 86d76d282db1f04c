"""Weighs each machine instruction by how often it runs, and says what one warp waits for.

The machine code says how a loop was unrolled and which loads were merged; the index arithmetic
says how often each source line runs. Joined, every instruction gets a weight: its runs per warp.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from perfcli.facts.binary.sass import Instruction, Listing
from perfcli.facts.work.pipes import Pipe, Register, _bits_of, _registers_of, pipe_of
from perfcli.model import WarpWork

LATENCY_CYCLES: Mapping[Pipe, float] = {
    "special": 26,
    "float": 4.2,
    "integer": 4.6,
    "half": 5,
    "conversion": 20,
    "shuffle": 25,
    "shared-load": 30,
    "barrier": 22,
    "uniform": 8,
    "double": 16,
    "control": 6,
    "local-load": 40,
    "tensor": 33,
}
"""From issue to result in cycles, about, on Hopper; the calibration scales their sum."""
_OTHER_CYCLES = 5.0
_SLOW_PATH_INSTRUCTIONS = 60
"""A loop shorter than this that stores to local memory and loads nothing of the source is the slow
path of ``sin`` and ``cos`` for huge arguments: it never runs on data of a sane size."""
_SKIPPED_INSTRUCTIONS = 400
"""At most so many instructions that a branch jumps over are taken for such a path."""


Accesses = tuple[float, float]
"""Global memory instructions of a warp in one run of a source line: the least, where the compiler
merges what has one address, and the most, where it does not."""
_Trips = tuple[int, int]
"""Iterations of a loop, and what its counter grows by."""
Known = tuple[float, float]
"""The parts of the sectors of a line that the block loaded before: in the same sweep, and in an
earlier one."""


@dataclass(slots=True)
class _Code:
    """Holds a listing with what the weights are made of."""

    listing: Listing
    source_file: str
    pipes: list[Pipe] = field(init=False)
    lines: list[int] = field(init=False)
    loops: list[tuple[int, int]] = field(init=False)
    innermost: list[tuple[int, int] | None] = field(init=False)

    def __post_init__(self) -> None:
        code = self.listing.instructions
        self.pipes = [pipe_of(instruction) for instruction in code]
        self.lines = []
        last = 0
        for instruction in code:
            own = [line for name, line in instruction.places if name == self.source_file]
            last = own[-1] if own else last
            self.lines.append(last)
        self.loops = self._find_loops()
        self.innermost = [None] * len(code)
        for loop in sorted(self.loops, key=lambda ends: ends[0] - ends[1]):
            for place in range(loop[0], loop[1] + 1):
                self.innermost[place] = loop

    def _find_loops(self) -> list[tuple[int, int]]:
        """Return the first and last instruction of each loop: where a branch goes back to, and the
        branch."""
        ends: dict[int, int] = {}
        for place, instruction in enumerate(self.listing.instructions):
            if instruction.name != "BRA":
                continue
            for label in instruction.targets:
                start = self.listing.labels.get(label, place)
                if start < place:
                    ends[start] = max(ends.get(start, 0), place)
        return sorted(ends.items())

    def target(self, place: int) -> int | None:
        for label in self.listing.instructions[place].targets:
            if label in self.listing.labels:
                return self.listing.labels[label]
        return None


def trace_warp(
    code: _Code,
    line_runs: Mapping[int, float],
    accesses: Mapping[int, Accesses],
    known: Mapping[int, Known] | None = None,
    counters: Mapping[int, _Trips] | None = None,
    dividing: Collection[int] = (),
    parting: Collection[int] = (),
) -> WarpWork:
    """Weigh a kernel's instructions and follow one warp through them.

    ``line_runs`` says how often each source line runs in a program, ``accesses`` what a line asks
    of global memory, ``known`` how much of what a line loads the block has loaded before, and
    ``counters`` the iterations of a line's loop with what its counter grows by. ``dividing`` and
    ``parting`` are lines whose instructions are also counted apart.
    """
    listing = code.listing
    weights = _weights(code, line_runs, accesses, counters or {})
    issued: dict[str, float] = {}
    divided: dict[str, float] = {}
    parted: dict[str, float] = {}
    local = loads = stores = 0.0
    for place, instruction in enumerate(listing.instructions):
        pipe, weight = code.pipes[place], weights[place]
        issued[pipe] = issued.get(pipe, 0.0) + weight
        if code.lines[place] in dividing and weight:
            divided[pipe] = divided.get(pipe, 0.0) + weight
        if code.lines[place] in parting and weight:
            parted[pipe] = parted.get(pipe, 0.0) + weight
        if pipe in ("local-load", "local-store"):
            local += weight * _bits_of(instruction.opcode) / 8 * 32
        loads += weight * (pipe == "global-load")
        stores += weight * (pipe == "global-store")
    waits = _walk(code, weights, known or {})
    return WarpWork(
        issued,
        waits.stalls,
        waits.rounds,
        local,
        len(listing.instructions),
        loads,
        stores,
        waits.near,
        waits.again,
        divided,
        parted,
    )


def _widths_of(code: _Code) -> dict[tuple[int, str], int]:
    """Return the most bytes that one instruction of a thread moves to or from global memory, by
    source line and by ``load`` or ``store``. Where the compiler can't prove that a mask is alike
    for neighbours, it moves single elements however they lie."""
    found: dict[tuple[int, str], int] = {}
    for line, pipe, instruction in zip(
        code.lines, code.pipes, code.listing.instructions, strict=True
    ):
        kind = _WIDTH_KINDS.get(pipe)
        if kind and not instruction.name.startswith("U"):  # bulk copies have no width
            width = _bits_of(instruction.opcode) // 8
            found[line, kind] = max(found.get((line, kind), 0), width)
    return found


_WIDTH_KINDS: Mapping[Pipe, str] = {
    "global-load": "load", "async-copy": "load", "global-store": "store",
}  # fmt: skip


# --- how often -------------------------------------------------------------------------------


def _weights(
    code: _Code,
    line_runs: Mapping[int, float],
    accesses: Mapping[int, Accesses],
    counters: Mapping[int, _Trips],
) -> list[float]:
    left = dict(line_runs)
    loops = {loop: _loop_runs(code, loop, line_runs, accesses, counters) for loop in code.loops}
    runs = _share_out(code, loops, line_runs, accesses, left)
    never = _never_run(code, runs, accesses) | _left_over(code, line_runs, accesses, left)
    weights = []
    for place, line in enumerate(code.lines):
        loop = code.innermost[place]
        if place in never:
            weights.append(0.0)
        elif loop is not None:
            weights.append(runs[loop])
        elif code.loops and line and line_runs.get(line, 1.0) == 0:
            weights.append(0.0)
        else:
            weights.append(min(1.0, line_runs.get(line, 1.0)))
    return weights


@dataclass(frozen=True, slots=True)
class _LoopRuns:
    """Holds how often a loop in the binary runs if it alone does all that its source lines ask
    for."""

    iterations: float
    unrolled: int
    """How many iterations of the source one iteration of the binary does."""
    line: int
    """The source line that says how often the loop runs."""


def _share_out(
    code: _Code,
    loops: Mapping[tuple[int, int], _LoopRuns],
    line_runs: Mapping[int, float],
    accesses: Mapping[int, Accesses],
    left: dict[int, float],
) -> dict[tuple[int, int], float]:
    """Return how often each loop runs. Several loops in the binary for one in the source (unrolled,
    and what remains) share its iterations: the one that is unrolled most takes what it can.
    ``left`` is told what remains of each line."""
    runs: dict[tuple[int, int], float] = {}
    for loop, own in sorted(loops.items(), key=lambda item: -item[1].unrolled):
        if not accesses.get(own.line):
            runs[loop] = max(1.0, own.iterations)
            continue
        available = min(left.get(own.line, 0.0), line_runs.get(own.line, 0.0))
        taken = available / own.unrolled
        if any(o != loop and loops[o].line == own.line for o in loops):
            taken = float(int(taken))
        elif available >= own.unrolled:
            taken = max(1.0, taken)
        runs[loop] = taken
        for line in {code.lines[place] for place in range(loop[0], loop[1] + 1)}:
            if line in left:
                left[line] = max(0.0, left[line] - taken * own.unrolled)
    return runs


def _left_over(
    code: _Code,
    line_runs: Mapping[int, float],
    accesses: Mapping[int, Accesses],
    left: Mapping[int, float],
) -> set[int]:
    """Return straight code outside of loops that loads for iterations which loops have run already:
    the compiler adds it where it does not know the number of iterations."""
    never: set[int] = set()
    ends: dict[int, int] = {}
    """Source line to the last instruction of the first loop that loads for it."""
    for first, last in code.loops:
        for place in range(first, last + 1):
            if code.pipes[place] == "global-load":
                ends.setdefault(code.lines[place], last)
    labels = set(code.listing.labels.values())
    block: list[int] = []
    for place, instruction in enumerate(code.listing.instructions):
        if place in labels:
            block = []
        if code.innermost[place] is not None:
            continue
        block.append(place)
        if instruction.name not in ("BRA", "EXIT", "BSYNC"):
            continue
        lines = [code.lines[p] for p in block if code.pipes[p] == "global-load"]
        looped = [n for n in lines if line_runs.get(n, 0.0) > 1 and accesses.get(n)]
        is_behind = all(ends.get(n, place) < block[0] for n in looped)
        if looped and len(looped) == len(lines) and is_behind and all(left[n] < 1 for n in looped):
            never.update(block)
        block = []
    return never


def _loop_runs(
    code: _Code,
    loop: tuple[int, int],
    line_runs: Mapping[int, float],
    accesses: Mapping[int, Accesses],
    counters: Mapping[int, _Trips],
) -> _LoopRuns:
    """Return how often a loop in the binary runs: the iterations of its source lines over how often
    the compiler unrolled it. The loop's counter tells the latter, or else the number of memory
    instructions of a line."""
    memory: Counter[int] = Counter()
    lines: set[int] = set()
    for place in range(loop[0], loop[1] + 1):
        if code.innermost[place] != loop or not code.lines[place]:
            continue
        lines.add(code.lines[place])
        if code.pipes[place] in ("global-load", "global-store", "atomic", "async-copy"):
            memory[code.lines[place]] += 1
    looped = [line for line in lines if line_runs.get(line, 0.0) > 1]
    telling = [line for line in looped if memory[line]] or looped
    if not telling:
        return _LoopRuns(max((line_runs.get(line, 0.0) for line in lines), default=1.0), 1, 0)
    most = max(telling, key=lambda line: (line_runs[line], line in accesses, -line))
    # Every line says between which numbers of iterations one in the binary is: the largest of the
    # least agrees with all, unless the compiler merges loads of several iterations.
    told = [
        (memory[line] / accesses[line][1], memory[line] / accesses[line][0])
        for line in telling
        if memory[line] and accesses.get(line)
    ]
    factor = _unrolled_by_counter(code, loop, counters)
    if factor is None and told:
        least, most_ = max(low for low, _ in told), min(high for _, high in told)
        agreed = least if least <= most_ else sorted(low for low, _ in told)[len(told) // 2]
        factor = max(1, round(agreed))
    factor = factor or 1
    return _LoopRuns(line_runs[most] / factor, factor, most)


def _unrolled_by_counter(
    code: _Code, loop: tuple[int, int], counters: Mapping[int, _Trips]
) -> int | None:
    """Return how many iterations of the source one in the binary does: what is added to the
    register that the loop's last branch compares with a number, over what the source's counter
    grows by. What counts something else (bytes, say) reaches that number after another number of
    iterations."""
    instructions = code.listing.instructions
    body = range(loop[1] - 1, loop[0] - 1, -1)
    predicate = instructions[loop[1]].predicate.lstrip("@!")
    test = next((p for p in body if _tests(instructions[p], predicate)), None)
    if test is None:
        return None
    operands = instructions[test].operands
    limit = _number(operands.split(","))
    if limit is None:
        return None
    for register in re.findall(r"\bU?R\d+\b", operands):
        for place in body:
            counter = counters.get(code.lines[place])
            added = _added(instructions[place], register)
            if code.innermost[place] != loop or counter is None or not added:
                continue
            iterations, step = counter
            factor, rest = divmod(added, step)
            if factor and not rest and abs(limit / added - iterations / factor) < 1:
                return factor
    return None


def _tests(instruction: Instruction, predicate: str) -> bool:
    """Return whether an instruction compares what ``predicate`` stands for. A comparison of 64 bits
    takes two; the one of the lower half counts."""
    compares = instruction.name in ("ISETP", "UISETP") and ".EX" not in instruction.opcode
    return compares and instruction.operands.split(",")[0].strip() == predicate


def _added(instruction: Instruction, register: str) -> int | None:
    """Return the number that an instruction adds to a register, or None where it adds none."""
    if instruction.name not in ("IADD3", "UIADD3", "VIADD") or ".X" in instruction.opcode:
        return None
    parts = [part.strip().removesuffix(".reuse") for part in instruction.operands.split(",")]
    if parts[0] != register or register not in parts[1:]:
        return None
    return _number(parts)


def _number(operands: Sequence[str]) -> int | None:
    """Return the only number among operands, or None."""
    numbers = [int(o, 16) for each in operands if re.fullmatch(r"0x[0-9a-f]+", o := each.strip())]
    return numbers[0] if len(numbers) == 1 else None


def _never_run(
    code: _Code, runs: Mapping[tuple[int, int], float], accesses: Mapping[int, Accesses]
) -> set[int]:
    """Return the code of slow paths: functions that only a CALL reaches, and what branches jump
    over that holds such a call or a loop that is not in the source."""
    instructions = code.listing.instructions
    slow = _slow_loops(code, accesses)

    def is_rare(place: int) -> bool:
        loop = code.innermost[place]
        ends_rare_loop = loop is not None and 0 < runs[loop] <= 1 and place == loop[1]
        return place in slow or instructions[place].name in ("CALL", "LEPC") or ends_rare_loop

    def is_work(place: int) -> bool:
        pipe = code.pipes[place]
        is_load = pipe == "global-load" and bool(accesses.get(code.lines[place]))
        return is_load or pipe in ("global-store", "atomic", "barrier")

    never = _called(code)
    for place, instruction in enumerate(instructions):
        if instruction.name != "BRA" or instruction.predicate in ("", "@PT", "@UPT"):
            continue
        end = code.target(place)
        if end is None or not place < end <= place + _SKIPPED_INSTRUCTIONS:
            continue
        between = range(place + 1, end)
        if any(map(is_rare, between)) and not any(map(is_work, between)):
            never.update(between)
    return never


def _called(code: _Code) -> set[int]:
    """Return the bodies of functions, from where a CALL goes to the next RET."""
    instructions = code.listing.instructions
    found: set[int] = set()
    for place, instruction in enumerate(instructions):
        start = code.target(place) if instruction.name == "CALL" else None
        if start is not None:
            ends = (p for p in range(start, len(instructions)) if instructions[p].name == "RET")
            found.update(range(start, next(ends, len(instructions) - 1) + 1))
    return found


def _slow_loops(code: _Code, accesses: Mapping[int, Accesses]) -> set[int]:
    """Return short loops that store to local memory and load nothing that the source loads."""
    slow: set[int] = set()
    for first, last in code.loops:
        body = range(first, last + 1)
        stores = any(code.pipes[p] == "local-store" for p in body)
        loads = any(accesses.get(code.lines[p]) for p in body)
        if last - first < _SLOW_PATH_INSTRUCTIONS and stores and not loads:
            slow.update(body)
    return slow


# --- what it waits for -----------------------------------------------------------------------


@dataclass(slots=True)
class _Warp:
    """Follows one warp that issues in order. A global load's result is ready when a round has
    passed since it was issued; everything issued before the load that is waited for has arrived,
    too."""

    now: float = 0.0
    ready: dict[Register, float] = field(default_factory=dict)
    pending: dict[Register, int] = field(default_factory=dict)
    """Register to the number of the load that fills it."""
    issued: int = 0
    arrived: int = 0
    freshest: Known | None = None
    """How much the block had loaded before of what is under way, by the load of which it had least;
    None where no load is under way."""

    def step(
        self,
        pipe: Pipe,
        name: str,
        written: Sequence[Register],
        read: Sequence[Register],
        known: Known,
    ) -> tuple[float, Known | None]:
        """Return the cycles that the instruction takes, and how much is known of the round of loads
        that it waits for, or None where it waits for none."""
        start = self.now
        at = start + 1
        waits = False
        for register in read:
            if self.pending.get(register, 0) > self.arrived:
                waits = True
            elif register in self.ready:
                at = max(at, self.ready[register])
        if name == "BAR":
            at += LATENCY_CYCLES["barrier"]
        if name == "DEPBAR" and self.issued > self.arrived:
            waits = True
        round_: Known | None = None
        if waits:
            self.arrived = self.issued
            round_, self.freshest = self.freshest or (0.0, 0.0), None
        self.now = at
        if pipe == "global-load" or name in ("ATOM", "ATOMG"):
            self.issued += 1
            self.freshest = min(self.freshest or known, known, key=sum)
            for register in written:
                self.pending[register] = self.issued
                self.ready.pop(register, None)
        else:
            self.issued += pipe == "async-copy"
            for register in written:
                self.ready[register] = at + LATENCY_CYCLES.get(pipe, _OTHER_CYCLES)
                self.pending.pop(register, None)
        return at - start, round_


def _share_of_round(code: _Code, place: int) -> float:
    """Return the part of a round that a wait for copies takes: of copies that were begun several
    iterations ahead, each iteration waits for its part only. ``DEPBAR`` says how many groups of
    copies may stay under way, the loop how many groups one iteration begins."""
    instruction, loop = code.listing.instructions[place], code.innermost[place]
    left = re.search(r"0x([0-9a-f]+)", instruction.operands)
    if instruction.name != "DEPBAR" or loop is None or left is None:
        return 1.0
    body = code.listing.instructions[loop[0] : loop[1] + 1]
    groups = sum(each.name == "LDGDEPBAR" for each in body)
    return groups / (groups + int(left[1], 16)) if groups else 1.0


@dataclass(slots=True)
class _Waits:
    """Counts what a warp waits for, in cycles and in rounds of loads."""

    stalls: float = 0.0
    rounds: float = 0.0
    near: float = 0.0
    again: float = 0.0


def _walk(code: _Code, weights: Sequence[float], known: Mapping[int, Known]) -> _Waits:
    """Return what a warp waits for. A loop is walked twice and counted as the second time, when its
    first instructions wait for what the last ones began."""
    instructions = code.listing.instructions
    used = [_registers_of(instruction) for instruction in instructions]
    warp = _Warp()
    waits = _Waits()

    def walk(places: range, counts: bool) -> None:
        for place in places:
            weight = weights[place]
            if weight == 0:
                continue
            written, read = used[place]
            cycles, round_ = warp.step(
                code.pipes[place],
                instructions[place].name,
                written,
                read,
                known.get(code.lines[place], (0.0, 0.0)),
            )
            if counts:
                waits.stalls += cycles * weight
                if round_ is not None:
                    weight *= _share_of_round(code, place)
                    waits.rounds += weight
                    waits.near += weight * round_[0]
                    waits.again += weight * round_[1]

    place = 0
    outer = [
        loop
        for loop in code.loops
        if not any(o != loop and o[0] <= loop[0] and loop[1] <= o[1] for o in code.loops)
    ]
    for first, last in outer:
        if first < place:
            continue
        walk(range(place, first), True)
        walk(range(first, last + 1), False)
        walk(range(first, last + 1), True)
        place = last + 1
    walk(range(place, len(instructions)), True)
    return waits

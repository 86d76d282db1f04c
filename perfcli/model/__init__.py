"""Defines the types that every part of perfcli speaks in: frozen, plain data, standard library
only.

A ``Run`` is what one compilation of one scenario yielded; a ``Comparison`` is a new object
made from two runs. ``None`` always means "not known", never zero.
"""

from perfcli.model.comparison import (
    Because,
    Beside,
    Comparison,
    KernelGroup,
    Match,
    Raced,
    Report,
    Rule,
    Screen,
    Totals,
    Verdict,
    WrongResults,
)
from perfcli.model.compilation import (
    Compilation,
    CompileWork,
    GraphObstacle,
    Recompilations,
    RecordedGraph,
    VariedCall,
)
from perfcli.model.estimate import (
    PRECISIONS,
    RANKS_PER_MACHINE,
    CollectiveTime,
    EstimatedChange,
    Grid,
    GroupEstimate,
    HostEstimate,
    LaunchWork,
    MemoryAccess,
    OperatorFamily,
    OperatorWork,
    StepEstimate,
    TimeEstimate,
    Traffic,
    WarpWork,
)
from perfcli.model.finding import (
    ABOUT_NAMES,
    Appearance,
    Change,
    Cost,
    Cure,
    Finding,
    Proposal,
    Trial,
    TrialOutcome,
)
from perfcli.model.gate import (
    GRAVEST_FIRST,
    Allowance,
    Conclusion,
    Document,
    FindingResult,
    Judged,
    Judgement,
    Limit,
    LimitResult,
    LimitState,
    Passing,
    Provenance,
)
from perfcli.model.handwritten import (
    Case,
    Data,
    KernelFamily,
    KernelLaunch,
    KernelVariant,
    LaunchPlan,
    Layout,
    Tolerance,
)
from perfcli.model.history_page import (
    ChangedPlace,
    ChangedSeries,
    DrawnChange,
    DrawnSeries,
    HistoryPage,
    OverviewPage,
    OverviewRow,
    SeriesPage,
)
from perfcli.model.kernel import (
    TOO_SLOW,
    Access,
    Buffer,
    Candidate,
    KernelFacts,
    LineCounts,
    Origin,
    SourceFacts,
    best_candidate,
)
from perfcli.model.measurement import (
    BUDGET_SPENT,
    PRECISE,
    STEP_WAITS,
    Ask,
    Clocks,
    DeviceClock,
    DeviceState,
    Machine,
    MeasuredLaunch,
    Measurement,
    MeasureRequest,
    MemoryUse,
    OutputCheck,
    Prepared,
    RankPlace,
    Round,
    RoundKind,
    SideName,
    StartPhase,
    StepCode,
    Turn,
)
from perfcli.model.observed import Observed, ObservedRank, ObservedStep, ObservedWork
from perfcli.model.run import (
    PATCHED,
    BreakPlace,
    Bundle,
    CompiledCall,
    Environment,
    ExternCall,
    Generated,
    GraphFacts,
    Launch,
    OperatorCall,
    Run,
)
from perfcli.model.selection import Implementation, Selection, SelectionUse
from perfcli.model.sweep import Measured, Sweep, Swept
from perfcli.model.timing import (
    OUTCOME_OF,
    WAITS,
    Floor,
    GroupTiming,
    TimeChange,
    TimeVerdict,
    Timing,
    choose_clock,
)
from perfcli.model.values import (
    BlobId,
    Device,
    KernelKind,
    Mode,
    OptionValue,
    Outcome,
    Relation,
    Scalar,
    Severity,
)
from perfcli.model.workload import (
    CompileRequest,
    Expectation,
    GivenRequest,
    KernelsRequest,
    KernelText,
    Parameter,
    Problem,
    Scenario,
    ScenarioProblem,
    ScriptCommand,
    Target,
    Variant,
    Workload,
)

"""The types that every part of perfcli speaks in: frozen, plain data, standard library only.

A ``Run`` is what one compilation of one scenario yielded; a ``Comparison`` is a new object
made from two runs. ``None`` always means "not known", never zero.
"""

from perfcli.model.comparison import Because, Comparison, KernelGroup, Match, Report, Screen
from perfcli.model.finding import Appearance, Change, Cure, Finding, Trial, TrialOutcome
from perfcli.model.kernel import (
    Access,
    Buffer,
    Candidate,
    KernelFacts,
    LineCounts,
    Origin,
    SourceFacts,
    best_candidate,
)
from perfcli.model.rule import Rule
from perfcli.model.run import (
    BreakPlace,
    Bundle,
    Environment,
    ExternCall,
    GraphFacts,
    Launch,
    Run,
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
    Parameter,
    Scenario,
    Target,
    Variant,
    Workload,
)

__all__ = [
    "Access",
    "Appearance",
    "Because",
    "BlobId",
    "BreakPlace",
    "Buffer",
    "Bundle",
    "Candidate",
    "Change",
    "Comparison",
    "CompileRequest",
    "Cure",
    "Device",
    "Environment",
    "Expectation",
    "ExternCall",
    "Finding",
    "GraphFacts",
    "KernelFacts",
    "KernelGroup",
    "KernelKind",
    "Launch",
    "LineCounts",
    "Match",
    "Mode",
    "OptionValue",
    "Origin",
    "Outcome",
    "Parameter",
    "Relation",
    "Report",
    "Rule",
    "Run",
    "Scalar",
    "Scenario",
    "Screen",
    "Severity",
    "SourceFacts",
    "Target",
    "Trial",
    "TrialOutcome",
    "Variant",
    "Workload",
    "best_candidate",
]

"""The claims as data: what they name is there, and their formulas are those that were published."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from handmade import kernel, run

from perfcli.bisect.metrics import METRICS
from perfcli.diagnosis import rules
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.options.patches import PATCHES
from perfcli.reproduce.claim import Claim, Launches, TwoVariants
from perfcli.reproduce.claims import list_claims
from perfcli.reproduce.claims.column_sum import need_shared_bytes, size_tiles
from perfcli.reproduce.condition import list_facts
from perfcli.reproduce.facts import read_facts

CLAIMS = list_claims()
OF_RUNS = {side: set(read_facts(run((kernel("triton_a"),)))) for side in ("good", "bad", "side")}
OF_RUNS["pair"] = {"same_code", "worse", "slower"}
OF_OURS = {"cases", "fitting", "needed_bytes", "limit_bytes", "vector", "registers"}
OF_OURS |= {"spilled_words"}
OF_THEIRS = {"cases", "fitting", "needed_bytes", "limit_bytes", "vector"}
OF_LAUNCHES = {"good": OF_OURS, "bad": OF_THEIRS, "side": OF_THEIRS & OF_OURS}
KNOBS = Path(__file__).parents[3] / "perfcli" / "data" / "knobs.json"


def test_names_are_unique() -> None:
    names = [claim.name for claim in CLAIMS]
    assert len(set(names)) == len(names) >= 30


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_its_conditions_are_about_facts_that_exist(claim: Claim) -> None:
    known = OF_LAUNCHES if isinstance(claim.shown_by, Launches) else OF_RUNS
    texts = [claim.symptom, *claim.expects, *claim.shows]
    used = [fact for text in texts if text for fact in list_facts(text)]
    assert [f"{side}.{name}" for side, name in used if name not in known[side]] == []
    assert all(side == "side" for side, _ in list_facts(claim.symptom or "1 == 1"))


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_what_it_names_is_there(claim: Claim) -> None:
    asked = claim.shown_by
    if isinstance(asked, Launches):
        family = registry.family(asked.family)
        assert asked.variant in {variant.name for variant in family.variants}
        assert asked.problems
        return
    scenario = registry.scenario(asked.scenario)
    for way in asked.ways:
        for setup in (way.good, way.bad):
            registry.resolve_params(scenario, None, {**asked.params, **setup.params})
            registry.resolve_params(scenario, None, {**asked.smoke, **(setup.smoke or {})})
    assert asked.finding in {"", *(rule.code for rule in rules())}
    assert asked.blame is None or asked.blame.metric in METRICS


def list_options(asked: TwoVariants) -> set[str]:
    setups = [setup for way in asked.ways for setup in (way.good, way.bad)]
    texts = [text for setup in setups for text in (*setup.options, *(setup.smoke_options or ()))]
    texts += [text for cure in asked.cures for text in cure]
    texts += asked.blame.suspects if asked.blame else ()
    return {text.partition("=")[0] for text in texts}


def test_each_option_is_one_of_torch_or_a_patch() -> None:
    known = {*json.loads(KNOBS.read_text())["options"], *PATCHES}
    asked = [claim.shown_by for claim in CLAIMS if isinstance(claim.shown_by, TwoVariants)]
    named = {name for each in asked for name in list_options(each)}
    assert named - known == set()


@pytest.mark.parametrize(
    ("item_bytes", "expected"),
    [(4, {7, 14, 28, 56}), (2, {7, 14, 28, 55, 56, 112})],
)
def test_nvfuser_overflows_where_its_sources_say(item_bytes: int, expected: set[int]) -> None:
    """The numbers of inputs were worked out from its sources by hand, for 232,448 bytes."""
    limit = targets.get("h200").shared_bytes_per_block_optin
    assert limit == 232448
    over = {n for n in range(1, 113) if need_shared_bytes(n, item_bytes, limit) > limit}
    assert over == expected
    assert need_shared_bytes(7, 4, limit) == 7 * 64 * 128 * 4 + 8192


@pytest.mark.parametrize(
    ("inputs", "single", "half"),
    [
        (1, (128, 128), (128, 128)),
        (3, (128, 128), (128, 128)),
        (4, (64, 128), (128, 128)),
        (8, (32, 128), (64, 128)),
        (28, (16, 128), (32, 128)),
        (29, (16, 64), (16, 128)),
        (57, (16, 32), (16, 64)),
        (113, (16, 32), (16, 32)),
    ],
)
def test_nvfuser_tiles_are_those_of_its_sources(
    inputs: int, single: tuple[int, int], half: tuple[int, int]
) -> None:
    assert size_tiles(inputs, 4, 232448) == single
    assert size_tiles(inputs, 2, 232448) == half


def test_the_published_ratios_are_those_of_the_documents() -> None:
    ratios = {c.name: c.effect.ratio for c in CLAIMS if c.effect is not None}
    assert ratios["online-softmax"] == pytest.approx(8.0693 / 6.2306)
    assert ratios["loop-peeling-static"] == 1.42
    assert ratios["mix-order-printed"] == pytest.approx(1.0633, abs=1e-4)
    assert ratios["register-tiled-8192x8192"] == pytest.approx(94.2 / 71.8)

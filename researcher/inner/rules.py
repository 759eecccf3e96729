"""Candidates that need no training: a `policy` module alone, or with an interface, is a policy."""

from functools import lru_cache
from pathlib import Path
from typing import Any

from serl.agents.execution.environment.observation import Scales
from serl.agents.learning.environments import Scenario
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.rule import Rule
from serl.agents.learning.rule_policy import RulePolicy, rule_from_json, rule_names
from serl.researcher.candidates import Candidate, Module
from serl.researcher.inner import job
from serl.researcher.inner.candidate_settings import designed, interface_of
from serl.researcher.inner.errors import UnusableError
from serl.researcher.inner.outcomes import require_ok
from serl.researcher.inner.settings import Settings
from serl.researcher.inner.versions import Versions, versions_of
from serl.researcher.modules.contracts import Kind
from serl.researcher.sandbox.limits import Limits
from serl.researcher.sandbox.run import Job, run

ENTRY = "serl.researcher.validation.entrypoints:trace_policy"
LIMITS = Limits(wall_s=60.0, cpu_s=20)  # on a busy machine a job gets only a third of a processor


def rule_policy(candidate: Candidate, settings: Settings, folder: Path) -> RulePolicy:
    """The policy of a candidate; its files stay in `folder`, which is created. UnusableError if its module cannot be used; SandboxUnavailableError if code
    cannot be sandboxed here."""
    settings = designed(candidate, settings)
    market = settings.market
    facts = {"name": candidate.key, "market": market.model_dump(mode="json"), "seed": 0, "steps": 0}
    rule = _rule(candidate.modules[Kind.POLICY], settings, folder)
    return RulePolicy(
        rule, interface_of(market, _scales(market.model_dump_json(), versions_of(settings))), facts, candidate.key
    )


def _rule(module: Module, settings: Settings, folder: Path) -> Rule:
    is_spec = module.form == "spec"
    claim: Any = {} if is_spec else _traced(module, settings, folder)
    try:
        if is_spec:
            rule: Rule = job.spec_function(Kind.POLICY, module.text, settings)
            return rule
        return rule_from_json(claim, rule_names(settings.market.levels))
    except Exception as error:  # what PyTorch raises for hostile data is not listed anywhere
        raise UnusableError(f"the policy is not a rule: {str(error)[:300]}") from None


def _traced(module: Module, settings: Settings, folder: Path) -> Any:
    """The operations of a module's code, as a sandboxed job claims them."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    arguments: dict[str, Any] = {"source": module.text, "levels": settings.market.levels}
    result = run(Job(ENTRY, arguments), folder, LIMITS)
    require_ok(result, "policy")
    return result.value


@lru_cache(maxsize=8)
def _scales(text: str, _versions: Versions) -> Scales:
    """Units of observations, fitted on the training part of a market."""
    return Scenario(MarketConfig.model_validate_json(text)).fit_scales()

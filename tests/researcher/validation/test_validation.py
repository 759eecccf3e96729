"""Validation: static check and dry run."""

import ast
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from serl.researcher.modules.contracts import SPEC_ONLY, Form, Kind, form_of
from serl.researcher.modules.example import example
from serl.researcher.sandbox.job_result import Outcome
from serl.researcher.sandbox.limits import Limits
from serl.researcher.sandbox.run import work_folder
from serl.researcher.validation import entrypoints
from serl.researcher.validation.dry_run import dry_run
from serl.researcher.validation.findings import Finding, Reason, Report, Stage, Tally
from serl.researcher.validation.static_check import CHARACTERS_MAX, check_source
from serl.researcher.validation.validate import dry_run_in_sandbox, validate, validate_code

REWARD = "def reward(step):\n    return {}\n"
AGENT = """
import torch
from torch import nn
class N(nn.Module):
    def __init__(self, d, k):
        super().__init__()
        self.p, self.v = nn.Linear(d, k), nn.Linear(d, 1)
        {init}
    def forward(self, x):
        {forward}
def build(observation_dim, action_dim):
    return N(observation_dim, action_dim)
"""


def dry_run_findings(kind: Kind, source: str) -> list[Finding]:
    """A dry run outside the sandbox; the code of these tests is trusted."""
    return dry_run(kind, entrypoints.load(kind, source))[0]


IMPORT_TORCH = [(Kind.POLICY, "code"), (Kind.COMMUNICATE, "code")]
"""Examples whose dry run takes two seconds in the sandbox, because it imports torch. So does that of an agent."""


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize(
    ("form", "kind"),
    [
        pytest.param(form, kind, marks=pytest.mark.long if (kind, form) in IMPORT_TORCH else ())
        for form in ("code", "spec")
        for kind in Kind
    ],
)
def test_examples_are_valid(kind: Kind, form: Form) -> None:
    report = validate(kind, example(kind, form), form_of(kind, form))
    assert report.ok, report.text
    assert report.call_ms is not None
    assert report.call_ms > 0


@pytest.mark.parametrize(("kind", "form"), IMPORT_TORCH)
def test_examples_are_valid_outside_the_sandbox(kind: Kind, form: Form) -> None:
    assert check_source(kind, example(kind, form)) == []
    assert dry_run_findings(kind, example(kind, form)) == []


@pytest.mark.parametrize("kind", SPEC_ONLY)
def test_settings_are_no_code(kind: Kind) -> None:
    report = validate(kind, f"def {kind.value}():\n    return {{}}\n", "code")
    assert [finding.reason for finding in report.findings] == [Reason.SPEC]
    assert "answer with a JSON object" in report.text


def test_dry_runs_in_threads_are_independent() -> None:
    text = example(Kind.AGENT, "spec")
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda _: validate(Kind.AGENT, text, "spec"), range(24)))
    assert [report.text for report in reports if not report.ok] == []


@pytest.mark.parametrize(
    ("source", "reason", "words"),
    [
        ("Here is the code:\n```python\n", Reason.SYNTAX, "without prose or code fences"),
        ("def reward(step):\n  return step.", Reason.SYNTAX, "line 2"),
        ("x = '\0'", Reason.SYNTAX, "null"),
        ("a = " + "-" * 15_000 + "1", Reason.SYNTAX, "simpler"),
        ("#" * (CHARACTERS_MAX + 1), Reason.SIZE, "16,000 characters"),
        ("[" + "1," * 7000 + "]", Reason.SIZE, "syntax nodes"),
        ("def reward(step):\n  return step.gain_bps" + " + 1" * 1100, Reason.SIZE, "at most 100 levels"),
        ("def reward(other=" + "1+" * 1200 + "1): pass", Reason.SIZE, "split long expressions"),
        ("", Reason.SIGNATURE, "def reward(step)"),
        ("def reward(inputs):\n  return 1", Reason.SIGNATURE, "got `def reward(inputs)`"),
        ("def reward(step, more):\n  return 1", Reason.SIGNATURE, "line 1"),
        ("def reward(*step):\n  return 1", Reason.SIGNATURE, "*step"),
        ("if True:\n  def reward(step):\n    return 1", Reason.SIGNATURE, "top level"),
        ("import os\n" + REWARD, Reason.TOUCHES_FILES, "line 1: `os` cannot be imported"),
        ("import numpy.ctypeslib\n" + REWARD, Reason.IMPORT, "numpy.ctypeslib"),
        ("from . import x\n" + REWARD, Reason.IMPORT, "cannot be imported"),
        ("from torch import hub\n" + REWARD, Reason.IMPORT, "hub"),
        ("from serl.agents import learning\n" + REWARD, Reason.TOUCHES_SCORER, "serl.agents"),
        (REWARD.format("eval('1')"), Reason.FORBIDDEN, "line 2: `eval`"),
        (REWARD.format("().__class__"), Reason.FORBIDDEN, "`.__class__`"),
        (REWARD.format("__builtins__"), Reason.FORBIDDEN, "`__builtins__`"),
        ("import numpy as np\n" + REWARD.format("np.load('x')"), Reason.TOUCHES_FILES, "`.load`"),
        ("import time\n" + REWARD, Reason.TOUCHES_TIME, "`time` cannot be imported"),
        ("from datetime import datetime\n" + REWARD, Reason.TOUCHES_TIME, "datetime"),
        ("import pathlib\n" + REWARD, Reason.TOUCHES_FILES, "pathlib"),
        (REWARD.format("open('x')"), Reason.TOUCHES_FILES, "`open`"),
        ("import serl.researcher.inner.score\n" + REWARD, Reason.TOUCHES_SCORER, "inner.score"),
        ("import random\n" + REWARD, Reason.TOUCHES_SEEDS, "random"),
        ("import torch\n" + REWARD.format("torch.manual_seed(0)"), Reason.TOUCHES_SEEDS, "`.manual_seed`"),
        ("import numpy as np\nnp.random.seed(0)\n" + REWARD, Reason.TOUCHES_SEEDS, "`.seed`"),
        ("from torch import manual_seed\n" + REWARD, Reason.TOUCHES_SEEDS, "`manual_seed`"),
        (
            "import numpy as np\nrng = np.random.default_rng()\n" + REWARD,
            Reason.NOT_DETERMINISTIC,
            "line 2: `default_rng()`",
        ),
        (
            "from numpy.random import RandomState\nr = RandomState()\n" + REWARD,
            Reason.NOT_DETERMINISTIC,
            "`RandomState()`",
        ),
        ("async def f():\n  pass\n" + REWARD, Reason.FORBIDDEN, "plain functions"),
    ],
)
def test_the_static_check_names_the_violation(source: str, reason: Reason, words: str) -> None:
    findings = check_source(Kind.REWARD, source)
    assert any(finding.reason is reason and words in finding.text for finding in findings), findings


def test_a_generator_with_a_seed_is_allowed() -> None:
    source = "import numpy as np\nweights = np.random.default_rng(3).random(4)\n"
    assert check_source(Kind.REWARD, source + REWARD.format("step.gain_bps * weights[0]")) == []


def test_a_module_draws_the_same_numbers_whenever_it_is_loaded() -> None:
    """A rule is loaded again for each batch of orders, and a training after each kill: it must be the one that was validated."""
    numbers = (
        "import numpy as np\nimport torch\nnumbers = (np.random.rand(), np.random.normal(), torch.rand(1).item())\n"
    )
    source = numbers + "def reward(step):\n    return numbers\n"
    first, again = (entrypoints.load(Kind.REWARD, source)(None) for _ in range(2))
    assert first == again


def test_the_static_check_runs_nothing() -> None:
    report = validate_code(Kind.REWARD, "import os\nos._exit(1)\n" + REWARD)
    assert (report.stage, report.sandbox_result, report.ok) == (Stage.STATIC_CHECK, None, False)
    assert report.text.startswith("- line 1: `os`")


def test_defaults_and_classes_pass_the_static_check() -> None:
    assert not check_source(
        Kind.REWARD,
        "import numpy as np\nfrom math import exp\ndef reward(step, scale=2.0):\n  return scale * step.filled",
    )
    for kind in set(Kind) - set(SPEC_ONLY):
        assert not check_source(kind, example(kind, "code"))
        ast.parse(example(kind, "code"))


def test_a_busy_machine_makes_no_module_slow() -> None:
    """The first calls wait for others."""
    waits = "calls = []\ndef decide(seen):\n    calls.append(0)\n    if len(calls) <= 3:\n        __import__('time').sleep(0.05)\n"
    quick = example(Kind.POLICY, "code").replace("def decide(", "def quick(")
    assert dry_run_findings(Kind.POLICY, f"{quick}\n\n{waits}    return quick(seen)\n") == []


@pytest.mark.parametrize(
    ("body", "reason", "words"),
    [
        ("step.filled * 0 + 3.5", Reason.PAYS_FOR_NOTHING, "whatever the order did"),
        ("step.drift_bps - step.spread_bps + step.step", Reason.PAYS_FOR_NOTHING, "whatever the order did"),
        ("step.filled[:3]", Reason.CONTRACT, "expected shape (16,), got (3,)"),
        ("step.filled / 0.0", Reason.NOT_FINITE, "NaN or infinite"),
        ("None", Reason.CONTRACT, "numbers"),
        ("__import__('numpy').random.rand(16)", Reason.NOT_DETERMINISTIC, "given rng"),
        ("[__import__('time').sleep(0.05), step.filled][1]", Reason.SLOW, "whole arrays"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_rewards_are_dry_run(body: str, reason: Reason, words: str) -> None:
    findings = dry_run_findings(Kind.REWARD, REWARD.format(body))
    assert [finding.reason for finding in findings] == [reason]
    assert words in findings[0].text


@pytest.mark.parametrize(
    "paid", ["filled", "remaining", "gain_bps", "price_bps", "participation", "last * step.unfilled"]
)
def test_rewards_of_fills_pay_for_something(paid: str) -> None:
    assert not dry_run_findings(Kind.REWARD, REWARD.format(f"step.{paid}"))


def test_a_specification_that_pays_for_the_market_alone_is_named() -> None:
    term = {"feature": "drift_bps", "shape": "linear", "weight_percent": 100, "when": "every_step"}
    report = validate(Kind.REWARD, json.dumps({"base": "none", "terms": [term]}), "spec")
    assert [finding.reason for finding in report.findings] == [Reason.PAYS_FOR_NOTHING]


def test_rewards_cannot_write_to_their_inputs() -> None:
    with pytest.raises(ValueError, match="read-only"):
        dry_run_findings(Kind.REWARD, "def reward(step):\n    step.filled[:] = 1\n    return step.filled")


BOTH = "return self.p(x), self.v(x).squeeze(-1)"


@pytest.mark.parametrize(
    ("init", "forward", "reason", "words"),
    [
        ("pass", "return self.p(x)", Reason.CONTRACT, "pair of tensors"),
        ("pass", "return self.p(x), self.v(x)", Reason.CONTRACT, "expected shape (16,), got (16, 1)"),
        ("pass", "return self.p(x).detach(), self.v(x).squeeze(-1)", Reason.NO_GRADIENT, "policy outputs"),
        ("pass", "return self.p(x * 0), self.v(x).squeeze(-1)", Reason.NO_SIGNAL, "outputs of the policy"),
        ("pass", "return self.p(x), self.v(x).squeeze(-1) / 0", Reason.NOT_FINITE, "values"),
        ("self.spare = nn.Linear(3, 3)", BOTH, Reason.NO_GRADIENT, "spare.weight, spare.bias"),
        ("self.n = nn.BatchNorm1d(d)", "x = self.n(x); " + BOTH, Reason.NOT_DETERMINISTIC, "batch"),
        ("self.n = nn.Dropout()", "x = self.n(x); " + BOTH, Reason.NOT_DETERMINISTIC, "dropout"),
        ("self.big = nn.Linear(2000, 2000)", BOTH, Reason.CONTRACT, "1,000,000 parameters"),
    ],
)
def test_networks_are_dry_run(init: str, forward: str, reason: Reason, words: str) -> None:
    findings = dry_run_findings(Kind.AGENT, AGENT.format(init=init, forward=forward))
    assert reason in [finding.reason for finding in findings]
    assert any(words in finding.text for finding in findings), findings


def test_something_other_than_a_network_is_a_finding() -> None:
    findings = dry_run_findings(Kind.AGENT, "def build(observation_dim, action_dim):\n    return 3")
    assert findings == [Finding(Reason.CONTRACT, "build: expected a torch.nn.Module, got int")]


@pytest.mark.parametrize(
    ("kind", "source", "reason"),
    [
        (Kind.IMAGINE, "import numpy\ndef imagine(history, rng, n, horizon):\n return numpy.ones((n, horizon, 3))", Reason.NO_SIGNAL),
        (Kind.IMAGINE, "import numpy\ndef imagine(history, rng, n, horizon):\n return abs(numpy.random.rand(n, horizon, 3))", Reason.NOT_DETERMINISTIC),
        (Kind.IMAGINE, "import numpy\ndef imagine(history, rng, n, horizon):\n return abs(rng.random((32, 30, 3)))", Reason.CONTRACT),
        (Kind.PROFILES, "def profiles(statistics, rng):\n return {'name': 'a', 'groups': [{'trader': 'noise'}]}", Reason.NO_SIGNAL),
        (Kind.PROFILES, "import random\ndef profiles(statistics, rng):\n return {'name': 'a', 'groups': [{'trader': 'noise', 'start_s': random.random()}]}", Reason.NOT_DETERMINISTIC),
        (Kind.PROFILES, "def profiles(statistics, rng):\n return []", Reason.CONTRACT),
    ],
)  # fmt: skip
def test_the_other_kinds_are_dry_run(kind: Kind, source: str, reason: Reason) -> None:
    assert reason in [finding.reason for finding in dry_run_findings(kind, source)]


@pytest.mark.parametrize(
    ("body", "reason", "words"),
    [
        ("return now.spread", Reason.CONTRACT, "expected shape (16, 3)"),
        ("return 0 * torch.stack((now.spread,) * 3, 1)", Reason.NEVER_TRADES, "the policy never trades"),
        ("return torch.stack((now.spread if now.spread.sum() > 0 else now.drift,) * 3, 1)", Reason.NOT_EXPORTABLE, "cannot be traced"),
    ],
)  # fmt: skip
def test_policies_are_dry_run(body: str, reason: Reason, words: str) -> None:
    findings = dry_run_findings(Kind.POLICY, f"import torch\n\n\ndef decide(now):\n    {body}")
    assert [finding.reason for finding in findings] == [reason]
    assert words in findings[0].text


COMMUNICATE = "import numpy\nimport torch\ndef communicate(observations):\n    x = observations\n    return {}\n"


@pytest.mark.parametrize(
    ("body", "reason", "words"),
    [
        ("torch.zeros(x.size(0), 2)", Reason.NO_SIGNAL, "always 0"),
        ("x * 100", Reason.CONTRACT, "m from 1 to 8"),
        ("x[:, :2] * 100 + 7", Reason.CONTRACT, "from -1 to 1"),
        ("torch.tanh(x[:, :x.shape[0] // 2])", Reason.CONTRACT, "the same m"),
        ("x[:, :2].numpy() * 0.001", Reason.CONTRACT, "expected a torch.Tensor (n_agents, m), got ndarray"),
        ("x[:, :1] / 0", Reason.NOT_FINITE, "NaN or infinite"),
        ("torch.tanh(x[:, :2] + torch.randn(2))", Reason.NOT_DETERMINISTIC, "keep no state"),
        ("torch.from_numpy(numpy.tanh(x[:, :2].numpy()))", Reason.NOT_EXPORTABLE, "cannot be traced"),
        ("torch.tanh(x[:, :2]) if x.sum() > 0 else torch.tanh(x[:, 2:4])", Reason.NOT_EXPORTABLE, "conditions"),
        ("torch.erf(x[:, :2])", Reason.NOT_EXPORTABLE, "'erf'"),
        (
            "torch.tanh(x[:, :2]) * (0.5 if isinstance(x, torch.Tensor) else 1.0)",
            Reason.NOT_EXPORTABLE,
            "traced operations",
        ),
    ],
)
def test_messages_are_dry_run(body: str, reason: Reason, words: str) -> None:
    findings = dry_run_findings(Kind.COMMUNICATE, COMMUNICATE.format(body))
    assert [finding.reason for finding in findings] == [reason]
    assert words in findings[0].text


def test_networks_must_be_a_list_of_operations() -> None:
    findings = dry_run_findings(
        Kind.AGENT, AGENT.format(init="pass", forward="return torch.sort(self.p(x))[0], self.v(x)[:, 0]")
    )
    assert [finding.reason for finding in findings] == [Reason.NOT_EXPORTABLE]
    assert "'sort'" in findings[0].text


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize(
    ("source", "outcome", "words"),
    [
        (REWARD.format("1 / 0"), Outcome.CRASHED, "ZeroDivisionError: division by zero (line 2)"),
        ("while True: pass", Outcome.TIMEOUT, "did not end within 1 s"),
        ("x = 'a' * 10**12\n" + REWARD, Outcome.MEMORY, "MemoryError"),
        ("import os\nos._exit(0)", Outcome.CRASHED, "without an answer"),
        ("", Outcome.CRASHED, "expected a function `reward`"),
    ],
)
def test_a_job_that_the_sandbox_stops_is_a_finding(source: str, outcome: Outcome, words: str) -> None:
    with work_folder() as folder:
        report = dry_run_in_sandbox(
            folder, Kind.REWARD, source, Limits(wall_s=1.0) if outcome is Outcome.TIMEOUT else Limits()
        )
    assert report.sandbox_result is not None
    assert (report.stage, report.sandbox_result.outcome, report.ok) == (Stage.DRY_RUN, outcome, False)
    assert words in report.text


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize(
    "value",
    ["1", "{}", '{"findings": 3}', '{"findings": [["mine", "x"]], "call_ms": 1}', '{"findings": [[]], "call_ms": 1}'],
)
def test_forged_results_are_no_results(value: str) -> None:
    answer = f'{{"outcome": "ok", "text": "", "value": {value}}}'
    source = f"import os\nopen('answer.json', 'w').write({answer!r})\nos._exit(0)"
    with work_folder() as folder:
        report = dry_run_in_sandbox(folder, Kind.REWARD, source)
    assert not report.ok
    assert "did not return the result of a dry run" in report.text


def test_reports_are_counted() -> None:
    tally = Tally()
    bad = validate(Kind.REWARD, "{", "spec")
    for report in (bad, bad, validate(Kind.REWARD, example(Kind.REWARD, "spec"), "spec")):
        tally.add(report)
    assert tally.rows() == [
        {"form": "spec", "kind": "reward", "stage": "dry run", "reason": "ok", "count": 1},
        {"form": "spec", "kind": "reward", "stage": "static check", "reason": "spec", "count": 2},
    ]


def test_a_report_without_findings_is_ok_only_after_the_dry_run() -> None:
    assert not Report(Kind.REWARD, "code", Stage.STATIC_CHECK).ok
    assert Report(Kind.REWARD, "code", Stage.DRY_RUN).ok


def test_a_dry_run_waits_for_no_compiler_or_network_library() -> None:
    """Numba costs each dry run of code a sixth of a second, PyTorch a whole one."""
    program = "import serl.researcher.validation.entrypoints, sys; print({'numba', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"

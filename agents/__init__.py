"""Those who trade: execution agents, and later simulated traders and learners."""

if __name__ == "agents":
    raise ImportError("import serl.agents, not agents: install the project first (make test does it)")

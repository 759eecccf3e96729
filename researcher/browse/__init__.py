"""The researcher's page of the dashboard: what a run has found so far."""

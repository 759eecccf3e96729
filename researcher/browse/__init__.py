"""The researcher's page of the dashboard."""

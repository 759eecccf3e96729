"""The page of LLM traders in the dashboard."""

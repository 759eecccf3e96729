"""Tests of serl.researcher.validation."""

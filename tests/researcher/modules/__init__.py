"""Tests of serl.researcher.modules."""

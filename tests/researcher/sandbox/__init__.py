"""Tests of serl.researcher.sandbox."""

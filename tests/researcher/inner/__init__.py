"""Tests of serl.researcher.inner."""

"""Tests of serl.gateways.ouch, soup and itch."""

"""Emulated networks for inca: topologies, switch classes and the experiment runner, on top of Mininet."""

"""Policies that hold a share of lost rows: ours, the disorder controller of S4 and its rival."""

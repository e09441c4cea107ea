"""The policy that bounds the error of results, not the share of lost rows."""

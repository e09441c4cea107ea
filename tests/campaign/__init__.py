"""A simulation of the whole control plane under faults: one seed, one run; a failing run shrinks to a script."""

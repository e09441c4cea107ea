"""The lab: simulations, generators of streams, trials of policies and their rivals. Not part of the package.

Tests, benchmarks, experiments and pictures import it as `experiments.lab`, from the root of the repository.
"""

"""Back-tests of disorder policies on rows that have arrived: what each would have lost, and how it would wait."""

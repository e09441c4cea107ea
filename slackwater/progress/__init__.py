"""When time may advance: time domain, heartbeats, clocks, arrival statistics, disorder policies (S1, S4)."""

"""Windows and their panes: specs, partials, the pane ring, result rows (S4, S5)."""

"""Early answers: how complete they are, what the final value may be, how sure that is, when to ask (S5)."""

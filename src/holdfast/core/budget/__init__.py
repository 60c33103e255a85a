"""Rules of budgets: prices, and what was spent."""

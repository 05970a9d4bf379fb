"""Everything that `umiak cluster` shows people: plans, states, bills, progress, the summary and the report. Decides nothing."""

-- A new field of a trace: copied_from. Sums leave out what is a copy.

$added_columns

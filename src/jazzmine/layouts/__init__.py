"""How each back end lays the records out: pure, without any I/O."""

"""What our stores and those of other libraries lose, and what they cost."""

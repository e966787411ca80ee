"""What differs between the two worlds, in pairs: `aio` for the one, `blocking` for the other.

Each name of the one stands in the other, with the same parameters and the same promises;
nothing else in the library knows which world it is in.
"""

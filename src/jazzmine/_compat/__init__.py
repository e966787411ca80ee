"""What the async and the sync API do differently, as pairs of modules.

A module `async_x` and its pair `sync_x` have the same names, with the same parameters and the same
promises. Code in `_async/` imports the one, and its generated copy the other.
"""

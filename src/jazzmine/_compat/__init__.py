"""What the async and the sync API do differently, side by side.

`AsyncX` and `SyncX`, `async_x` and `sync_x` have the same parameters and the same promises. Code in
`_async/` imports the one, and its generated copy the other.
"""

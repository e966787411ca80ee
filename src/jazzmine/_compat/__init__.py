"""The differences between the async and the sync API, side by side.

`AsyncX` and `SyncX`, `async_x` and `sync_x` have the same parameters and the same promises. Code in
`_async/` imports the async names, and its generated copy the sync names.
"""

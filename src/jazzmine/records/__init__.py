"""The stored records: conversations, messages, traces, working memory. They do no I/O."""

"""What is stored: conversations, messages, traces, working memory. Pure data, no I/O."""

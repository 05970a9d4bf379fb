"""Data straight from files, here or in S3, of any size: found, indexed in chunks, dealt to shards, read a window at a time."""

"""The update rules of v1: which one a config asks for, their settings, and their arithmetic on the parameter servers."""

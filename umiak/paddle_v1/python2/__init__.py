"""Python 2 on Python 3: translates the files of 2016 and gives them the names and the library they expect. Knows no paddle."""

"""The page of `umiak page` in a real browser: `make test-page`. `make test` needs neither a browser nor the built page."""

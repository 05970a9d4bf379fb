"""The runtime image: put together and pushed to a registry with Python alone. The engine never imports this package."""

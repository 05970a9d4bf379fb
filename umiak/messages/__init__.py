"""What the processes of a job tell each other outside of rounds: typed messages, one module for each family of them."""

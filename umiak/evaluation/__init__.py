"""What is done with a trained model: load it, test it, predict with it, export it, draw its curves."""

"""`umiak page`: reads run directories and serves a page about them. Changes nothing in them."""

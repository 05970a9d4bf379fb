"""The systems that umiak is compared with. They come with the source tree, not with the wheel."""

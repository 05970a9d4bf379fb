#!/bin/sh
# `umiak` in the image. numba and matplotlib look only at caches they can write to, and the image cannot be written to: so the
# baked ones (a few megabytes) are put where they can, unless a process of this container has done it.
trap 'exit 75' TERM
if [ ! -d /tmp/warm ]; then
  cp -r /opt/umiak/warm "/tmp/warm.$$" 2>/dev/null && mv -T "/tmp/warm.$$" /tmp/warm 2>/dev/null
fi
# The first process of a container never sees a signal that it has no handler for, but one that is held back stays.
exec env --block-signal=TERM python -m umiak.cli.main "$@"

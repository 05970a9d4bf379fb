"""Every error a user can see. A message says what is wrong, where, and what to do; the class decides the exit code."""


class UmiakError(Exception):
    """A defect or an unexpected state of the machine."""

    exit_code = 1


class InputError(UmiakError):
    """Something the user wrote: a flag, a config, a file. Trying again without a change gives the same error."""

    exit_code = 2


class RetryError(UmiakError):
    """A peer or a resource went away; the same command may well succeed when it is back."""

    exit_code = 75

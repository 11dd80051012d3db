"""Every exception the library raises on purpose, under one root."""


class RsmiError(Exception):
    """Root of all errors raised by rsmi; its message says what was expected, what was got and the way out."""


class ConfigError(RsmiError, ValueError):
    """A setting is out of range or contradicts another one."""


class InputError(RsmiError, ValueError):
    """A text handed to the library cannot be classified."""


class LabelError(InputError):
    """Labels are missing, unknown or do not fit the texts."""


class DataError(RsmiError, ValueError):
    """A data file or data set cannot be read; the message names the file and the row."""


class BusyError(DataError):
    """Another run is writing the same result; the message names its process."""


class UnsupportedModelError(RsmiError, ValueError):
    """The model lacks something the method needs."""


class CheckpointError(RsmiError, ValueError):
    """A model folder is missing, incomplete or damaged."""


class MissingResourceError(RsmiError, ImportError):
    """An optional package or resource is not installed; the message names the command that installs it."""


class TrainingError(RsmiError, RuntimeError):
    """Training ended without a usable model."""


class WorkerError(RsmiError, RuntimeError):
    """Other processes or machines cannot be reached, or were lost again and again."""


class TargetError(RsmiError, RuntimeError):
    """A model that is not ours did not answer as expected; the message names it and what came back."""


class NotCertifiable(RsmiError, ValueError):
    """No true statement of the kind asked for can be made; the message says why, and what can be certified."""


class NotFittedError(RsmiError, ValueError, AttributeError):
    """The classifier was used before it was trained or loaded."""


class RsmiWarning(UserWarning):
    """Something that works but that its user should know of."""

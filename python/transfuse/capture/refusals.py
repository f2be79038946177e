"""Why a model cannot be captured."""


class CaptureError(Exception):
    """For such a call."""


class LastingError(CaptureError):
    """The same whatever the inputs are."""


class Unsettled(LastingError):
    """forward() changed what its module holds. Where that was something computed once and kept, the next call does not."""


class ValueDependent(CaptureError):
    """The same for inputs of every size: forward() branches on what a tensor holds, say."""


class Slow(ValueDependent):
    """It would take too long."""

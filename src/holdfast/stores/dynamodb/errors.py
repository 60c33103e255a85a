"""What the service and the way to it say, in the words of ``holdfast.errors``.

The invariant: no exception of botocore leaves this package, and a write whose answer got lost is never reported as one
that did not happen.
"""

from typing import Final

from botocore import exceptions as boto

from holdfast.errors import AccessDenied, StoreError, StoreMissing, StoreUnavailable, Throttled
from holdfast.stores.dynamodb.target import Target

THROTTLED: Final = frozenset(
    {
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "ThrottlingException",
        "ThrottlingError",
        "RequestLimitExceeded",
        "LimitExceededException",
    }
)
"""The service did nothing and asks to come again later."""
CONTENDED: Final = frozenset(
    {"TransactionConflict", "TransactionConflictException", "TransactionInProgressException"}
)
"""Somebody else writes the same item at this moment; nothing was done, or the same request is still being done."""
_DENIED: Final = frozenset(
    {
        "AccessDeniedException",
        "ExpiredTokenException",
        "IncompleteSignature",
        "IncompleteSignatureException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "UnrecognizedClientException",
    }
)


def code_of(error: Exception) -> str:
    """The service's word for it; empty where the service said nothing."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, boto.ClientError) else ""


def may_pass(error: Exception) -> bool:
    """Whether the same request may succeed in a moment: slowed down, contended, a fault of the service or of the way."""
    if isinstance(error, boto.ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return code_of(error) in THROTTLED | CONTENDED or status >= 500
    return isinstance(error, boto.HTTPClientError)


def is_answered(error: Exception) -> bool:
    """Whether the service has said that it did nothing; otherwise nobody knows."""
    return code_of(error) in THROTTLED | CONTENDED - {"TransactionInProgressException"}


def translated(error: Exception, target: Target) -> StoreError:
    """The StoreError for it, with its cause set."""
    code, where = code_of(error), target.endpoint or f"region {target.region or 'of the environment'}"
    made: StoreError
    if code in THROTTLED | CONTENDED:
        made = Throttled(store=target.url, problem=f"the service did not come to it in time: {_text(error)}")
    elif code in {"ResourceNotFoundException", "TableNotFoundException"}:
        made = StoreMissing(store=target.url, problem=f"there is no table {target.table!r} at {where}")
    elif code in _DENIED:
        made = AccessDenied(store=target.url, problem=_text(error))
    elif isinstance(
        error, boto.NoCredentialsError | boto.PartialCredentialsError | boto.CredentialRetrievalError
    ):
        made = AccessDenied(store=target.url, problem=f"no credentials were found: {error}")
    elif isinstance(error, boto.EndpointConnectionError | boto.ConnectTimeoutError):
        made = StoreUnavailable(store=target.url, problem=f"nothing answers at {where}: {error}")
    else:
        made = StoreUnavailable(store=target.url, problem=_text(error))
    return made.because(error)


def _text(error: Exception) -> str:
    if not isinstance(error, boto.ClientError):
        return f"{error} ({type(error).__name__})"
    told = error.response.get("Error", {})
    return f"{told.get('Message') or 'no reason given'} ({told.get('Code')})"

"""Maps the errors of the service and of the network to ``holdfast.errors``.

The invariant: no exception of botocore leaves this package, and a write with a lost answer is never reported
as one that did not happen.
"""

from typing import Any, Final

from botocore import exceptions as boto

from holdfast.errors import AccessDenied, StoreError, StoreMissing, StoreUnavailable, Throttled
from holdfast.model.named_tuple import NamedTuple
from holdfast.stores.dynamodb.address import Target

THROTTLED: Final = frozenset(
    {
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "ThrottlingException",
        "ThrottlingError",
        "RequestLimitExceeded",
        "LimitExceededException",
        "SlowDown",
    }
)
"""The service did nothing and asks for a retry later."""
CONTENDED: Final = frozenset(
    {"TransactionConflict", "TransactionConflictException", "TransactionInProgressException"}
)
"""Another writer has the same item: nothing was done, or the same request is still in progress."""
_DENIED: Final = frozenset(
    {
        "403",
        "AccessDenied",
        "AccessDeniedException",
        "AllAccessDisabled",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "IncompleteSignatureException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "InvalidToken",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_MISSING: Final = frozenset({"404", "NoSuchBucket", "ResourceNotFoundException", "TableNotFoundException"})
_PASSING: Final = frozenset({"RequestTimeout", "OperationAborted"})
"""S3 reports these with a status that blames the caller, but the request may be repeated."""


class Service(NamedTuple):
    """The service and its place, in words for people."""

    kind: str
    store: str
    what: str
    where: str
    advice: str = ""
    """What to do if it does not exist, if StoreMissing's advice does not fit."""


def table_service(target: Target) -> Service:
    return Service("dynamodb", target.url, f"table {target.table!r}", _where(target, target.endpoint))


def bucket_service(target: Target, bucket: str) -> Service:
    advice = (
        f"check blobs= in the URL; `aws s3 mb s3://{bucket}` makes a bucket, which is its owner's to "
        "configure"
    )
    return Service("s3", target.url, f"bucket {bucket!r}", _where(target, target.objects_at), advice)


def _where(target: Target, endpoint: str) -> str:
    return endpoint or f"region {target.region or 'of the environment'}"


def code_of(error: Exception) -> str:
    """The service's error code; empty if there is none."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, boto.ClientError) else ""


def may_pass(error: Exception) -> bool:
    """Whether the same request may succeed soon.

    Throttled, contended, a fault of the service or the network.
    """
    if isinstance(error, boto.ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return code_of(error) in THROTTLED | CONTENDED | _PASSING or status >= 500
    return isinstance(error, boto.HTTPClientError | boto.IncompleteReadError)


def is_answered(error: Exception) -> bool:
    """Whether the service has said that it did nothing; otherwise the outcome is unknown."""
    return code_of(error) in THROTTLED | CONTENDED - {"TransactionInProgressException"}


def reasons_of(error: Exception) -> frozenset[str]:
    """Why a transaction was cancelled; empty for every other error."""
    if code_of(error) != "TransactionCanceledException" or not isinstance(error, boto.ClientError):
        return frozenset()
    told: Any = error.response.get("CancellationReasons", ())
    return frozenset(one.get("Code", "") for one in told)


def translated(error: Exception, service: Service) -> StoreError:
    """The StoreError for it, with its cause set."""
    code, store = code_of(error), service.store
    made: StoreError
    if code in THROTTLED | CONTENDED:
        made = Throttled(store=store, problem=f"the service did not come to it in time: {_text(error)}")
    elif code in _MISSING:
        problem = f"there is no {service.what} at {service.where}"
        made = StoreMissing(store=store, problem=problem, advice=service.advice)
    elif code in _DENIED:
        made = AccessDenied(store=store, problem=f"{service.what}: {_text(error)}")
    elif isinstance(
        error, boto.NoCredentialsError | boto.PartialCredentialsError | boto.CredentialRetrievalError
    ):
        made = AccessDenied(store=store, problem=f"no credentials were found: {error}")
    elif isinstance(error, boto.EndpointConnectionError | boto.ConnectTimeoutError):
        made = StoreUnavailable(store=store, problem=f"nothing answers at {service.where}: {error}")
    else:
        made = StoreUnavailable(store=store, problem=_text(error))
    return made.because(error)


def _text(error: Exception) -> str:
    if not isinstance(error, boto.ClientError):
        return f"{error} ({type(error).__name__})"
    told = error.response.get("Error", {})
    return f"{told.get('Message') or 'no reason given'} ({told.get('Code')})"

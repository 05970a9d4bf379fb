"""The one door to AWS: calls through boto3, and what AWS answers turned into errors a user can act on.

boto3 is imported when the first call is made; where it looks for credentials and endpoints is its own business
(AWS_PROFILE, AWS_ENDPOINT_URL and the rest).
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from typing import Any

from umiak.cluster.actions import ADMINISTERS, CALLS, CHANGES, USES
from umiak.errors import InputError, RetryError, UmiakError
from umiak.spec.cluster import partition

# Where a partition answers questions that are not about one region.
_HOME = {"aws": "us-east-1", "aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1", "aws-eusc": "eusc-de-east-1"}

# EKS takes a token for 15 minutes after it was signed; the signature itself need not be good for so long.
TOKEN_SECONDS = 60

_DENIED = {
    "AccessDenied",
    "AccessDeniedException",
    "AuthorizationError",
    "UnauthorizedOperation",
    "UnauthorizedException",
}
# RequestExpired is what EC2 says, of a session as of a clock that is wrong.
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
_UNKNOWN_KEY = {"InvalidClientTokenId", "UnrecognizedClientException", "AuthFailure", "InvalidAccessKeyId"}
_CLOCK = {"RequestTimeTooSkewed", "SignatureDoesNotMatch", "InvalidSignatureException"}
_BUSY = {
    "RequestLimitExceeded",
    "ServiceUnavailable",
    "ServiceUnavailableException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
}


class AwsError(UmiakError):
    """An answer that no rule here explains; `code` is AWS's own name for it, for callers that expect it."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class DeniedError(InputError):
    """The credentials are good, but not for this action."""

    def __init__(self, action: str, region: str) -> None:
        super().__init__(
            f"these credentials are not allowed to do {action} in {region}; "
            "attach the policies that `umiak cluster render` writes, or ask your administrator to"
        )
        self.action = action


class Aws:
    """AWS in one region. Safe to use from several threads."""

    def __init__(self, region: str) -> None:
        self.region = region
        self.home = _HOME[partition(region)]
        self._clients: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()
        self._session: Any = None

    def call(self, service: str, operation: str, *, region: str | None = None, **params: Any) -> dict[str, Any]:
        """One request. An operation that no policy entry covers is a defect, found here before it is sent."""
        from botocore import xform_name

        client, action = self._prepare(service, operation, region)
        return _answered(lambda: getattr(client, xform_name(operation))(**params), action, region or self.region)

    def pages(
        self, service: str, operation: str, items: str, *, region: str | None = None, **params: Any
    ) -> list[dict[str, Any]]:
        """All items of an operation that answers in pages."""
        from botocore import xform_name

        client, action = self._prepare(service, operation, region)

        def collect() -> list[dict[str, Any]]:
            paginator = client.get_paginator(xform_name(operation))
            return [item for page in paginator.paginate(**params) for item in page.get(items, [])]

        return _answered(collect, action, region or self.region)

    def each(self, service: str, operation: str, items: str, **params: Any) -> Iterator[dict[str, Any]]:
        """Items one by one, a page asked for only when the one before it has been read."""
        from botocore import xform_name

        client, action = self._prepare(service, operation, None)
        pages = iter(client.get_paginator(xform_name(operation)).paginate(**params))
        while (page := _translated(lambda: next(pages, None), action, self.region)) is not None:
            yield from page.get(items, [])

    def endpoint(self, service: str) -> str:
        """Where that service answers, for programs that ask it themselves."""
        with self._lock:
            if (service, self.region) not in self._clients:
                self._clients[service, self.region] = self._client(service, self.region)
            return str(self._clients[service, self.region].meta.endpoint_url)

    def token(self, cluster: str) -> str:
        """A token for the cluster's API server: a signed question to STS, who we are, that EKS asks in our place."""
        client, action = self._prepare("sts", "GetCallerIdentity", None)

        def name_the_cluster(request: Any, **_: Any) -> None:
            request.headers.add_header("x-k8s-aws-id", cluster)

        client.meta.events.register("before-sign.sts.GetCallerIdentity", name_the_cluster, unique_id="umiak-token")
        try:
            url = _translated(
                lambda: client.generate_presigned_url("get_caller_identity", ExpiresIn=TOKEN_SECONDS, HttpMethod="GET"),
                action,
                self.region,
            )
        finally:
            client.meta.events.unregister("before-sign.sts.GetCallerIdentity", unique_id="umiak-token")
        return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")

    def _prepare(self, service: str, operation: str, region: str | None) -> tuple[Any, str]:
        action = (CALLS | CHANGES | USES | ADMINISTERS)[service, operation]
        place = region or self.region
        with self._lock:
            if (service, place) not in self._clients:
                self._clients[service, place] = _translated(lambda: self._client(service, place), action, place)
            return self._clients[service, place], action

    def _client(self, service: str, region: str) -> Any:
        from botocore.config import Config

        from umiak.cluster.session import session

        if self._session is None:
            self._session = session()
        config = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 5})
        return self._session.client(service, region_name=region, config=config)


def _answered(request: Any, action: str, region: str) -> Any:
    answer = _translated(request, action, region)
    if isinstance(answer, dict):
        answer.pop("ResponseMetadata", None)
    return answer


def _translated(request: Any, action: str, region: str) -> Any:
    from botocore import exceptions

    try:
        return request()
    except exceptions.ClientError as error:
        if error.operation_name == "AssumeRole":
            # Before the request itself: botocore wanted a session of the profile's role.
            raise InputError(
                f"AWS gives no session of the profile's role: {error.response['Error'].get('Message', '')}; check role_arn and "
                "source_profile of AWS_PROFILE and, where it has an mfa_serial, the code"
            ) from error
        raise _from_code(error.response.get("Error", {}), action, region) from error
    except exceptions.ProfileNotFound as error:
        raise InputError(f"{error}; set AWS_PROFILE to one of `aws configure list-profiles`") from error
    except (
        exceptions.NoCredentialsError,
        exceptions.PartialCredentialsError,
        exceptions.CredentialRetrievalError,
    ) as error:
        raise InputError(
            f"no usable AWS credentials ({error}); run `aws configure` or `aws sso login`, or set AWS_PROFILE, "
            "or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from error
    except (exceptions.SSOError, exceptions.LoginError, exceptions.TokenRetrievalError) as error:
        raise InputError(f"the AWS sign-in has ended ({error}); run `aws sso login` and try again") from error
    except (exceptions.HTTPClientError, exceptions.ConnectionError) as error:
        raise RetryError(
            f"cannot reach AWS for {action} in {region} ({error}); check the network, the proxy and the region's name"
        ) from error
    except exceptions.BotoCoreError as error:
        raise AwsError(f"{action} in {region} failed: {error}", type(error).__name__) from error


def _from_code(error: dict[str, str], action: str, region: str) -> UmiakError:
    code, message = error.get("Code", "unknown"), error.get("Message", "")
    if code in _DENIED:
        return DeniedError(action, region)
    if code in _EXPIRED:
        return InputError(
            "the AWS credentials have expired; renew them (`aws sso login`, or a new session token) and run this again"
        )
    if code in _UNKNOWN_KEY:
        return InputError(
            f"AWS does not know these credentials ({code}); check AWS_PROFILE or AWS_ACCESS_KEY_ID, and that {region} is "
            "enabled for the account"
        )
    if code in _CLOCK:
        return InputError(
            f"AWS refused the signature ({code}); check the secret key and that this machine's clock is right"
        )
    if code in _BUSY:
        return RetryError(f"AWS is busy: {action} in {region} was refused ({code}) again and again; try later")
    return AwsError(f"{action} in {region} failed: {code}: {message}", code)

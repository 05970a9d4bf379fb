"""A request as AWS would understand it: service, operation, parameters, region and who signed it; and answers to it."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any

from moto.core.exceptions import ServiceException
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import Request, determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.serialize import get_serializer_class
from moto.core.utils import get_service_model

# Where the name in a signature is not the name of the boto3 client.
CLIENTS = {
    "elasticfilesystem": "efs",
    "elasticloadbalancing": "elbv2",
    "servicequotas": "service-quotas",
    "tagging": "resourcegroupstaggingapi",
}
# Of two clients with one name in their signatures, the older says so by the version of its API.
CLASSIC = ("2012-06-01", "elb")
# And where neither is the prefix of IAM actions.
IAM_PREFIXES = {
    "efs": "elasticfilesystem",
    "elb": "elasticloadbalancing",
    "elbv2": "elasticloadbalancing",
    "resourcegroupstaggingapi": "tag",
    "service-quotas": "servicequotas",
}
# Operations that IAM calls something else.
IAM_NAMES = {
    ("s3", "GetBucketEncryption"): "GetEncryptionConfiguration",
    ("s3", "PutBucketEncryption"): "PutEncryptionConfiguration",
    ("s3", "PutBucketLifecycleConfiguration"): "PutLifecycleConfiguration",
    ("s3", "DeleteObjects"): "DeleteObjectVersion",
    ("s3", "ListBuckets"): "ListAllMyBuckets",
    ("s3", "CompleteMultipartUpload"): "PutObject",
    ("s3", "CreateMultipartUpload"): "PutObject",
    ("s3", "ListObjectsV2"): "ListBucket",
    ("s3", "UploadPart"): "PutObject",
    ("s3", "ListMultipartUploads"): "ListBucketMultipartUploads",
    ("s3", "ListObjectVersions"): "ListBucketVersions",
    ("s3", "PutPublicAccessBlock"): "PutBucketPublicAccessBlock",
}


class AwsFault(ServiceException):
    """An error as AWS answers it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)


@dataclass(frozen=True)
class Call:
    service: str
    operation: str
    params: dict[str, Any]
    region: str
    key_id: str
    # The service that asks on somebody's behalf, like cloudformation.
    via: str = ""

    @property
    def action(self) -> str:
        name = IAM_NAMES.get((self.service, self.operation), self.operation)
        return f"{IAM_PREFIXES.get(self.service, self.service)}:{name}"

    def __str__(self) -> str:
        return f"{self.service} {self.operation}"


def read(environ: dict[str, Any]) -> tuple[Call, Any, str]:
    """(call, operation model, protocol) of a signed request."""
    request = Request(environ)
    signed = re.search(r"Credential=([^/]+)/\d+/([^/]+)/([^/]+)/", request.headers.get("Authorization", ""))
    if not signed:
        raise ValueError(f"not a signed AWS request: {request.method} {request.path}")
    key_id, region, name = signed.groups()
    service = CLIENTS.get(name, name)
    if service == "elbv2" and request.values.get("Version") == CLASSIC[0]:
        service = CLASSIC[1]
    model = get_service_model(service)
    operation, uri = get_service_router(service).match(request)
    protocol = determine_request_protocol(model, request.content_type)
    parsed = PROTOCOL_PARSERS[protocol](operation, map_type=dict).parse(
        {
            "method": request.method,
            "values": request.values,
            "headers": request.headers,
            "body": request.data,
            "url_path": request.path,
            "url_params": uri,
        }
    )
    via = request.headers.get("X-Fake-Via", "")
    # The parser fills in empty lists for what was not sent.
    params = {key: value for key, value in (parsed or {}).items() if value not in (None, [], {})}
    return Call(service, operation.name, params, region, key_id, via), operation, protocol


def written(result: Any, operation: Any, protocol: str) -> tuple[str, list[tuple[str, str]], bytes]:
    """(status, headers, body) of a result or an AwsFault, in the service's own protocol."""
    serializer = get_serializer_class(operation.service_model.service_name, protocol)(operation_model=operation)
    with warnings.catch_warnings():
        # Errors every service has in common are in no service's model.
        warnings.filterwarnings("ignore", message=".*does not match an error shape")
        response = serializer.serialize(result)
    body = response["body"]
    headers = [(str(key), str(value)) for key, value in response["headers"].items()]
    return f"{response['status_code']} fake", headers, body.encode() if isinstance(body, str) else body

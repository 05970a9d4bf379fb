"""EKS tokens: a presigned question to STS, "who am I", that the API server asks in the caller's place.

`review` is what EKS's authenticator does for a TokenReview: it checks that the token is that question and no other, that it is
about this cluster, signed by somebody we know and not too old, and that an access entry lets them in.
"""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.fake_aws.people import Person

if TYPE_CHECKING:
    from tests.fake_aws.server import FakeAws

PREFIX = "k8s-aws-v1."
LIFETIME = 15 * 60
ADMIN_POLICY = "AmazonEKSClusterAdminPolicy"
_PARAMS = {
    "Action",
    "Version",
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-Security-Token",
    "X-Amz-Signature",
    "X-Amz-SignedHeaders",
}


class TokenRefused(Exception):
    """Why nobody is let in by this token."""


class Tokens:
    def __init__(self, fake: FakeAws) -> None:
        self.fake = fake

    def review(self, request: dict[str, Any], cluster: str | None = None) -> dict[str, Any]:
        """A TokenReview with its status. `cluster`: which one is asked; by default the only one."""
        name = cluster or next(iter(self.fake.eks.clusters), "")
        try:
            person = self._caller(request["spec"]["token"], name)
            groups = self._groups(person, name)
        except (TokenRefused, KeyError, ValueError, binascii.Error) as error:
            status: dict[str, Any] = {"authenticated": False, "error": str(error)}
        else:
            status = {"authenticated": True, "user": {"username": person.arn, "uid": person.key_id, "groups": groups}}
        return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status}

    def _caller(self, token: str, cluster: str) -> Person:
        if not token.startswith(PREFIX):
            raise TokenRefused(f"does not begin with {PREFIX}")
        body = token.removeprefix(PREFIX)
        url = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()
        parts = urlsplit(url)
        if f"{parts.scheme}://{parts.netloc}" != self.fake.endpoint or parts.path not in ("", "/"):
            raise TokenRefused(f"is no question to STS but to {parts.netloc}{parts.path}")
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if set(query) - _PARAMS or query.get("Action") != "GetCallerIdentity":
            raise TokenRefused("asks something else than GetCallerIdentity")
        if "x-k8s-aws-id" not in query["X-Amz-SignedHeaders"].split(";"):
            raise TokenRefused("names no cluster")
        made = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if (
            not 0 <= (datetime.now(UTC) - made).total_seconds() + 60 < LIFETIME + 60
            or int(query["X-Amz-Expires"]) > LIFETIME
        ):
            raise TokenRefused("is too old")
        key_id, _, region, service, _ = query["X-Amz-Credential"].split("/")
        person = self.fake.people.by_key.get(key_id)
        if person is None or person.expired:
            raise TokenRefused("is signed by nobody we know")
        if service != "sts" or self._signature(url, query, region, person, cluster) != query["X-Amz-Signature"]:
            raise TokenRefused("has a wrong signature, or is for another cluster")
        return person

    def _signature(self, url: str, query: dict[str, str], region: str, person: Person, cluster: str) -> str:
        environment = person.environment
        auth = SigV4QueryAuth(
            Credentials(person.key_id, environment["AWS_SECRET_ACCESS_KEY"]), "sts", region, expires=60
        )
        unsigned = "&".join(part for part in urlsplit(url).query.split("&") if not part.startswith("X-Amz-Signature="))
        parts = urlsplit(url)
        request = AWSRequest("GET", f"{parts.scheme}://{parts.netloc}/?{unsigned}", {"x-k8s-aws-id": cluster})
        request.context["timestamp"] = query["X-Amz-Date"]
        text = auth.string_to_sign(request, auth.canonical_request(request))
        return str(auth.signature(text, request))

    def _groups(self, person: Person, cluster: str) -> list[str]:
        entry = self.fake.eks.access.get((cluster, person.principal))
        if entry is None:
            raise TokenRefused(f"{person.principal} has no access entry in {cluster}")
        admin = any(ADMIN_POLICY in policy for policy, _ in entry["policies"])
        return ["system:authenticated", *(["system:masters"] if admin else [])]

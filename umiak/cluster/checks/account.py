"""Who asks, and where: credentials, account, region, and whether the region has the services."""

from __future__ import annotations

import difflib
import re

from umiak.cluster.aws import Aws, AwsError, DeniedError
from umiak.cluster.checks.finding import Caller, Context, Finding
from umiak.spec.cluster import ClusterSpec, partition

SERVICES = ("cloudformation", "ec2", "ecr", "efs", "eks", "kms", "logs", "s3")


def caller(aws: Aws) -> Caller:
    """Raises when there are no credentials, or none that AWS takes."""
    # Asked at home: a mistyped region must not look like a lost network.
    identity = aws.call("sts", "GetCallerIdentity", region=aws.home)
    return Caller(identity["Account"], identity["Arn"], *_principal(aws, identity["Arn"]))


def _principal(aws: Aws, arn: str) -> tuple[str | None, bool]:
    """The IAM user or role behind a caller's ARN, and whether that is certain: the ARN of an assumed role hides its path, so IAM
    is asked for it."""
    if re.fullmatch(r"arn:[^:]+:iam::\d{12}:(user|role)/.+", arn):
        return arn, True
    session = re.fullmatch(r"arn:([^:]+):sts::(\d{12}):assumed-role/([^/]+)/.+", arn)
    if not session:
        return None, True
    try:
        role: str = aws.call("iam", "GetRole", region=aws.home, RoleName=session[3])["Role"]["Arn"]
        return role, True
    except (DeniedError, AwsError):
        return f"arn:{session[1]}:iam::{session[2]}:role/{session[3]}", False


def credentials(spec: ClusterSpec, who: Caller) -> list[Finding]:
    if spec.account and spec.account != who.account:
        return [
            Finding(
                "error",
                "credentials",
                f"{who.arn} belongs to account {who.account}, but cluster.yaml says {spec.account}",
                "set AWS_PROFILE to a profile of that account, or change account",
            )
        ]
    found = [Finding("info", "credentials", f"account {who.account}, {who.arn}")]
    if who.arn.endswith(":root"):
        found.append(
            Finding(
                "warning",
                "credentials",
                "these are the account's root credentials; they cannot be limited or simulated",
                "use an IAM role or user; EKS also requires one as its administrator",
            )
        )
    return found


def region(aws: Aws) -> list[Finding]:
    try:
        listed = aws.call("ec2", "DescribeRegions", region=aws.home, AllRegions=True)["Regions"]
    except DeniedError as error:
        return [
            Finding(
                "warning",
                "region",
                f"not checked: these credentials are not allowed to do {error.action}",
                "attach policy-plan.json, which `umiak cluster render` writes",
            )
        ]
    status = {entry["RegionName"]: entry["OptInStatus"] for entry in listed}
    if aws.region not in status:
        close = difflib.get_close_matches(aws.region, status, n=1)
        nearest = f", like {close[0]}" if close else ""
        return [
            Finding("error", "region", f"AWS has no region {aws.region}", f"write one that exists in region{nearest}")
        ]
    if status[aws.region] == "not-opted-in":
        return [
            Finding(
                "error",
                "region",
                f"{aws.region} is not enabled for this account",
                f"enable it: aws account enable-region --region-name {aws.region}",
            )
        ]
    return [Finding("info", "region", f"{aws.region} is enabled")]


def services(context: Context) -> list[Finding]:
    aws, place = context.aws, context.spec.region
    if partition(place) != "aws":
        return [Finding("info", "services", f"AWS does not publish which services {place} has; not checked")]
    path = f"/aws/service/global-infrastructure/regions/{place}/services/"
    answer = aws.call("ssm", "GetParameters", region=aws.home, Names=[path + name for name in SERVICES])
    missing = sorted(name.removeprefix(path) for name in answer.get("InvalidParameters", []))
    if missing:
        return [Finding("error", "services", f"{place} does not offer {', '.join(missing)}", "choose another region")]
    return [Finding("info", "services", f"{place} offers all {len(SERVICES)} services")]

"""Things cluster.yaml names that must exist and be usable: the key pair, the KMS key; and the template, asked of AWS itself."""

from __future__ import annotations

import json
from typing import Any

from umiak.cluster import template as built
from umiak.cluster.aws import AwsError, DeniedError
from umiak.cluster.checks.finding import Context, Finding
from umiak.spec.cluster import partition


def key_pair(context: Context) -> list[Finding]:
    name, region = context.spec.nodes.key_name, context.spec.region
    if name is None:
        return []
    try:
        context.aws.call("ec2", "DescribeKeyPairs", KeyNames=[name])
    except AwsError as error:
        if error.code != "InvalidKeyPair.NotFound":
            raise
        return [
            Finding(
                "error",
                "key pair",
                f"there is no EC2 key pair {name} in {region}",
                f"make it (aws ec2 create-key-pair --region {region} --key-name {name}), or write nodes.key_name: null",
            )
        ]
    return [Finding("info", "key pair", f"{name} exists")]


def kms_key(context: Context) -> list[Finding]:
    arn = context.spec.kms_key_arn
    if arn is None:
        return []
    try:
        key = context.aws.call("kms", "DescribeKey", KeyId=arn)["KeyMetadata"]
    except AwsError as error:
        if error.code != "NotFoundException":
            raise
        return [
            Finding("error", "kms key", f"{arn} does not exist", "correct kms_key_arn, or write null to have one made")
        ]
    if key["KeyState"] != "Enabled":
        return [
            Finding(
                "error",
                "kms key",
                f"the key is {key['KeyState']}, not Enabled",
                f"enable it (aws kms enable-key --key-id {arn}), or name another in kms_key_arn",
            )
        ]
    if key["KeySpec"] != "SYMMETRIC_DEFAULT" or key["KeyUsage"] != "ENCRYPT_DECRYPT":
        return [
            Finding(
                "error",
                "kms key",
                f"the key is {key['KeySpec']} for {key['KeyUsage']}; EKS requires a symmetric encryption key",
                "name another in kms_key_arn, or write null to have one made",
            )
        ]
    return _logs_may_use(context, arn)


def _logs_may_use(context: Context, arn: str) -> list[Finding]:
    region = context.spec.region
    suffix = ".cn" if partition(region) == "aws-cn" else ""
    service = f"logs.{region}.amazonaws.com{suffix}"
    document = json.loads(context.aws.call("kms", "GetKeyPolicy", KeyId=arn, PolicyName="default")["Policy"])
    if any(service in _principals(item) for item in document["Statement"] if item["Effect"] == "Allow"):
        return [Finding("info", "kms key", "the key is enabled, and CloudWatch Logs may use it")]
    return [
        Finding(
            "error",
            "kms key",
            f"the key's policy does not let {service} use it, so the log group could not be made",
            f'add a statement to it: Principal {{"Service": "{service}"}}, Action kms:Encrypt, kms:Decrypt, kms:ReEncrypt*, '
            'kms:GenerateDataKey*, kms:DescribeKey, Resource "*"',
        )
    ]


def _principals(statement: dict[str, Any]) -> list[str]:
    principal = statement.get("Principal", {})
    services = principal.get("Service", []) if isinstance(principal, dict) else []
    return [services] if isinstance(services, str) else services


def template(context: Context) -> list[Finding]:
    try:
        context.aws.call("cloudformation", "ValidateTemplate", TemplateBody=built.text(context.spec))
    except DeniedError:
        raise
    except AwsError as error:
        return [
            Finding("error", "template", f"CloudFormation refuses it: {error}", "report this: it is a defect of umiak")
        ]
    return [Finding("info", "template", "CloudFormation accepts it")]

"""The CloudFormation template of a cluster: a pure function of cluster.yaml. Creates nothing and asks nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from troposphere import Output, Parameter, Template

from umiak.cluster.template import bastion, kubernetes, network, roles, storage
from umiak.cluster.template.parts import Parts
from umiak.spec.cluster import ClusterSpec
from umiak.spec.yamlfile import to_yaml

# CloudFormation takes a larger template only from a bucket, which would have to exist first.
INLINE_LIMIT = 51_200
# Raised when a stack made by an older umiak could not be updated by this one.
FORMAT = 1


def build(spec: ClusterSpec, old_volume: bool = False) -> dict[str, Any]:
    """The template as plain data. `old_volume`: for a stack whose volume umiak 0.1.0 made."""
    template = Template(Description=f"umiak cluster {spec.name}: EKS, EFS, S3, ECR and KMS for distributed training")
    template.set_version("2010-09-09")
    template.set_metadata({"Umiak": {"Cluster": spec.name, "Format": FORMAT}})
    parts = Parts(spec, template, old_volume)
    default = {"Default": spec.kubernetes.admin_arn} if spec.kubernetes.admin_arn else {}
    template.add_parameter(
        Parameter(
            "AdminArn",
            Type="String",
            Description="ARN of the IAM role or user that administers the cluster (of an assumed role: the role's ARN)",
            AllowedPattern=r"arn:aws[a-z-]*:iam::\d{12}:(role|user)/.+",
            **default,
        )
    )
    net = network.add(parts)
    stores = storage.add(parts, net)
    identities = roles.add(parts, stores)
    kubernetes.add(parts, net, stores, identities)
    if spec.kubernetes.bastion:
        bastion.add(parts, net, identities)
    for name, (value, description) in parts.outputs.items():
        template.add_output(Output(name, Value=value, Description=description))
    return _in_reading_order(template.to_dict())


def types(built: Mapping[str, Any]) -> set[str]:
    """The resource types of a built template."""
    return {resource["Type"] for resource in built["Resources"].values()}


def _in_reading_order(template: dict[str, Any]) -> dict[str, Any]:
    """As a person would write it: what the template is, then what it makes, each resource with its type first."""
    top = ("AWSTemplateFormatVersion", "Description", "Metadata", "Parameters", "Resources", "Outputs")
    inner = ("Type", "DeletionPolicy", "UpdateReplacePolicy", "DependsOn", "Metadata", "Properties")
    resources = {
        title: {key: resource[key] for key in inner if key in resource}
        for title, resource in template["Resources"].items()
    }
    return {key: template[key] for key in top} | {"Resources": resources}


def text(spec: ClusterSpec, old_volume: bool = False) -> str:
    """The template as a user sees it and CloudFormation gets it."""
    return to_yaml(build(spec, old_volume))


def has_old_volume(built: Mapping[str, Any]) -> bool:
    """Whether a template's pods mount the volume as umiak 0.1.0 had it: all of it, as root, without IAM."""
    resources = built["Resources"]
    return "Volume" in resources and "FileSystemPolicy" not in resources["Volume"]["Properties"]

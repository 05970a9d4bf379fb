"""IAM roles of the cluster, each for one job. Who may create them is `umiak.cluster.policy`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from troposphere import Sub, iam

from umiak.cluster.template.parts import Parts, document, explain, statement
from umiak.cluster.template.storage import MOUNT, ROOT, WRITE, StorageParts
from umiak.spec.cluster import ClusterSpec, ec2_service

# What the roles are for, as their names say it.
JOBS = ("cluster", "nodes", "network", "volume", "data")
# What their policies are, besides a short one of the data role's own.
MANAGED = {
    "cluster": ("AmazonEKSClusterPolicy",),
    "nodes": ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"),
    "network": ("AmazonEKS_CNI_Policy",),
    "volume": ("service-role/AmazonEFSCSIDriverPolicy",),
    "data": (),
    "bastion": ("AmazonSSMManagedInstanceCore",),
}


@dataclass(frozen=True)
class RoleParts:
    cluster: Any
    nodes: Any
    network: Any
    volume: Any
    data: Any
    # Only for a private API server with a way in.
    bastion: Any = None


def jobs(spec: ClusterSpec) -> tuple[str, ...]:
    return (*JOBS, "bastion") if spec.kubernetes.bastion else JOBS


def role_name(cluster: str, region: str, job: str) -> str:
    """Named, not generated, so that a policy can name them; with the region, because IAM has none. At most 64 characters."""
    return f"{cluster}-{region}-{job}"


def boundary_name(cluster: str, region: str) -> str:
    """The policy that bounds what any of the roles may do, whatever is attached to it."""
    return f"{cluster}-{region}-boundary"


def add(parts: Parts, stores: StorageParts) -> RoleParts:
    data = document(
        statement("ListBucket", "Allow", "s3:ListBucket", stores.bucket_arn),
        statement("ReadBucket", "Allow", "s3:GetObject", stores.objects_arn),
        statement(
            "DecryptBucket",
            "Allow",
            "kms:Decrypt",
            stores.key_arn,
            Condition={"StringEquals": {"kms:ViaService": Sub("s3.${AWS::Region}.${AWS::URLSuffix}")}},
        ),
    )
    spec, pods = parts.spec, "pods.eks.amazonaws.com"
    # The EFS driver mounts as the node: its pods use the node's network, so they reach the node's credentials, others do not.
    mount = document(
        statement(
            "MountVolume",
            "Allow",
            [MOUNT, WRITE, *([ROOT] if parts.spec.existing.written_as_root else [])],
            stores.volume_arn,
            Condition={"StringEquals": {"elasticfilesystem:AccessPointArn": stores.access_arn}},
        )
    )
    return RoleParts(
        cluster=_role(parts, "ClusterRole", "cluster", "eks.amazonaws.com"),
        nodes=_role(
            parts, "NodeRole", "nodes", ec2_service(parts.spec.region), **({} if parts.old_volume else {"Mount": mount})
        ),
        network=_role(parts, "NetworkRole", "network", pods),
        volume=_role(parts, "VolumeRole", "volume", pods),
        data=explain(
            _role(parts, "DataRole", "data", pods, Read=data),
            ReadBucket="Every object of this one bucket, to read",
        ),
        bastion=_role(parts, "BastionRole", "bastion", ec2_service(spec.region)) if spec.kubernetes.bastion else None,
    )


def _role(parts: Parts, title: str, job: str, service: str, **inline: Any) -> Any:
    spec = parts.spec
    # EKS Pod Identity tags the sessions that it opens; the others only assume.
    actions = ["sts:AssumeRole", "sts:TagSession"] if service.startswith("pods.") else ["sts:AssumeRole"]
    optional: dict[str, Any] = {}
    if MANAGED[job]:
        managed = [Sub(f"arn:${{AWS::Partition}}:iam::aws:policy/{name}") for name in MANAGED[job]]
        optional["ManagedPolicyArns"] = managed
    if inline:
        optional["Policies"] = [iam.Policy(PolicyName=name, PolicyDocument=body) for name, body in inline.items()]
    return parts.add(
        iam.Role(
            title,
            RoleName=role_name(spec.name, spec.region, job),
            AssumeRolePolicyDocument=document(
                {"Effect": "Allow", "Principal": {"Service": service}, "Action": actions}
            ),
            PermissionsBoundary=Sub(
                f"arn:${{AWS::Partition}}:iam::${{AWS::AccountId}}:policy/{boundary_name(spec.name, spec.region)}"
            ),
            Tags=parts.tags(job),
            **optional,
        )
    )

"""EKS: the control plane, its add-ons in the order that works, the nodes, and who may do what."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

from troposphere import GetAtt, Ref, Sub, ec2, eks, logs

from umiak.cluster.template.network import NetworkParts
from umiak.cluster.template.parts import Parts
from umiak.cluster.template.roles import RoleParts
from umiak.cluster.template.storage import StorageParts, log_group_name
from umiak.spec.cluster import is_arm

LOG_DAYS = 30
LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")
# The pods that read the bucket run as this.
DATA_NAMESPACE, DATA_ACCOUNT = "default", "umiak-data"


def service_cidr(vpc_cidr: str) -> str:
    """Addresses of Kubernetes services: one of the two ranges EKS itself uses, whichever the VPC leaves free."""
    first, second = "172.20.0.0/16", "10.100.0.0/16"
    return second if ipaddress.IPv4Network(vpc_cidr).overlaps(ipaddress.IPv4Network(first)) else first


def add(parts: Parts, net: NetworkParts, stores: StorageParts, roles: RoleParts) -> None:
    cluster = _cluster(parts, net, stores, roles)
    admin = eks.AccessEntry(
        "Admin",
        ClusterName=Ref(cluster),
        PrincipalArn=Ref("AdminArn"),
        AccessPolicies=[
            eks.AccessPolicy(
                PolicyArn=Sub("arn:${AWS::Partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"),
                AccessScope=eks.AccessScope(Type="cluster"),
            )
        ],
        Tags=parts.tags("admin"),
    )
    parts.add(admin)
    # A node is ready only with a network, so these come first; they have nothing to wait for but the control plane.
    agent = _addon(parts, cluster, "PodIdentityAgent", "eks-pod-identity-agent")
    network = _addon(
        parts,
        cluster,
        "VpcCni",
        "vpc-cni",
        DependsOn=agent.title,
        ConfigurationValues=json.dumps({"enableNetworkPolicy": "true"}),
        PodIdentityAssociations=[_pod_identity("aws-node", roles.network)],
    )
    proxy = _addon(parts, cluster, "KubeProxy", "kube-proxy")
    nodes = _nodes(parts, net, stores, roles, cluster, [agent.title, network.title, proxy.title])
    # These are pods that wait for a node: created earlier, they would time out.
    _addon(parts, cluster, "CoreDns", "coredns", DependsOn=nodes.title)
    _addon(
        parts,
        cluster,
        "EfsCsi",
        "aws-efs-csi-driver",
        DependsOn=nodes.title,
        PodIdentityAssociations=[_pod_identity("efs-csi-controller-sa", roles.volume)],
    )
    parts.add(
        eks.PodIdentityAssociation(
            "DataAccess",
            ClusterName=Ref(cluster),
            Namespace=DATA_NAMESPACE,
            ServiceAccount=DATA_ACCOUNT,
            RoleArn=GetAtt(roles.data, "Arn"),
            Tags=parts.tags("data"),
        )
    )
    parts.outputs |= {
        "ClusterName": (Ref(cluster), "Name of the EKS cluster"),
        "ClusterEndpoint": (GetAtt(cluster, "Endpoint"), "Address of the API server"),
        "ClusterCertificate": (GetAtt(cluster, "CertificateAuthorityData"), "CA of the API server, base64"),
    }


def _cluster(parts: Parts, net: NetworkParts, stores: StorageParts, roles: RoleParts) -> Any:
    spec = parts.spec
    log_group = parts.add(
        logs.LogGroup(
            "ClusterLogs",
            LogGroupName=log_group_name(spec.name),
            RetentionInDays=LOG_DAYS,
            KmsKeyId=stores.key_arn,
            Tags=parts.tags("logs"),
            DeletionPolicy="Delete",
            UpdateReplacePolicy="Delete",
        )
    )
    public = bool(spec.kubernetes.api_cidrs)
    limited = {"PublicAccessCidrs": list(spec.kubernetes.api_cidrs)} if public else {}
    return parts.add(
        eks.Cluster(
            "Cluster",
            Name=spec.name,
            Version=spec.kubernetes.version,
            RoleArn=GetAtt(roles.cluster, "Arn"),
            AccessConfig=eks.AccessConfig(AuthenticationMode="API", BootstrapClusterCreatorAdminPermissions=False),
            BootstrapSelfManagedAddons=False,
            EncryptionConfig=[
                eks.EncryptionConfig(Provider=eks.Provider(KeyArn=stores.key_arn), Resources=["secrets"])
            ],
            KubernetesNetworkConfig=eks.KubernetesNetworkConfig(ServiceIpv4Cidr=service_cidr(spec.network.cidr)),
            Logging=eks.Logging(
                ClusterLogging=eks.ClusterLogging(EnabledTypes=[eks.LoggingTypeConfig(Type=name) for name in LOG_TYPES])
            ),
            ResourcesVpcConfig=eks.ResourcesVpcConfig(
                SubnetIds=[Ref(subnet) for subnet in net.private_subnets],
                EndpointPrivateAccess=True,
                EndpointPublicAccess=public,
                **limited,
            ),
            UpgradePolicy=eks.UpgradePolicy(SupportType="STANDARD"),
            Tags=parts.tags("cluster"),
            # Before the control plane, which would make a group of its own: without the key, and for ever.
            DependsOn=log_group.title,
        )
    )


def _addon(parts: Parts, cluster: Any, title: str, name: str, **more: Any) -> Any:
    return parts.add(
        eks.Addon(
            title,
            ClusterName=Ref(cluster),
            AddonName=name,
            ResolveConflicts="OVERWRITE",
            Tags=parts.tags(name),
            **more,
        )
    )


def _pod_identity(account: str, role: Any) -> Any:
    return eks.PodIdentityAssociationProperty(ServiceAccount=account, RoleArn=GetAtt(role, "Arn"))


def _nodes(
    parts: Parts, net: NetworkParts, stores: StorageParts, roles: RoleParts, cluster: Any, addons: list[str]
) -> Any:
    nodes = parts.spec.nodes
    optional = {"KeyName": nodes.key_name} if nodes.key_name else {}
    tagged = [
        ec2.TagSpecifications(ResourceType=kind, Tags=parts.tags("node"))
        for kind in ("instance", "volume", "network-interface")
    ]
    launch = parts.add(
        ec2.LaunchTemplate(
            "NodeTemplate",
            LaunchTemplateData=ec2.LaunchTemplateData(
                BlockDeviceMappings=[
                    ec2.LaunchTemplateBlockDeviceMapping(
                        DeviceName="/dev/xvda",
                        Ebs=ec2.EBSBlockDevice(
                            DeleteOnTermination=True, Encrypted=True, VolumeSize=nodes.disk_gb, VolumeType="gp3"
                        ),
                    )
                ],
                # One hop: a pod cannot reach the node's credentials.
                MetadataOptions=ec2.MetadataOptions(
                    HttpEndpoint="enabled", HttpPutResponseHopLimit=1, HttpTokens="required"
                ),
                # A template that lists groups must list the cluster's too, or nodes never join.
                SecurityGroupIds=[
                    GetAtt(cluster, "ClusterSecurityGroupId"),
                    GetAtt(stores.node_group, "GroupId"),
                ],
                TagSpecifications=tagged,
                **optional,
            ),
            TagSpecifications=[ec2.TagSpecifications(ResourceType="launch-template", Tags=parts.tags("node"))],
        )
    )
    # Without a name of ours, so that a change of types can replace it: two cannot have one name.
    return parts.add(
        eks.Nodegroup(
            "Nodes",
            ClusterName=Ref(cluster),
            NodeRole=GetAtt(roles.nodes, "Arn"),
            Subnets=[Ref(net.node_subnet)],
            # With the control plane's, which comes first; the image's release is `umiak cluster patch`'s.
            Version=parts.spec.kubernetes.version,
            AmiType="AL2023_ARM_64_STANDARD" if is_arm(nodes.types[0]) else "AL2023_x86_64_STANDARD",
            CapacityType="SPOT" if nodes.spot else "ON_DEMAND",
            InstanceTypes=list(nodes.types),
            LaunchTemplate=eks.LaunchTemplateSpecification(
                Id=Ref(launch), Version=GetAtt(launch, "LatestVersionNumber")
            ),
            # EKS wants a maximum of at least one, even for a pause.
            ScalingConfig=eks.ScalingConfig(MinSize=0, DesiredSize=nodes.count, MaxSize=max(nodes.count, 1)),
            UpdateConfig=eks.UpdateConfig(MaxUnavailable=1),
            Tags={str(tag["Key"]): tag["Value"] for tag in parts.tags("nodes").to_dict()},
            DependsOn=[*addons, *net.way_out, *stores.mounts],
        )
    )

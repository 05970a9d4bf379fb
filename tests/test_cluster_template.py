"""The rendered template, for each option alone and all pairs: what must hold whatever the user chose.

Security is asserted here, on what AWS would get, not on the state of any fake.
"""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cfnlint.data.schemas
import pytest
import yaml
from cfnlint.api import lint
from cfnlint.core import get_rules

from tests.cluster_options import chosen, cover, label, spec, templates
from umiak.cluster import manifests, template
from umiak.cluster.template.network import subnets
from umiak.cluster.template.roles import JOBS, role_name
from umiak.spec.cluster import TAG, ClusterSpec

Built = dict[str, Any]
EVERY = templates()


def of_type(built: Built, kind: str) -> dict[str, dict[str, Any]]:
    """Title → properties."""
    return {title: body.get("Properties", {}) for title, body in built["Resources"].items() if body["Type"] == kind}


def the_only(built: Built, kind: str) -> dict[str, Any]:
    (properties,) = of_type(built, kind).values()
    return properties


def every_with(kind: str) -> Iterator[tuple[str, ClusterSpec, dict[str, Any]]]:
    for name, given, built in EVERY:
        for title, properties in of_type(built, kind).items():
            yield f"{name}: {title}", given, properties


@pytest.fixture(scope="module")
def lint_rules() -> Any:
    # W3010 is about naming zones, which is what the user asked for.
    return get_rules([], ["W3010"], [])


@pytest.mark.slow
@pytest.mark.parametrize("choices", [(), *cover()], ids=label)
def test_cfn_lint_finds_nothing(choices: Any, lint_rules: Any) -> None:
    given = chosen(choices)
    assert [str(match) for match in lint(template.text(given), lint_rules, [given.region])] == []


def test_cfn_lint_would_find_something(lint_rules: Any) -> None:
    broken = template.build(spec())
    broken["Resources"]["Vpc"]["Properties"]["Colour"] = "blue"
    assert lint(json.dumps(broken), lint_rules, ["us-west-2"])


def test_template_fits_inline_even_with_everything_chosen() -> None:
    longest = spec(name="p" * 40, region="ap-southeast-1")
    texts = [template.text(chosen(choices)) for choices in cover()] + [template.text(longest)]
    assert max(len(text.encode()) for text in texts) < template.INLINE_LIMIT


def test_same_file_gives_same_bytes_in_any_process() -> None:
    code = "from tests.cluster_options import spec; from umiak.cluster import render; print(sorted(render.files(spec()).items()))"
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


def test_everything_that_can_have_a_tag_has_ours() -> None:
    untaggable = {
        "AWS::EC2::Route",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SubnetRouteTableAssociation",
        "AWS::EC2::VPCGatewayAttachment",
        "AWS::EFS::MountTarget",
        "AWS::IAM::InstanceProfile",
        "AWS::KMS::Alias",
        "AWS::S3::BucketPolicy",
    }
    for name, given, built in EVERY:
        for title, body in built["Resources"].items():
            if body["Type"] not in untaggable:
                assert _our_tag(body) == given.name, f"{name}: {title} has no tag {TAG}"
    for kind in untaggable:
        assert schema(kind)["tagging"]["taggable"] is False, f"{kind} could have a tag"


def _our_tag(body: dict[str, Any]) -> str | None:
    properties = body["Properties"]
    tags: Any = next(
        (properties[key] for key in ("Tags", "FileSystemTags", "AccessPointTags") if key in properties), []
    )
    if body["Type"] == "AWS::EC2::LaunchTemplate":
        (tags,) = [entry["Tags"] for entry in properties["TagSpecifications"]]
    if isinstance(tags, list):
        tags = {tag["Key"]: tag["Value"] for tag in tags}
    return tags.get(TAG)


def schema(kind: str, region: str = "us-east-1") -> dict[str, Any]:
    """CloudFormation's own schema of a type, as cfn-lint carries it."""
    root = Path(cfnlint.data.schemas.__file__).parent
    name = json.loads((root / "providers" / f"{region}.json").read_text())[kind]
    body: dict[str, Any] = json.loads((root / "resources" / f"{name}.json").read_text())
    return body


def test_machines_disks_and_interfaces_carry_our_tag_too() -> None:
    for name, given, properties in every_with("AWS::EC2::LaunchTemplate"):
        entries = properties["LaunchTemplateData"]["TagSpecifications"]
        assert {entry["ResourceType"] for entry in entries} == {"instance", "volume", "network-interface"}, name
        assert all({"Key": TAG, "Value": given.name} in entry["Tags"] for entry in entries), name


def test_no_security_group_lets_anyone_in_from_outside() -> None:
    for name, given, properties in every_with("AWS::EC2::SecurityGroup"):
        vpc = ipaddress.IPv4Network(given.network.cidr)
        for rule in properties.get("SecurityGroupIngress", []):
            assert ipaddress.IPv4Network(rule["CidrIp"]).subnet_of(vpc), name
            assert (given.nodes.key_name, rule["FromPort"], rule["ToPort"]) == ("laptop", 22, 22), name
        ways_out = [(rule["CidrIp"], rule.get("ToPort")) for rule in properties["SecurityGroupEgress"]]
        # The bastion speaks to Systems Manager and to the API server; what else there is speaks to nobody by itself.
        bastion = "way to the API server" in properties["GroupDescription"]
        assert ways_out == ([("0.0.0.0/0", 443)] if bastion else [("127.0.0.1/32", None)]), name


def test_volume_admits_nfs_from_the_nodes_group_and_nothing_else() -> None:
    for name, _, built in EVERY:
        group = of_type(built, "AWS::EC2::SecurityGroup")["VolumeSecurityGroup"]
        assert "SecurityGroupIngress" not in group, name
        (rule,) = [
            rule
            for title, rule in of_type(built, "AWS::EC2::SecurityGroupIngress").items()
            if title != "BastionToApiServer"
        ]
        assert rule["GroupId"] == {"Fn::GetAtt": ["VolumeSecurityGroup", "GroupId"]}, name
        assert rule["SourceSecurityGroupId"] == {"Fn::GetAtt": ["NodeSecurityGroup", "GroupId"]}, name
        assert (rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == ("tcp", 2049, 2049), name
        mounts = of_type(built, "AWS::EFS::MountTarget").values()
        assert all(m["SecurityGroups"] == [{"Fn::GetAtt": ["VolumeSecurityGroup", "GroupId"]}] for m in mounts), name


def test_everything_that_stores_is_encrypted_with_the_one_key() -> None:
    for name, given, built in EVERY:
        key = given.kms_key_arn or {"Fn::GetAtt": ["Key", "Arn"]}
        volume = the_only(built, "AWS::EFS::FileSystem")
        assert (volume["Encrypted"], volume["KmsKeyId"]) == (True, key), name
        (rule,) = the_only(built, "AWS::S3::Bucket")["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}, name
        (config,) = the_only(built, "AWS::EKS::Cluster")["EncryptionConfig"]
        assert config == {"Provider": {"KeyArn": key}, "Resources": ["secrets"]}, name
        assert the_only(built, "AWS::Logs::LogGroup")["KmsKeyId"] == key, name
        assert the_only(built, "AWS::ECR::Repository")["EncryptionConfiguration"]["EncryptionType"] == "AES256", name
        (disk,) = the_only(built, "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]["BlockDeviceMappings"]
        assert disk["Ebs"]["Encrypted"] is True, name
        assert bool(of_type(built, "AWS::KMS::Key")) == (given.kms_key_arn is None), name


def test_own_key_rotates_and_lets_only_this_clusters_logs_in() -> None:
    key = the_only(template.build(spec()), "AWS::KMS::Key")
    assert key["EnableKeyRotation"] is True
    root, logs = key["KeyPolicy"]["Statement"]
    assert root["Principal"] == {"AWS": {"Fn::Sub": "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"}}
    assert list(logs["Principal"]) == ["Service"]
    (wanted,) = logs["Condition"]["ArnEquals"].values()
    assert wanted["Fn::Sub"].endswith(":log-group:/aws/eks/paddle/cluster")


def test_bucket_is_private_versioned_and_tls_only() -> None:
    for name, _, bucket in every_with("AWS::S3::Bucket"):
        assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}, name
        assert len(bucket["PublicAccessBlockConfiguration"]) == 4, name
        assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}, name
        assert bucket["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}, name
    for name, _, policy in every_with("AWS::S3::BucketPolicy"):
        (statement,) = policy["PolicyDocument"]["Statement"]
        assert (statement["Effect"], statement["Principal"]) == ("Deny", "*"), name
        assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}, name


def statements(built: Built) -> Iterator[tuple[str, dict[str, Any]]]:
    """(resource, statement) of every policy document in the template."""

    def walk(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict):
            if "Statement" in value:
                yield from value["Statement"]
            for inner in value.values():
                yield from walk(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from walk(inner)

    for title, body in built["Resources"].items():
        for statement in walk(body.get("Properties", {})):
            yield title, statement


def _flat(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for item in value for text in _flat(item)]
    if isinstance(value, dict):
        return [text for item in value.values() for text in _flat(item)]
    return [value]


def test_nobody_is_allowed_anything_by_a_wildcard_principal() -> None:
    for name, _, built in EVERY:
        for title, statement in statements(built):
            if statement["Effect"] == "Allow":
                assert "*" not in _flat(statement.get("Principal", [])), f"{name}: {title}"


def test_every_wildcard_has_a_written_reason_and_every_reason_a_wildcard() -> None:
    for name, _, built in EVERY:
        found = {
            (title, statement.get("Sid"))
            for title, statement in statements(built)
            if any("*" in text for key in ("Action", "Resource") for text in _flat(statement.get(key, [])))
        }
        written = {
            (title, sid)
            for title, body in built["Resources"].items()
            for sid, reason in body.get("Metadata", {}).get("Wildcards", {}).items()
            if reason
        }
        # A template without a key of its own has no key policy to explain.
        assert found == written, name


def test_roles_trust_one_service_each_and_have_only_what_their_job_needs() -> None:
    roles = of_type(template.build(spec()), "AWS::IAM::Role")
    trusted = {
        title: role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]["Service"] for title, role in roles.items()
    }
    assert trusted == {
        "ClusterRole": "eks.amazonaws.com",
        "NodeRole": "ec2.amazonaws.com",
        "NetworkRole": "pods.eks.amazonaws.com",
        "VolumeRole": "pods.eks.amazonaws.com",
        "DataRole": "pods.eks.amazonaws.com",
    }
    managed = {
        title: [_flat(arn)[0].rpartition("/")[2] for arn in role.get("ManagedPolicyArns", [])]
        for title, role in roles.items()
    }
    assert managed == {
        "ClusterRole": ["AmazonEKSClusterPolicy"],
        "NodeRole": ["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"],
        "NetworkRole": ["AmazonEKS_CNI_Policy"],
        "VolumeRole": ["AmazonEFSCSIDriverPolicy"],
        "DataRole": [],
    }
    (inline,) = roles["DataRole"]["Policies"]
    actions = [_flat(statement["Action"]) for statement in inline["PolicyDocument"]["Statement"]]
    assert actions == [["s3:ListBucket"], ["s3:GetObject"], ["kms:Decrypt"]]
    (mount,) = roles["NodeRole"]["Policies"]
    (statement,) = mount["PolicyDocument"]["Statement"]
    assert statement["Action"] == ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"]
    assert not any("Policies" in role for title, role in roles.items() if title not in ("DataRole", "NodeRole"))


def test_way_in_to_a_private_api_server_has_no_key_no_port_and_no_old_metadata() -> None:
    built = template.build(chosen([("api", "private")]))
    (instance,) = of_type(built, "AWS::EC2::Instance").values()
    assert "KeyName" not in instance
    assert instance["MetadataOptions"]["HttpTokens"] == "required"
    assert [device["Ebs"]["Encrypted"] for device in instance["BlockDeviceMappings"]] == [True]
    assert instance["SubnetId"] == {"Ref": "PrivateSubnet1"}
    groups = of_type(built, "AWS::EC2::SecurityGroup")
    assert "SecurityGroupIngress" not in groups["BastionSecurityGroup"]
    assert instance["SecurityGroupIds"] == [{"Fn::GetAtt": ["BastionSecurityGroup", "GroupId"]}]
    rule = of_type(built, "AWS::EC2::SecurityGroupIngress")["BastionToApiServer"]
    assert (rule["GroupId"], rule["FromPort"]) == ({"Fn::GetAtt": ["Cluster", "ClusterSecurityGroupId"]}, 443)
    role = of_type(built, "AWS::IAM::Role")["BastionRole"]
    assert [_flat(arn)[0].rpartition("/")[2] for arn in role["ManagedPolicyArns"]] == ["AmazonSSMManagedInstanceCore"]
    image = built["Parameters"]["BastionImage"]
    assert image["Type"] == "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>"
    assert "Bastion" not in " ".join(template.build(spec())["Resources"]), "nobody pays for one who has no use for it"


def test_role_names_fit_the_longest_cluster_in_the_longest_region() -> None:
    assert max(len(role_name("p" * 40, "ap-southeast-1", job)) for job in (*JOBS, "bastion")) <= 64


def test_nodes_answer_metadata_only_to_themselves_with_a_token() -> None:
    for name, given, properties in every_with("AWS::EC2::LaunchTemplate"):
        data = properties["LaunchTemplateData"]
        assert data["MetadataOptions"] == {
            "HttpEndpoint": "enabled",
            "HttpPutResponseHopLimit": 1,
            "HttpTokens": "required",
        }, name
        assert data["SecurityGroupIds"] == [
            {"Fn::GetAtt": ["Cluster", "ClusterSecurityGroupId"]},
            {"Fn::GetAtt": ["NodeSecurityGroup", "GroupId"]},
        ], name
        assert data.get("KeyName") == given.nodes.key_name, name


def test_control_plane_is_closed_logged_and_in_standard_support() -> None:
    for name, given, cluster in every_with("AWS::EKS::Cluster"):
        assert cluster["AccessConfig"] == {
            "AuthenticationMode": "API",
            "BootstrapClusterCreatorAdminPermissions": False,
        }, name
        vpc = cluster["ResourcesVpcConfig"]
        assert vpc["EndpointPrivateAccess"] is True, name
        assert vpc["EndpointPublicAccess"] is bool(given.kubernetes.api_cidrs), name
        assert vpc.get("PublicAccessCidrs", []) == list(given.kubernetes.api_cidrs), name
        assert len(cluster["Logging"]["ClusterLogging"]["EnabledTypes"]) == 5, name
        assert cluster["UpgradePolicy"] == {"SupportType": "STANDARD"}, name
        assert cluster["Version"] == given.kubernetes.version, name
        services = ipaddress.IPv4Network(cluster["KubernetesNetworkConfig"]["ServiceIpv4Cidr"])
        assert not services.overlaps(ipaddress.IPv4Network(given.network.cidr)), name


def test_only_the_named_administrator_gets_in() -> None:
    for name, given, built in EVERY:
        entry = the_only(built, "AWS::EKS::AccessEntry")
        assert entry["PrincipalArn"] == {"Ref": "AdminArn"}, name
        assert built["Parameters"]["AdminArn"].get("Default") == given.kubernetes.admin_arn, name
        (policy,) = entry["AccessPolicies"]
        assert policy["PolicyArn"]["Fn::Sub"].endswith("/AmazonEKSClusterAdminPolicy"), name


def test_logs_go_to_a_group_of_the_stack_that_forgets() -> None:
    for name, given, built in EVERY:
        group = the_only(built, "AWS::Logs::LogGroup")
        assert (group["LogGroupName"], group["RetentionInDays"]) == (f"/aws/eks/{given.name}/cluster", 30), name
        assert "ClusterLogs" in after(built, "Cluster"), name


def after(built: Built, title: str) -> set[str]:
    """Everything that must exist before `title` is begun."""
    found: set[str] = set()
    waiting = [title]
    while waiting:
        body = built["Resources"][waiting.pop()]
        depends = body.get("DependsOn", [])
        names = {depends} if isinstance(depends, str) else set(depends)
        names |= {text.partition(".")[0] for text in _mentions(body)}
        new = (names & set(built["Resources"])) - found
        found |= new
        waiting += new
    return found


def _mentions(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "Ref":
                yield inner
            elif key == "Fn::GetAtt":
                yield inner[0]
            else:
                yield from _mentions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _mentions(inner)


def test_addons_come_in_the_order_that_works() -> None:
    for name, given, built in EVERY:
        addons = {p["AddonName"]: title for title, p in of_type(built, "AWS::EKS::Addon").items()}
        assert set(addons) == {"eks-pod-identity-agent", "vpc-cni", "kube-proxy", "coredns", "aws-efs-csi-driver"}, name
        before = after(built, "Nodes")
        assert {addons["eks-pod-identity-agent"], addons["vpc-cni"], addons["kube-proxy"]} <= before, name
        assert addons["eks-pod-identity-agent"] in after(built, addons["vpc-cni"]), name
        for late in ("coredns", "aws-efs-csi-driver"):
            assert "Nodes" in after(built, addons[late]), name
        way = "PublicDefaultRoute" if given.network.nat == "none" else "PrivateDefaultRoute1"
        assert {way, "VolumeMount1"} <= before, f"{name}: nodes start before they can pull an image or mount the volume"
        network = built["Resources"][addons["vpc-cni"]]["Properties"]
        assert json.loads(network["ConfigurationValues"]) == {"enableNetworkPolicy": "true"}, name


def test_all_nodes_run_in_the_first_zone_and_the_cluster_has_them_all() -> None:
    for name, given, built in EVERY:
        nodes = the_only(built, "AWS::EKS::Nodegroup")
        (subnet,) = nodes["Subnets"]
        home = of_type(built, "AWS::EC2::Subnet")[subnet["Ref"]]
        assert home["AvailabilityZone"] == given.zones[0], name
        assert subnet["Ref"] == ("PublicSubnet1" if given.network.nat == "none" else "PrivateSubnet1"), name
        public = {title for title, p in of_type(built, "AWS::EC2::Subnet").items() if p.get("MapPublicIpOnLaunch")}
        wanted = {f"PublicSubnet{n}" for n in range(1, len(given.zones) + 1)} if given.network.nat == "none" else set()
        assert public == wanted, (
            f"{name}: public addresses where none are needed, or none where they are the only way out"
        )
        assert len(the_only(built, "AWS::EKS::Cluster")["ResourcesVpcConfig"]["SubnetIds"]) == len(given.zones), name
        assert len(of_type(built, "AWS::EFS::MountTarget")) == len(given.zones), name
        assert nodes["ScalingConfig"]["DesiredSize"] == given.nodes.count, name
        assert nodes["ScalingConfig"]["MaxSize"] >= 1, name
        assert nodes["CapacityType"] == ("SPOT" if given.nodes.spot else "ON_DEMAND"), name
        assert ("ARM" in nodes["AmiType"]) == given.nodes.types[0].startswith("m7g"), name


@pytest.mark.parametrize(("nat", "gateways"), [("single", 1), ("per-zone", 2), ("none", 0)])
def test_nat_gateways_are_as_many_as_asked_for(nat: str, gateways: int) -> None:
    (built,) = [built for _, given, built in EVERY if given == chosen([] if nat == "single" else [("nat", nat)])]
    assert len(of_type(built, "AWS::EC2::NatGateway")) == len(of_type(built, "AWS::EC2::EIP")) == gateways


def test_subnets_do_not_overlap_and_lie_in_the_vpc() -> None:
    for name, given, built in EVERY:
        blocks = [ipaddress.IPv4Network(p["CidrBlock"]) for p in of_type(built, "AWS::EC2::Subnet").values()]
        assert len(blocks) == 2 * len(given.zones), name
        assert all(block.subnet_of(ipaddress.IPv4Network(given.network.cidr)) for block in blocks), name
        assert not any(a.overlaps(b) for i, a in enumerate(blocks) for b in blocks[:i]), name
    assert subnets("10.20.0.0/16", 2) == (["10.20.0.0/18", "10.20.64.0/18"], ["10.20.192.0/20", "10.20.208.0/20"])


def test_s3_traffic_stays_inside() -> None:
    for name, _, built in EVERY:
        endpoint = the_only(built, "AWS::EC2::VPCEndpoint")
        tables = {entry["Ref"] for entry in endpoint["RouteTableIds"]}
        assert tables == set(of_type(built, "AWS::EC2::RouteTable")), name


def test_what_holds_data_is_kept_or_deleted_as_asked() -> None:
    for name, given, built in EVERY:
        wanted = {
            "Volume": given.destroy.volume,
            "Bucket": given.destroy.bucket,
            "BucketTlsOnly": given.destroy.bucket,
            "Images": given.destroy.images,
        } | ({} if given.kms_key_arn else {"Key": given.destroy.key})
        for title, body in built["Resources"].items():
            keep = wanted.get(title) == "keep"
            # A creation that fails takes with it what nobody can have used.
            policy = "RetainExceptOnCreate" if keep else "Delete"
            assert body.get("DeletionPolicy", "Delete") == policy, f"{name}: {title}"
            assert body.get("UpdateReplacePolicy", "Delete") == ("Retain" if keep else "Delete"), f"{name}: {title}"
        assert the_only(built, "AWS::ECR::Repository")["EmptyOnDelete"] is (given.destroy.images == "delete"), name


def test_manifests_bind_the_claim_to_the_volume_of_the_stack() -> None:
    volume, claim, account = yaml.safe_load_all(manifests.text("fs-1::fsap-1"))
    assert volume["spec"]["csi"] == {"driver": "efs.csi.aws.com", "volumeHandle": "fs-1::fsap-1"}
    assert volume["spec"]["mountOptions"] == ["tls", "iam"]
    assert volume["metadata"]["name"] == claim["metadata"]["name"] == claim["spec"]["volumeName"] == "efsvol"
    assert volume["spec"]["accessModes"] == claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    association = the_only(template.build(spec()), "AWS::EKS::PodIdentityAssociation")
    assert account["kind"] == "ServiceAccount"
    assert account["metadata"] == {"name": association["ServiceAccount"], "namespace": association["Namespace"]}
    assert manifests.HANDLE.strip("${}") in template.build(spec())["Outputs"]


def test_stack_is_known_as_ours_by_what_is_inside_it() -> None:
    assert template.build(spec())["Metadata"]["Umiak"]["Cluster"] == "paddle"

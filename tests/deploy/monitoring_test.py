#!/usr/bin/python3
"""deploy/prometheus, deploy/grafana, deploy/compose and the table of metrics against what the programs have: monitoring_test.py UPSCALED
UPSCALE_WORKER. The alerts themselves are tried where there is a promtool (Debian's package prometheus)."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

import proxies
import server_facts

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "upscaled.rules.yml"
DASHBOARD = DEPLOY / "grafana" / "upscaled.json"
COMPOSE = DEPLOY / "compose" / "compose.yaml"
PROMTOOL = shutil.which("promtool")
DOCKER_COMPOSE = shutil.which("docker-compose")


class AlertsTest(unittest.TestCase):
    def setUp(self):
        self.rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]

    def test_name_metrics_of_the_server(self):
        used = server_facts.metrics_in(rule["expr"] for rule in self.rules)
        self.assertGreater(len(used), 5)
        self.assertEqual(used - server_facts.metrics(), set())

    def test_are_explained_and_tried_one_by_one(self):
        guide = (DEPLOY.parent / "docs/operating.md").read_text()
        sections = dict(re.findall(r"(?ms)^### (\w+)\n(.*?)(?=^#|\Z)", guide))
        tests = yaml.safe_load((DEPLOY / "prometheus" / "upscaled.rules_test.yml").read_text())["tests"]
        fire = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]}
        for rule in self.rules:
            self.assertIn("**Do:**", sections.pop(rule["alert"]))
            self.assertIn(rule["alert"], fire)
        self.assertEqual(list(sections), [], "no such alert")

    @unittest.skipIf(PROMTOOL is None, "no promtool here")
    def test_fire_when_they_are_to(self):
        subprocess.run([PROMTOOL, "test", "rules", "upscaled.rules_test.yml"], cwd=RULES.parent, check=True)


class TableTest(unittest.TestCase):
    """server/telemetry/metrics.md, which operators read."""

    def setUp(self):
        self.rows = [line for line in (server_facts.METRICS / "metrics.md").read_text().splitlines() if line.startswith("|")][2:]

    def test_has_a_row_for_each_metric_and_no_other(self):
        told = [name for row in self.rows for name in re.findall(r"`((?:upscaled|process)_\w+)", row.split(" | ")[0])]
        sources = (server_facts.METRICS / "metrics.cc").read_text()
        self.assertEqual(sorted(told), sorted(re.findall(r'"((?:upscaled|process)_\w+)"', sources)))

    def test_is_a_table(self):
        for row in self.rows:
            self.assertRegex(row, r"^\| `.*` \| (counter|gauge|histogram|gauge, counter) \| \S.* \|( `.*)? \|$", row)

    def test_names_labels_of_metrics_that_have_some(self):
        told = dict(re.findall(r"`((?:upscaled|process)_\w+)(\{[\w,]+\})?", "".join(row.split(" | ")[0] for row in self.rows)))
        sources = (server_facts.METRICS / "metrics.cc").read_text()
        for name, kind in re.findall(r'(?s)(\w+)\(\s*registry, "((?:upscaled|process)_\w+)"', sources):
            labelled = name.endswith("Family")
            self.assertEqual(bool(told[kind]), labelled or kind == "upscaled_build_info", kind)


class DashboardTest(unittest.TestCase):
    def test_shows_metrics_of_the_server(self):
        panels = json.loads(DASHBOARD.read_text())["panels"]
        used = server_facts.metrics_in(target["expr"] for panel in panels for target in panel["targets"])
        self.assertGreater(len(used), 10)
        self.assertEqual(used - server_facts.metrics(), set())
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))


class ComposeTest(unittest.TestCase):
    def setUp(self):
        self.services = yaml.safe_load(COMPOSE.read_text())["services"]

    def test_gives_settings_that_the_server_has(self):
        flags = server_facts.flags(UPSCALED)
        for name in self.services["upscaled"]["environment"]:
            self.assertIn(server_facts.flag_of(name), flags)

    def test_mounts_files_that_are_there(self):
        for service in self.services.values():
            for volume in service.get("volumes", []):
                source = volume.split(":")[0]
                if source.startswith(("./", "../")) and pathlib.Path(source).suffix:
                    self.assertTrue((COMPOSE.parent / source).is_file(), source)

    @unittest.skipIf(DOCKER_COMPOSE is None, "no docker-compose")
    def test_is_what_the_schema_says(self):
        def problems(text):
            passwords = {"GRAFANA_PASSWORD": "a", "REDIS_PASSWORD": "b", "PATH": "/usr/bin:/bin"}
            done = subprocess.run([DOCKER_COMPOSE, "-f", "-", "--profile", "jobs", "config", "--quiet"], input=text, cwd=COMPOSE.parent,
                                  capture_output=True, text=True, env=passwords)
            return done.stderr if done.returncode else ""
        text = COMPOSE.read_text().replace("name: upscaled\n", "")  # Debian's version is older than that
        self.assertEqual(problems(text), "")
        self.assertIn("'restarts'", problems(text.replace("restart:", "restarts:", 1)))

    def test_gives_settings_that_the_worker_has(self):
        worker = self.services["worker"]
        for name in worker["environment"]:
            self.assertIn(name, server_facts.told(WORKER))
        self.assertNotIn("command", worker)
        self.assertEqual(worker["entrypoint"], ["/usr/bin/upscale-worker"])

    def test_workers_reach_what_they_name(self):
        worker = self.services["worker"]
        password, queue = worker["environment"]["UPSCALE_QUEUE"].removeprefix("redis://:").rsplit("@", 1)
        self.assertIn(password, self.services[queue]["command"])
        server, port = worker["environment"]["UPSCALE_SERVER"].split(":")
        self.assertEqual(port, "8001")
        for name in (queue, server):
            self.assertTrue(set(self.services[name]["networks"]) & set(worker["networks"]), name)
        self.assertEqual(worker["volumes"][0].split(":")[-1], "/jobs")
        self.assertEqual(worker["environment"]["UPSCALE_RESULTS"], "${UPSCALE_RESULTS:-/jobs/results}")
        self.assertEqual(worker["environment"]["UPSCALE_ALLOW_PATHS"], "/jobs")

    def test_has_no_queue_unless_told(self):
        optional = {name for name, service in self.services.items() if service.get("profiles")}
        self.assertEqual(optional, {"worker", "redis"})

    def test_stops_later_than_the_programs_drain(self):
        for name, program in (("upscaled", UPSCALED), ("worker", WORKER)):
            grace_s = int(self.services[name]["stop_grace_period"].removesuffix("s"))
            self.assertGreater(grace_s, server_facts.drain_s(program) + 4)

    @unittest.skipIf(proxies.NGINX is None, proxies.WHY_NO_NGINX)
    def test_names_the_replicas_in_nginx(self):
        """The result of its command for deploy/nginx's configuration, but for `resolve`, which Debian's nginx does not know."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            script = self.services["nginx"]["command"][2].replace("$$", "$")
            script = script.replace("/upscaled.conf", str(DEPLOY / "nginx" / "upscaled.conf"))
            script = script.replace("/etc/nginx/conf.d/default.conf", f"{folder}/upscaled.conf").replace("exec nginx", "true")
            subprocess.run(["sh", "-ec", script], check=True)
            text = (folder / "upscaled.conf").read_text()
            self.assertIn("server upscaled:8001 resolve max_fails=0;", text)
            self.assertIn("server upscaled:8000 resolve max_fails=0;", text)
            self.assertNotIn("127.0.0.1:800", text)
            proxies.harness.make_certificate(folder, "tls")
            text = text.replace(" resolve ", " ").replace("upscaled:80", "127.0.0.1:80").replace("/etc/upscaled/", f"{folder}/")
            (folder / "upscaled.conf").write_text(text)
            (folder / "nginx.conf").write_text(proxies.NGINX_MAIN.format(folder=folder, log="stderr", site="upscaled.conf"))
            check = [proxies.NGINX, "-t", "-p", folder, "-c", folder / "nginx.conf", "-e", "stderr"]
            done = subprocess.run(check, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    UPSCALED, WORKER = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])

#!/usr/bin/python3
"""deploy/envoy's configuration, which nothing here can run, and what those of nginx and HAProxy must share with it."""
import pathlib
import unittest

import yaml

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
NGINX = (DEPLOY / "nginx" / "upscaled.conf").read_text()
HAPROXY = (DEPLOY / "haproxy" / "upscaled.cfg").read_text()
PASSED = {"/upscale.v1.UpscaleService/": "upscaled_grpc", "/grpc.health.v1.Health/": "upscaled_grpc", "/": "upscaled_http"}


class EnvoyTest(unittest.TestCase):
    def setUp(self):
        resources = yaml.safe_load((DEPLOY / "envoy" / "upscaled.yaml").read_text())["static_resources"]
        self.clusters = {cluster["name"]: cluster for cluster in resources["clusters"]}
        (chain,) = resources["listeners"][0]["filter_chains"]
        self.manager = chain["filters"][0]["typed_config"]
        self.routes = self.manager["route_config"]["virtual_hosts"][0]["routes"]

    def test_passes_the_service_and_nothing_of_the_operators(self):
        passed = {route["match"]["prefix"]: route["route"]["cluster"] for route in self.routes if "route" in route}
        self.assertEqual(passed, PASSED)
        self.assertEqual(self.routes[-1]["match"]["prefix"], "/")  # the first that matches is taken
        refused = [route["match"]["prefix"] for route in self.routes if "direct_response" in route]
        self.assertEqual(refused, ["/upscale.v1.AdminService/"])

    def test_names_the_clusters_that_it_has(self):
        self.assertEqual(set(PASSED.values()), set(self.clusters))
        for name, cluster in self.clusters.items():
            self.assertEqual(cluster["load_assignment"]["cluster_name"], name)
            self.assertIn("health_checks", cluster)
        self.assertIn("http2_protocol_options", str(self.clusters["upscaled_grpc"]["typed_extension_protocol_options"]))

    def test_ends_no_call_and_sends_none_twice(self):
        for route in self.routes:
            if "route" in route:
                self.assertEqual(route["route"]["timeout"], "0s")
                self.assertNotIn("retry_policy", route["route"])
        self.assertEqual((self.manager["request_timeout"], self.manager["stream_idle_timeout"]), ("0s", "3600s"))


class AllTest(unittest.TestCase):
    def test_share_the_number_of_calls(self):
        envoy = (DEPLOY / "envoy" / "upscaled.yaml").read_text()
        self.assertIn("limit_conn upscaled_calls 48;", NGINX)
        self.assertIn("sc_conn_cur(0) gt 48", HAPROXY)
        self.assertIn("max_concurrent_streams: 48", envoy)

    def test_wait_for_calls_as_long(self):
        self.assertIn("grpc_read_timeout 1h;", NGINX)
        self.assertIn("timeout server 1h", HAPROXY)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""deploy/image: builds the image of a finished build folder, runs it and upscales through it: image_test.py BUILD. Exits with 77
where root, buildah, podman or runc is missing."""
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
PATIENCE_S = 60
MAX_BYTES = 142 << 20  # of which libavif and the coders that it links are 18 MB, libtiff and libjxl 12
# vfs works where the folder is on an overlay already.
STORAGE = '[storage]\ndriver = "vfs"\ngraphroot = "{0}/graph"\nrunroot = "{0}/run"\n'
PODMAN = ["podman", "--runtime", "runc", "--cgroup-manager", "cgroupfs"]


def why_not(build):
    missing = [tool for tool in ("buildah", "podman", "runc") if shutil.which(tool) is None]
    if missing:
        return f"no {', '.join(missing)} here"
    if os.geteuid() != 0:
        return "needs root"
    if "UPSCALED_SANITIZE:STRING=\n" not in (build / "CMakeCache.txt").read_text():
        return "programs with sanitizers are large, and what they shall ignore is not in the image"
    mounts = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
    return "" if "/" in mounts else "the root folder is no mount, as in a chroot: buildah cannot remount it"


def limits():
    """Those of this process, which podman would raise and may not everywhere."""
    names = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    flags = []
    for name, number in names.items():
        soft = resource.getrlimit(number)[0]
        value = 10_000 if soft == resource.RLIM_INFINITY else min(soft, 10_000)
        flags += ["--ulimit", f"{name}={value}:{value}"]
    return flags


# As a cautious operator runs it.
LOCKED = ["--network=none", "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges", "--tmpfs=/tmp", *limits()]


class ImageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(cls.remove_folder)
        (cls.folder / "storage.conf").write_text(STORAGE.format(cls.folder))
        cls.environment = {**os.environ, "CONTAINERS_STORAGE_CONF": str(cls.folder / "storage.conf")}
        cls.addClassCleanup(cls.run_command, "podman", "rm", "--all", "--force", check=False)
        cls.build("upscaled-test")

    @classmethod
    def remove_folder(cls):
        """podman's monitors still write for a moment after their containers have gone."""
        end = time.monotonic() + PATIENCE_S
        while cls.folder.exists():
            shutil.rmtree(cls.folder, ignore_errors=time.monotonic() < end)
            time.sleep(0.1)

    @classmethod
    def run_command(cls, *command, check=True):
        done = subprocess.run(command, env=cls.environment, capture_output=True, text=True, timeout=5 * PATIENCE_S)
        if check and done.returncode != 0:
            raise AssertionError(f"{command} exits with {done.returncode}: {done.stdout}{done.stderr}")
        return done

    @classmethod
    def build(cls, tag):
        script = ROOT / "deploy" / "image" / "build.sh"
        cls.run_command(script, "--tool", "buildah", "--no-install", "--from", BUILD, tag)

    def podman(self, *arguments, check=True):
        return self.run_command(*PODMAN, *arguments, check=check)

    def run_image(self, *arguments, check=True):
        done = self.podman("run", "--rm", *LOCKED, *arguments, check=False)
        if "OCI permission denied" in done.stderr:
            self.skipTest(f"no container may run here: {done.stderr}")
        if check:
            self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def inspect(self, tag):
        return json.loads(self.podman("image", "inspect", tag).stdout)[0]

    def test_equal_sources_give_equal_images(self):
        self.build("upscaled-again")
        self.assertEqual(self.inspect("upscaled-again")["Digest"], self.inspect("upscaled-test")["Digest"])

    def test_is_small_and_says_what_it_is(self):
        image = self.inspect("upscaled-test")
        self.assertLess(image["Size"], MAX_BYTES)
        self.assertEqual(image["User"], "65532:65532")
        self.assertEqual(image["Config"]["StopSignal"], "SIGTERM")
        self.assertIn("org.opencontainers.image.version", image["Labels"])

    def root(self):
        """The folder that has the image's files, until the test ends."""
        root = self.podman("image", "mount", "upscaled-test").stdout.strip()
        self.addCleanup(self.podman, "image", "unmount", "upscaled-test")
        return pathlib.Path(root)

    def test_has_the_devices_of_the_build(self):
        """With nvcc that is CUDA's plugin, too."""
        plugins = [{x.name for x in (folder / "lib" / "upscaled").glob("*.so")} for folder in (BUILD, self.root() / "usr")]
        self.assertTrue(plugins[0])
        self.assertEqual(*plugins)

    def test_has_a_list_of_its_packages(self):
        share = self.root() / "usr" / "share"
        packages = json.loads((share / "doc" / "upscaled" / "sbom.spdx.json").read_text())["packages"]
        names = {package["name"] for package in packages}
        self.assertLessEqual({"upscaled", "libc6", "ca-certificates"}, names)
        for name in names - {"upscaled"}:
            self.assertTrue((share / "doc" / name / "copyright").exists(), name)

    def test_has_no_shell(self):
        done = self.run_image("--entrypoint=/bin/sh", "upscaled-test", "-c", "true", check=False)
        self.assertNotEqual(done.returncode, 0)

    def test_does_not_serve_just_anybody(self):
        done = self.run_image("upscaled-test", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--auth-keys", done.stderr)

    def test_upscales(self):
        self.run_image("upscaled-test", "--version")  # skips where nothing may run
        mounted = f"--volume={ROOT}/deploy/demo:/in:ro"
        anybody = "--env=UPSCALED_ALLOW_ANONYMOUS=on"
        self.podman("run", "--detach", "--name=served", anybody, mounted, *LOCKED, "upscaled-test")
        deadline = time.monotonic() + PATIENCE_S
        while self.podman("exec", "served", "/usr/bin/upscale", "health", check=False).returncode != 0:
            self.assertLess(time.monotonic(), deadline, self.podman("logs", "served").stderr)
            time.sleep(0.1)
        done = self.podman("exec", "served", "/usr/bin/upscale", "image", "-i", "/in/sample.png", "-o", "/tmp/out.png")
        self.assertIn("320x240 -> 640x480", done.stderr)
        queue = "--queue=/tmp/queue"
        self.podman("exec", "served", "/usr/bin/upscale", "submit", queue, "-i", "/in/sample.png", "-o", "/tmp/job.png")
        self.podman("exec", "served", "/usr/bin/upscale-worker", queue, "--until-empty")
        self.assertIn("1 done", self.podman("exec", "served", "/usr/bin/upscale", "jobs", queue).stdout)
        self.podman("stop", "--time=20", "served")
        self.assertEqual(self.podman("inspect", "served", "--format={{.State.ExitCode}}").stdout.strip(), "0")


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv[1]).resolve()
    reason = why_not(BUILD)
    if reason:
        print(f"SKIPPED: {reason}")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], warnings="ignore")

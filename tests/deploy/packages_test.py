#!/usr/bin/env python3
"""deploy/packages: the Debian packages that CPack makes of a finished build folder: packages_test.py BUILD. Exits with 77 where a tool
is missing. BareSystemTest and BootedSystemTest install, upgrade and purge them in copies of a bare system: see bare_system.py."""
import gzip
import hashlib
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import tomllib
import unittest

import bare_system
from packing import ROOT, build_to_pack, run, version

PROGRAMS = {"upscaled": "upscaled", "upscaled-client": "upscale", "upscaled-worker": "upscale-worker"}
LIFE = """
set -e
export DEBIAN_FRONTEND=noninteractive
find / -xdev -not -path '/proc/*' -not -path '/var/cache/*' | grep upscale | grep -v ^/debs > /before || true
apt-get -qq update
now() { date +%s.%N; }
now > /debs/times
apt-get -qq install -y --no-install-recommends /debs/upscaled_*.deb /debs/upscaled-client_*.deb
now >> /debs/times
upscale --local -i /debs/sample.png -o /debs/first.png
now >> /debs/times
upscale jobs --queue /debs/queue || test $? = 5  # there is no such queue
echo UPSCALED_DEVICE=cpu >> /etc/default/upscaled
dpkg --force-confold -i /debs/upscaled_*.deb
grep -q ^UPSCALED_DEVICE=cpu /etc/default/upscaled
test -L /etc/systemd/system/multi-user.target.wants/upscaled.service
dpkg --purge upscaled upscaled-client
find / -xdev -not -path '/proc/*' -not -path '/var/cache/*' | grep upscale | grep -v ^/debs > /after || true
diff /before /after
"""
# The units' restarts by hand, as no systemd runs in there: programs are replaced while they compute.
UPGRADE = """
set -e
export DEBIAN_FRONTEND=noninteractive UPSCALE_SERVER=unix:/debs/socket UPSCALE_QUEUE=/debs/queue
apt-get -qq update
apt-get -qq install -y --no-install-recommends /debs/upscaled_*.deb /debs/upscaled-client_*.deb /debs/upscaled-worker_*.deb
start() {
  upscaled --device=cpu --listen=$UPSCALE_SERVER --http=off --admin=off 2>/debs/server.log & server=$!
  until upscale health >/dev/null 2>&1; do kill -0 $server || { cat /debs/server.log >&2; exit 1; }; sleep 0.1; done
  upscale-worker --results /debs/results --allow-paths /debs --drain-timeout 0 "$@" & worker=$!
}
mkdir /debs/images /debs/results
for number in 1 2 3 4 5 6; do cp /debs/sample.png /debs/images/$number.png; done
upscale submit -i /debs/images -o /debs/results/ -s 4 --tta
start
until upscale jobs --state running | grep -q png; do sleep 0.05; done
dpkg -i /debs/upscaled_*.deb /debs/upscaled-client_*.deb /debs/upscaled-worker_*.deb
upscale jobs --state done | grep -c png > /debs/done_before || true
test "$(cat /debs/done_before)" -lt 6
kill $worker $server
wait $worker $server || true
start --until-empty
wait $worker
test "$(upscale jobs --state done | grep -c png)" = 6
kill $server
wait $server || true
dpkg --purge upscaled upscaled-client upscaled-worker
"""
# The booted system has no network: the packages that ours depend on are there before it.
DEPENDENCIES = """
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install -y --no-install-recommends systemd systemd-sysv
apt-get -qq install -y --no-install-recommends /debs/upscaled_*.deb /debs/upscaled-client_*.deb /debs/upscaled-worker_*.deb
dpkg --purge upscaled upscaled-client upscaled-worker
"""
UNITS = """
export DEBIAN_FRONTEND=noninteractive
find / -xdev -not -path '/proc/*' -not -path '/sys/*' -not -path '/var/cache/apt/*' | grep upscale | grep -v ^/debs > /before || true
dpkg -i /debs/upscaled_*.deb /debs/upscaled-client_*.deb /debs/upscaled-worker_*.deb
systemctl is-active upscaled || { journalctl --no-pager -u upscaled; exit 1; }
systemd-analyze verify upscaled.service upscale-worker.service
upscale -i /debs/sample.png -o /debs/first.png

mkdir -p /debs/images /debs/results /etc/systemd/system/upscale-worker.service.d
chmod 777 /debs/results
echo '[Service]\nReadWritePaths=/debs/results' > /etc/systemd/system/upscale-worker.service.d/results.conf
systemctl daemon-reload
systemctl start upscale-worker
systemctl is-active upscale-worker
for number in 1 2 3 4 5 6; do cp /debs/sample.png /debs/images/$number.png; done
export UPSCALE_QUEUE=/var/lib/upscale-worker
upscale submit -i /debs/images -o /debs/results/ -s 4 --tta
until upscale jobs --state running | grep -q png; do sleep 0.1; done
server=$(systemctl show --property MainPID upscaled) worker=$(systemctl show --property MainPID upscale-worker)
dpkg -i /debs/upscaled_*.deb /debs/upscaled-client_*.deb /debs/upscaled-worker_*.deb
systemctl is-active upscaled upscale-worker
test "$server" != "$(systemctl show --property MainPID upscaled)"
test "$worker" != "$(systemctl show --property MainPID upscale-worker)"
until test "$(upscale jobs --state done | grep -c png)" = 6; do
  upscale jobs --state failed | grep -q png && upscale jobs && exit 1
  sleep 0.5
done

systemctl reload upscaled
upscale health
dpkg --purge upscaled upscaled-client upscaled-worker
systemctl list-units --all --plain --no-legend 'upscale*' && test -z "$(systemctl list-unit-files --no-legend 'upscale*')"
rm -r /etc/systemd/system/upscale-worker.service.d
find / -xdev -not -path '/proc/*' -not -path '/sys/*' -not -path '/var/cache/apt/*' | grep upscale | grep -v ^/debs > /after || true
diff /before /after
"""


def pack(folder, *options):
    """Runs CPack, whose default compression takes a minute more."""
    run("cpack", "-B", folder, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", *options, cwd=BUILD,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000", "LC_ALL": "C.UTF-8"})


def setUpModule():
    global FOLDER
    FOLDER = pathlib.Path(tempfile.mkdtemp())
    unittest.addModuleCleanup(shutil.rmtree, FOLDER)
    pack(FOLDER)
    (FOLDER / "trees").mkdir()
    for package in FOLDER.glob("*.deb"):
        run("dpkg-deb", "-x", package, FOLDER / "trees" / package.name.split("_")[0])


def control(package, field):
    return run("dpkg-deb", "-f", next(FOLDER.glob(f"{package}_*.deb")), field).decode().strip()


class PackagesTest(unittest.TestCase):
    def tree(self, package):
        return FOLDER / "trees" / package

    def test_each_part_is_a_package(self):
        names = {path.name.split("_")[0] for path in FOLDER.glob("*.deb")}
        expected = {"upscaled", "upscaled-client", "upscaled-worker", "upscaled-tools", "libupscaled-dev"}
        expected |= {f"upscaled-{path.stem.removeprefix('libupscaled_')}" for path in (BUILD / "lib" / "upscaled").glob("*.so")}
        expected |= {"libupscaled1"} if list((BUILD / "lib").rglob("libupscaled.so.1")) else set()
        self.assertEqual(names, expected)
        for name in names:
            self.assertTrue((self.tree(name) / "usr/share/doc" / name / "copyright").exists(), name)

    def test_no_file_is_in_two_packages(self):
        files = [str(path.relative_to(tree)) for tree in (FOLDER / "trees").iterdir() for path in tree.rglob("*") if not path.is_dir()]
        self.assertEqual(len(files), len(set(files)))

    def test_nothing_that_is_installed_is_left_out(self):
        run("cmake", "--install", BUILD, "--prefix", "/usr", env={**os.environ, "DESTDIR": str(FOLDER / "all")})
        packed = {str(path.relative_to(tree)) for tree in (FOLDER / "trees").iterdir() for path in tree.rglob("*")}
        installed = {str(path.relative_to(FOLDER / "all")) for path in (FOLDER / "all").rglob("*")}
        self.assertTrue(installed)
        self.assertEqual(installed - packed, set())

    def test_the_server_has_unit_settings_and_models(self):
        tree = self.tree("upscaled")
        unit = (tree / "usr/lib/systemd/system/upscaled.service").read_text()
        self.assertIn("\nExecStart=/usr/bin/upscaled ", unit)
        self.assertNotIn("/usr/local", unit)
        self.assertTrue((tree / "etc/default/upscaled").exists())
        self.assertTrue((tree / "usr/share/upscaled/models/general-2x/model.bin").exists())
        worker = (self.tree("upscaled-worker") / "usr/lib/systemd/system/upscale-worker.service").read_text()
        self.assertIn("\nExecStart=/usr/bin/upscale-worker ", worker)

    def test_settings_are_kept_by_an_upgrade(self):
        for package in ("upscaled", "upscaled-worker"):
            listed = run("dpkg-deb", "--info", next(FOLDER.glob(f"{package}_*.deb")), "conffiles").decode().split()
            etc = [f"/{path.relative_to(self.tree(package))}" for path in (self.tree(package) / "etc").rglob("*") if path.is_file()]
            self.assertEqual(listed, etc)

    def test_settings_that_it_names_are_flags(self):
        flags = set(re.findall(r"--[a-z-]+", run(BUILD / "bin" / "upscaled", "--help").decode()))
        names = re.findall(r"^#?UPSCALED_(\w+)=", (self.tree("upscaled") / "etc/default/upscaled").read_text(), re.M)
        self.assertTrue(names)
        self.assertEqual({"--" + name.lower().replace("_", "-") for name in names} - flags, set())

    def test_dependencies_are_what_the_programs_load(self):
        self.assertIn("libc6 (>=", control("upscaled", "Depends"))
        self.assertIn("libgrpc++", control("upscaled-client", "Depends"))
        self.assertIn(f"upscaled (= {version()})", control("upscaled-opencl", "Depends"))

    def test_one_version_for_all(self):
        numbers = {control(path.name.split("_")[0], "Version") for path in FOLDER.glob("*.deb")}
        numbers.add(json.loads((ROOT / "client/js/package.json").read_text())["version"])
        numbers.add(tomllib.loads((ROOT / "client/python/pyproject.toml").read_text())["project"]["version"])
        numbers |= set(re.findall(r"(?m)^(?:appV|v)ersion: (\S+)", (ROOT / "deploy/kubernetes/chart/Chart.yaml").read_text()))
        self.assertEqual(numbers, {version()})

    def test_programs_are_stripped_and_their_symbols_beside(self):
        for package, program in PROGRAMS.items():
            sections = run("readelf", "--sections", "--wide", self.tree(package) / "usr/bin" / program).decode()
            self.assertNotIn(".symtab", sections)
            self.assertIn(".gnu_debuglink", sections)
            self.assertEqual(len(list(FOLDER.glob(f"{package}-dbgsym_*.ddeb"))), 1)

    def test_manual_and_completion_have_every_flag(self):
        for package, program in PROGRAMS.items():
            share = self.tree(package) / "usr/share"
            manual = gzip.decompress((share / f"man/man1/{program}.1.gz").read_bytes()).decode().replace("\\-", "-")
            completions = {"bash": share / "bash-completion/completions" / program, "zsh": share / "zsh/vendor-completions" / f"_{program}",
                           "fish": share / "fish/vendor_completions.d" / f"{program}.fish"}
            for shell, completion in completions.items():
                if shutil.which(shell):
                    run(shell, "-n", completion)
            told = run(BUILD / "bin" / program, "--help").decode()
            if program == "upscale":
                for command in re.findall(r"(?m)^  ([a-z]+)  ", told):
                    told += run(BUILD / "bin" / program, command, "--help").decode()
            flags = set(re.findall(r"(?m)^  (?:-\w,)?(--[a-z0-9-]+)", told))
            self.assertGreater(len(flags), 10)
            self.assertEqual({flag for flag in flags if flag not in manual}, set())
            for completion in completions.values():
                words = set(re.split(r"[\s\"'()*\[]+", completion.read_text().replace(" -l ", " --")))
                self.assertEqual(flags - words, set(), completion)

    def test_completes_what_a_flag_takes(self):
        completion = self.tree("upscaled-client") / "usr/share/bash-completion/completions/upscale"
        script = f'. {completion}; COMP_WORDS=(upscale image --format jp); COMP_CWORD=3; _upscale; echo "${{COMPREPLY[@]}}"'
        self.assertEqual(run("bash", "-c", script), b"jpeg\n")

    @unittest.skipIf(shutil.which("fish") is None, "no fish")
    def test_completes_in_fish(self):
        completion = self.tree("upscaled-client") / "usr/share/fish/vendor_completions.d/upscale.fish"
        for line, wanted in (("image --format jp", "jpeg"), ("-f we", "webp"), ("--form", "--format"), ("jobs ca", "cancel"), ("vid", "video"),
                             ("video --chr", "--chroma")):
            with tempfile.TemporaryDirectory() as home:
                told = run("fish", "--no-config", "-c", f"source {completion}; complete -C 'upscale {line}'", env={**os.environ, "HOME": home})
            self.assertEqual([row.split("\t")[0] for row in told.decode().splitlines()], [wanted], line)

    @unittest.skipIf(shutil.which("zsh") is None, "no zsh")
    def test_completes_in_zsh(self):
        """As zsh's own function for it is told."""
        completion = self.tree("upscaled-client") / "usr/share/zsh/vendor-completions/_upscale"
        for words in ("image -i", "-i"):
            script = f"_arguments() {{ print -rl -- $words[1] $CURRENT $@ }}; words=(upscale {words} a); CURRENT=$#words; . {completion}"
            first, current, *told = run("zsh", "-f", "-c", script).decode().splitlines()
            self.assertEqual((first, current), (("image", "3") if "image" in words else ("upscale", "3")))
            formats = [row for row in told if "--format[" in row]
            self.assertEqual([row[row.rindex(":"):] for row in formats], [":(png jpeg webp avif jxl tiff)"])

    def test_equal_sources_give_equal_packages(self):
        with tempfile.TemporaryDirectory() as again:
            pack(again, "-D", "CPACK_COMPONENTS_ALL=client;dev")
            files = sorted(pathlib.Path(again).glob("*deb"))
            self.assertEqual(len(files), 3)  # with the client's symbols
            for file in files:
                digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (file, FOLDER / file.name)]
                self.assertEqual(*digests, file.name)


@unittest.skipUnless(bare_system.can_enter(), "needs root and UPSCALED_BARE_SYSTEM, a folder that debootstrap made")
class BareSystemTest(unittest.TestCase):
    def test_install_upgrade_purge_leaves_nothing(self):
        with bare_system.copy(FOLDER.glob("*.deb")) as system:
            bare_system.enter(system, LIFE)
            self.assertTrue((system / "debs/first.png").exists())
            begin, installed, seen = map(float, (system / "debs/times").read_text().split())
            print(f"installed in {installed - begin:.1f} s, the first picture {seen - installed:.1f} s later", file=sys.stderr)

    def test_an_upgrade_loses_no_job(self):
        with bare_system.copy(FOLDER.glob("*.deb")) as system:
            bare_system.enter(system, UPGRADE)
            for number in range(1, 7):
                self.assertTrue((system / f"debs/results/{number}.png").exists(), number)


@unittest.skipUnless(bare_system.can_boot(), "needs what BareSystemTest needs, and cgroups of version 2")
class BootedSystemTest(unittest.TestCase):
    """The units under a systemd that runs as the system's first process."""

    def test_units_start_drain_and_go(self):
        with bare_system.copy(FOLDER.glob("*.deb")) as system:
            bare_system.enter(system, DEPENDENCIES)
            bare_system.boot(system, UNITS)
            self.assertTrue((system / "debs/first.png").exists())
            for number in range(1, 7):
                self.assertTrue((system / f"debs/results/{number}.png").exists(), number)


if __name__ == "__main__":
    BUILD = build_to_pack(sys.argv[1], "cpack", "dpkg-deb", "dpkg-shlibdeps", "readelf")
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)

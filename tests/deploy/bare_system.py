"""Copies of a bare Debian folder ($UPSCALED_BARE_SYSTEM, which debootstrap made) in which packages are tried as root: entered, or booted
with a systemd of their own."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile

from packing import ROOT, run

FOLDER = os.environ.get("UPSCALED_BARE_SYSTEM", "")
ENTER = 'mount --make-rprivate / && mount --bind /dev "$0/dev" && mount -t proc proc "$0/proc" && exec chroot "$0" sh -c "$1"'
# PID 1 of namespaces of its own, without a network but the loopback device. Its devices are those that programs use.
BOOT = """
set -e
mount --make-rprivate /
mount --bind "$0" "$0"
mount -t proc proc "$0/proc"
mount -t sysfs sysfs "$0/sys"
mount -t cgroup2 none "$0/sys/fs/cgroup"
mount -t tmpfs tmpfs "$0/dev"
mkdir "$0/dev/pts" "$0/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$0/dev/pts"
ln -s pts/ptmx "$0/dev/ptmx"
for device in null zero full random urandom tty; do
  touch "$0/dev/$device"
  mount --bind "/dev/$device" "$0/dev/$device"
done
mount -t tmpfs tmpfs "$0/run"
mount -t tmpfs tmpfs "$0/tmp"
cd "$0"
pivot_root . mnt
umount -l /mnt
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root /lib/systemd/systemd --log-target=journal
"""
# Runs /debs/script once the system is up; the system ends with it.
UNIT = """
[Unit]
After=basic.target
[Service]
Type=oneshot
StandardOutput=append:/debs/output
StandardError=append:/debs/output
ExecStart=sh -ec "sh /debs/script && echo PASSED; systemctl exit 0"
"""


def can_enter():
    return bool(FOLDER) and os.geteuid() == 0


def cgroups():
    """Where version 2 of cgroups is mounted; empty where it is not."""
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, folder, kind, options, *_ = line.split()
        if kind == "cgroup2" and "rw" in options.split(","):
            return folder
    return ""


def can_boot():
    return can_enter() and bool(cgroups())


@contextlib.contextmanager
def copy(packages):
    """A copy of the bare system, with these packages and a sample in /debs."""
    with tempfile.TemporaryDirectory() as folder:
        system = pathlib.Path(folder) / "system"
        run("cp", "-a", FOLDER, system)
        (system / "debs").mkdir(exist_ok=True)
        shutil.copy(ROOT / "deploy/demo/sample.png", system / "debs")
        shutil.copy("/etc/resolv.conf", system / "etc")
        for package in packages:
            shutil.copy(package, system / "debs")
        yield system


def enter(system, script):
    """Runs the script as root of the system."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("UPSCALE")}  # the server refuses names that it lacks
    run("unshare", "--mount", "sh", "-c", ENTER, system, script, env=ours)


def boot(system, script, timeout_s=400):
    """Runs the script under the system's systemd, which the system must have. Returns the script's output."""
    units = system / "etc/systemd/system"
    (units / "multi-user.target.wants").mkdir(parents=True, exist_ok=True)
    (units / "test.service").write_text(UNIT)
    (units / "multi-user.target.wants/test.service").symlink_to("../test.service")
    (system / "debs/script").write_text(f"set -e\n{script}")
    own = pathlib.Path(tempfile.mkdtemp(dir=cgroups()))
    try:
        command = f'echo $$ > {own}/cgroup.procs && exec unshare --mount --pid --fork --kill-child --uts --ipc --cgroup --net sh -c "$1" "$0"'
        subprocess.run(["sh", "-c", command, system, BOOT], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=timeout_s, check=True)
    finally:
        for group in sorted((path for path in own.rglob("*") if path.is_dir()), reverse=True):
            group.rmdir()
        own.rmdir()
    output = (system / "debs/output").read_text()
    if not output.endswith("PASSED\n"):
        raise AssertionError(output)
    return output

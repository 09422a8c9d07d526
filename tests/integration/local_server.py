"""The built server for tests in Python: on loopback, on ports that are free."""
import re
import subprocess
import sys
import threading


class LocalServer:
    """Runs from the construction, which waits until it is ready, to stop(). `grpc`, `http` and `admin` are "127.0.0.1:PORT"."""

    def __init__(self, upscaled: str, *flags: str, admin: str = "off") -> None:
        self._process = subprocess.Popen(
            [upscaled, "--listen=127.0.0.1:0", "--http=127.0.0.1:0", f"--admin={admin}", "--threads=2", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self._process.stdout:
            if match := re.search(r"listening grpc=(\S+) http=(\S+) admin=(\S*)", line):
                self.grpc, self.http, self.admin = match.groups()
            if " ready " in line:
                break
        else:
            self._process.wait()
            sys.exit("the server ended before it was ready")
        # Else a full pipe would hold up its log.
        self._log = threading.Thread(target=self._process.stdout.read, daemon=True)
        self._log.start()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.join()
        self._process.stdout.close()

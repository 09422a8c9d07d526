"""nginx, with deploy/nginx's configuration, and HAProxy in front of a server under test."""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "attack"))
import harness

SBIN = os.environ["PATH"] + ":/usr/sbin"
OLDEST_NGINX = (1, 19, 5)  # the first that takes -e


def _find_nginx():
    """Its path, or None and why it cannot be used."""
    path = shutil.which("nginx", path=SBIN)
    if path is None or shutil.which("openssl") is None:
        return None, "no nginx or no openssl here"
    told = subprocess.run([path, "-v"], capture_output=True, text=True).stderr
    version = re.search(r"nginx/(\d+)\.(\d+)\.(\d+)", told)
    if version is None or tuple(map(int, version.groups())) < OLDEST_NGINX:
        return None, f"{told.strip()}, older than {'.'.join(map(str, OLDEST_NGINX))}"
    return path, ""


NGINX, WHY_NO_NGINX = _find_nginx()
HAPROXY = shutil.which("haproxy", path=SBIN)
PATIENCE_S = 30

# Workers of a nginx that root starts would have another user, who may not enter a test's folder.
NGINX_MAIN = ("user root;" if os.geteuid() == 0 else "") + """
daemon off;
pid {folder}/nginx.pid;
error_log {log} warn;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/{site};
}}
"""

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _start(case, command, port):
    process = subprocess.Popen(command, preexec_fn=harness.die_with_parent)
    case.addClassCleanup(process.wait)
    case.addClassCleanup(process.terminate)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if time.monotonic() > deadline or process.poll() is not None:
                raise
            time.sleep(0.02)


def _servers(endpoints):
    return " ".join(f"server {host}:{port} max_fails=0;" for host, port in endpoints)


def _adapt(shipped, folder, changes):
    """Writes a copy of a file of deploy/ with the ports and files of a test."""
    text = (ROOT / "deploy" / shipped).read_text()
    for old, new in (*changes, ("/etc/upscaled/", f"{folder}/")):
        assert old in text, old
        text = text.replace(old, new)
    adapted = folder / pathlib.Path(shipped).name
    adapted.write_text(text)
    return adapted


def _write_nginx(servers, folder, port, locations, log):
    changes = (
        ("server 127.0.0.1:8001 max_fails=0;", _servers(x.grpc for x in servers)),
        ("server 127.0.0.1:8000 max_fails=0;", _servers(x.http for x in servers)),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("    listen [::]:443 ssl http2;\n", ""),
        ("    location / {", f"{locations}\n    location / {{"),
    )
    _adapt("nginx/upscaled.conf", folder, changes)
    (folder / "nginx.conf").write_text(NGINX_MAIN.format(folder=folder, log=log, site="upscaled.conf"))


def start_nginx(case, *servers, locations="", log="stderr"):
    """In front of `servers`, until the end of the class `case`, with `locations` before the others. Returns its port,
    which speaks TLS with the certificate tls.pem in the first server's folder."""
    folder, port = pathlib.Path(servers[0].folder.name), free_port()
    harness.make_certificate(folder, "tls")
    _write_nginx(servers, folder, port, locations, log)
    _start(case, [NGINX, "-p", folder, "-c", folder / "nginx.conf", "-e", log], port)
    return port


def start_image_cache(case, folder, endpoint):
    """nginx with deploy/nginx/images.conf in front of `endpoint`, until the end of the class `case`. Returns its port, which
    speaks TLS with the certificate tls.pem in `folder`."""
    port = free_port()
    harness.make_certificate(folder, "tls")
    changes = (
        ("server 127.0.0.1:8000 max_fails=0;", _servers([endpoint])),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("    listen [::]:443 ssl http2;\n", ""),
        ("/var/cache/nginx/upscaled", f"{folder}/cache"),
    )
    _adapt("nginx/images.conf", folder, changes)
    main = folder / "nginx-images.conf"
    main.write_text(NGINX_MAIN.format(folder=folder, log="stderr", site="images.conf"))
    _start(case, [NGINX, "-p", folder, "-c", main, "-e", "stderr"], port)
    return port


def _replicas(line, servers):
    """`line` of HAProxy's configuration for each of the servers."""
    lines = []
    for number, server in enumerate(servers, 1):
        grpc, http = (f"{host}:{port}" for host, port in (server.grpc, server.http))
        own = line.replace("127.0.0.1:8001", grpc).replace("127.0.0.1:8000", http).replace("port 8000", f"port {server.http[1]}")
        lines.append(own.replace("replica1", f"replica{number}"))
    return "\n".join(lines)


def start_haproxy(case, *servers, rules=""):
    """Likewise; `rules` are the frontend's. One connection to a server is shared by all clients where that can be."""
    folder, port = pathlib.Path(servers[0].folder.name), free_port()
    harness.make_certificate(folder, "tls")
    (folder / "tls-both.pem").write_text((folder / "tls.pem").read_text() + (folder / "tls.key").read_text())
    shipped = (ROOT / "deploy" / "haproxy" / "upscaled.cfg").read_text()
    lines = [line for line in shipped.splitlines() if line.startswith("    server ")]
    changes = [(line, _replicas(line, servers)) for line in lines]
    changes += [
        ("bind :443", f"bind 127.0.0.1:{port}"),
        ("global\n", "global\n    nbthread 1\n"),
        ("    retries 3\n", "    retries 3\n    http-reuse always\n"),
        ("    default_backend upscaled_http\n", f"{rules}\n    default_backend upscaled_http\n"),
    ]
    configuration = _adapt("haproxy/upscaled.cfg", folder, changes)
    _start(case, [HAPROXY, "-db", "-q", "-f", configuration], port)
    return port

#!/usr/bin/env bash
# From a fresh clone to an upscaled image: installs packages, builds, starts the server on
# loopback, upscales an image and says where it is. Running it again is fast and harmless.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<EOF
Usage: deploy/quickstart.sh [--no-install] [--stop] [IMAGE]

Upscales IMAGE (default: deploy/demo/sample.png) twice as large and leaves the server running.

  --no-install  do not install packages
  --stop        stop the server that an earlier run left running, and do nothing else
EOF
}

install=1 stop=0 image=$ROOT/deploy/demo/sample.png
while (($#)); do
  case $1 in
    --no-install) install=0 ;;
    --stop) stop=1 ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) image=$1 ;;
  esac
  shift
done

bin=$ROOT/build/release/bin
state=$ROOT/build/quickstart
server_running() {
  [[ -f $state/pid ]] && [[ $(readlink "/proc/$(<"$state/pid")/exe" 2>/dev/null) == "$bin/upscaled"* ]]
}
# The server drains for at most its --drain-timeout of 30 s.
stop_server() {
  kill -TERM "$(<"$state/pid")"
  for _ in {1..400}; do
    server_running || return 0
    sleep 0.1
  done
  die "the server (process $(<"$state/pid")) does not stop"
}

if ((stop)); then
  server_running || { echo "No server of this script is running."; exit 0; }
  stop_server
  echo "Stopped."
  exit 0
fi

[[ -f $image ]] || die "no such image: $image"
((install)) && step "install packages" install_packages "${BUILD_PACKAGES[@]}"
build release -DUPSCALED_TESTS=OFF -- upscaled upscaled-decode upscaled-prove upscale upscale-worker

mkdir -p "$state"
if server_running && [[ $bin/upscaled -nt $state/pid ]]; then
  say "Restarting the server: it was built anew"
  stop_server
fi
if ! server_running; then
  say "Starting the server"
  listen=127.0.0.1:8001 http=127.0.0.1:8000 admin=127.0.0.1:8002
  (exec 3<>/dev/tcp/127.0.0.1/8001) 2>/dev/null && listen=127.0.0.1:0
  (exec 3<>/dev/tcp/127.0.0.1/8000) 2>/dev/null && http=127.0.0.1:0
  (exec 3<>/dev/tcp/127.0.0.1/8002) 2>/dev/null && admin=127.0.0.1:0
  nohup "$bin/upscaled" --listen $listen --http $http --admin $admin >"$state/server.log" 2>&1 </dev/null &
  echo $! >"$state/pid"
  for _ in {1..300}; do
    grep -q ' ready ' "$state/server.log" && break
    server_running || { cat "$state/server.log" >&2; die "the server did not start"; }
    sleep 0.1
  done
  grep -q ' ready ' "$state/server.log" || { cat "$state/server.log" >&2; die "the server is not ready after 30 s"; }
fi
address_of() { sed -n "s/.* listening .*$1=\([^ ]*\).*/\1/p" "$state/server.log" | head -n 1; }
endpoint=$(address_of grpc)
http_endpoint=$(address_of http)
admin_endpoint=$(address_of admin)

name=$(basename "$image")
result=$state/${name%.*}-2x.png
say "Upscaling $image"
step "upscale" "$bin/upscale" image -i "$image" -o "$result" --server "$endpoint"
print_slowest_steps

cat <<EOF

The result:   $result

The server runs on $endpoint (gRPC), http://$http_endpoint (page and API) and http://$admin_endpoint (metrics);
log: $state/server.log
Go on with:
  $bin/upscale image --local -i IN.jpg -o OUT.png   (without the server)
  $bin/upscale image -i IN.jpg -o OUT.png -s 4 --server $endpoint
  $bin/upscale models --server $endpoint
  $bin/upscale --help
Stop it with:
  deploy/quickstart.sh --stop

Now open http://${http_endpoint/127.0.0.1/localhost} and drop a picture on the page.
EOF

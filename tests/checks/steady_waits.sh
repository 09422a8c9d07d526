#!/usr/bin/env bash
# Refuses absl's waits with a time limit, which follow the system's clock: who sets that back prolongs them.
# engine/base/steady_wait.h has waits that follow the monotonic clock.
set -euo pipefail
cd "$(dirname "$0")/../.."
if grep -rnE '\b(Await|Wait|WaitForNotification|LockWhen)With(Timeout|Deadline)\(' engine server client \
  --include='*.h' --include='*.cc' --include='*.cu'; then
  echo "use SteadyCondition (engine/base/steady_wait.h)"
  exit 1
fi

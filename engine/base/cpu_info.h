// What this process may use of the machine.
#pragma once

namespace upscaled {

// Threads worth starting: the smaller of the affinity mask's CPU count and the cgroup (v1 or v2)
// CPU quota rounded up; at least 1. Never the host's core count alone, which a container exceeds.
int AvailableCpuCount();

}  // namespace upscaled

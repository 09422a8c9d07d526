// The part of the machine that this process may use.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace upscaled {

// Threads worth starting: the smaller of the affinity mask's CPU count and the cgroup (v1 or v2)
// CPU quota rounded up; at least 1. Never the host's core count alone, which a container exceeds.
int AvailableCpuCount();

// The second-level cache of a core; 1 MiB where the system does not tell.
size_t CoreCacheBytes();

// "Intel(R) Xeon(R) Processor (family 6, model 207, stepping 2)", as the system names it.
std::string CpuModelName();

// For the threads of a pool that is to keep every CPU of this process busy: binds the calling one,
// number `index` of `count`, to the CPU of that number in the affinity mask, so that its data stay
// in that CPU's caches. Does nothing unless `count` is the number of CPUs in the mask and no quota
// is lower: a part of the CPUs is better chosen by the scheduler, which sees the other processes.
void BindPoolThread(int index, int count);
// The CPUs that it binds those of so many threads to; -1 for each: none.
std::vector<int> PoolThreadCpus(int count);
// Binds the calling thread to a CPU; -1: leaves it alone.
void BindThread(int cpu);

}  // namespace upscaled

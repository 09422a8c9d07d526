// This process's part of the machine.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace upscaled {

// Threads worth starting: the smaller of the number of physical cores in the affinity mask and the
// cgroup (v1 or v2) CPU quota rounded up; at least 1. Never only the host's core count: it exceeds
// a container's. Two threads of a core share its multipliers and its caches.
int AvailableCpuCount();

// One CPU of each physical core among `cpus`, the fastest cores first, as the files of a folder
// like /sys/devices/system/cpu tell; all of them where they tell nothing.
std::vector<int> OneCpuPerCore(const std::vector<int>& cpus, const std::filesystem::path& folder);

// The CPUs of a mask filled by `read`, as sched_getaffinity does: false with errno EINVAL where
// `bytes` are fewer than the kernel's masks have, as on machines of more than 1024 possible CPUs.
// Empty when it fails otherwise.
std::vector<int> ReadCpuMask(const std::function<bool(size_t bytes, cpu_set_t* mask)>& read);

// The second-level cache of a core; 1 MiB where the system does not tell.
size_t CoreCacheBytes();

// "Intel(R) Xeon(R) Processor (family 6, model 207, stepping 2)", as the system names it.
std::string CpuModelName();

// For the threads of a pool on every CPU of this process: binds the calling one, number `index` of
// `count`, to the CPU or the core of that number in the affinity mask, so its data stay in the
// CPU's caches. Does nothing unless `count` is the number of CPUs in the mask, or of cores, and no
// quota is lower: the scheduler chooses a part of them better, because it sees the other processes.
void BindPoolThread(int index, int count);
// Returns BindPoolThread's CPUs for `count` threads; -1 for each if it binds no thread.
std::vector<int> PoolThreadCpus(int count);
// Binds the calling thread, or another, to a CPU; -1: does not bind it.
void BindThread(int cpu);
void BindThread(pthread_t thread, int cpu);

}  // namespace upscaled

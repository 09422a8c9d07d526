// How many file descriptors the process may have.
#pragma once

#include <cstdint>

namespace upscaled::server {

// Raises the soft limit to the hard one (RLIMIT_NOFILE), and returns the limit in force.
int64_t RaiseDescriptorLimit();

// The soft limit.
int64_t DescriptorLimit();

// Descriptors kept from connections: files, devices and other ports need them.
inline constexpr int kReservedDescriptors = 128;
// The server's least number: those, and some connections of each port.
inline constexpr int kMinDescriptors = kReservedDescriptors + 64;

// Whether `fd`, just given out by the system, is one of the last `reserved` ones. As it gives out
// the lowest free number, all below are in use.
bool IsReserved(int fd, int reserved);

}  // namespace upscaled::server

// Locks a decoding process into a cage with the few system calls it needs.
#pragma once

#include <cstddef>

#include "absl/status/status.h"

namespace upscaled::server {

// Locks the calling process for good with seccomp. The process must have one thread. From now on
// it may use its open descriptors, allocate `memory_bytes` more, compute for some minutes, and
// exit. Any other system call kills it: files, sockets, processes, executable memory. It cannot
// dump core or gain privileges. FAILED_PRECONDITION: the system does not support this. Sanitizer
// builds set no lock, because their runtime needs more.
absl::Status LockCage(size_t memory_bytes);

}  // namespace upscaled::server

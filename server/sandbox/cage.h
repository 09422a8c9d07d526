// The cage of a process that decodes: what is left of the system when it is locked.
#pragma once

#include <cstddef>

#include "absl/status/status.h"

namespace upscaled::server {

// Locks the calling process, which has one thread, for good: from now on it may use the descriptors
// that it has, allocate `memory_bytes` beside what it holds, compute for some minutes, and end. Any
// other system call, be it for a file, a socket, a process or memory that can be executed, kills it
// (seccomp); it can neither write a core nor gain privileges. FAILED_PRECONDITION: the system does
// not offer it. In a build with a sanitizer, whose runtime needs more, no lock is set.
absl::Status LockCage(size_t memory_bytes);

}  // namespace upscaled::server

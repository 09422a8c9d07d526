// Names of threads, for ps, top and debuggers.
#pragma once

#include <pthread.h>

namespace upscaled {

// Names the calling thread. `name` has at most 15 bytes, Linux's limit; a longer one has no effect.
inline void NameThread(const char* name) { pthread_setname_np(pthread_self(), name); }

}  // namespace upscaled

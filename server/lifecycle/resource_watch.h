// Whether the process is about to run out of something.
#pragma once

#include <array>

#include "absl/status/status.h"
#include "server/base/process_usage.h"

namespace upscaled::server {

// Thread compatible: remembers the exhausted resource: a value on the brink does not flicker.
class ResourceWatch {
 public:
  static constexpr double kExhausted = 0.95;  // of a limit
  static constexpr double kRelieved = 0.90;   // below that again
  static constexpr double kPressed = 0.85;    // of memory: what can be had again should go

  // RESOURCE_EXHAUSTED names the descriptors, threads or memory, how much is in use and the limit.
  absl::Status Check(const ProcessUsage& usage);

  static bool IsMemoryPressed(const ProcessUsage& usage);

 private:
  std::array<bool, 4> exhausted_ = {};
};

}  // namespace upscaled::server

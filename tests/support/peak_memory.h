// The most memory of this process so far, beyond its memory before.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace upscaled::test {

// Linux only. One at a time: the peak is the whole process's.
class PeakMemory {
 public:
  PeakMemory() {
    std::ofstream("/proc/self/clear_refs") << 5;  // the peak is the present size again
    start_bytes_ = StatusBytes("VmRSS:");
  }
  int64_t grown_bytes() const { return StatusBytes("VmHWM:") - start_bytes_; }

 private:
  static int64_t StatusBytes(const std::string& key) {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      int64_t kilobytes = 0;
      if (word == key && status >> kilobytes) return kilobytes * 1024;
    }
    return 0;
  }

  int64_t start_bytes_ = 0;
};

}  // namespace upscaled::test

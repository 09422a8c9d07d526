#include "server/jobs/system_clock.h"

#include <time.h>

#include <fstream>

#include "absl/time/clock.h"

namespace upscaled::server {
namespace {

SystemClock::Boot SinceBootOfMachine() {
  static const std::string* const id = [] {
    auto* const text = new std::string;  // used until the process ends
    std::ifstream("/proc/sys/kernel/random/boot_id") >> *text;
    return text;
  }();
  timespec age{};
  clock_gettime(CLOCK_BOOTTIME, &age);
  return {.id = *id, .age = absl::DurationFromTimespec(age)};
}

}  // namespace

SystemClock::SystemClock() : now_(absl::Now), since_boot_(SinceBootOfMachine) {}

}  // namespace upscaled::server

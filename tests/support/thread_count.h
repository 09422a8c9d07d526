// The threads of this process, by name.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace upscaled::test {

// How many threads have a name as NameThread gives it. A thread that starts has another one first.
inline int CountThreads(std::string_view name) {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string comm;
    std::getline(std::ifstream(task.path() / "comm"), comm);
    count += comm == name ? 1 : 0;
  }
  return count;
}

}  // namespace upscaled::test

// Files that a loader must refuse. No test has a bound in seconds, which a busy machine would
// break; the time of the slowest file of each suite is printed, and limits.h bounds the work.
#pragma once

#include <iostream>
#include <ostream>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace upscaled::test {

struct BadFile {
  const char* name;
  std::string bytes;
  const char* message;  // a part of the error's
};

inline std::ostream& operator<<(std::ostream& out, const BadFile& file) { return out << file.name; }

class BadFileTest : public ::testing::TestWithParam<BadFile> {
 public:
  static void SetUpTestSuite() { slowest_name_ = "none", slowest_time_ = {}; }
  static void TearDownTestSuite() {
    std::cout << "slowest to be refused: " << slowest_name_ << ", "
              << absl::ToDoubleMilliseconds(slowest_time_) << " ms\n";
  }

 protected:
  // The result that a loader makes of the parameter's bytes; the copy that it is given is no part
  // of the time.
  template <typename Loader>
  static auto Load(Loader load) {
    std::string bytes = GetParam().bytes;
    const absl::Time begin = absl::Now();
    auto file = load(std::move(bytes));
    const absl::Duration time = absl::Now() - begin;
    if (time > slowest_time_) {
      slowest_name_ = GetParam().name;
      slowest_time_ = time;
    }
    return file;
  }

 private:
  static inline const char* slowest_name_ = nullptr;
  static inline absl::Duration slowest_time_;
};

}  // namespace upscaled::test

// The checks that the tests of several loaders share.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/network.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace upscaled {

inline void ExpectError(const absl::StatusOr<Network>& network, absl::StatusCode code,
                        const std::string& message) {
  ASSERT_FALSE(network.ok()) << "no error: " << message;
  EXPECT_EQ(network.status().code(), code) << network.status();
  EXPECT_THAT(std::string(network.status().message()), testing::HasSubstr(message));
}

// 1, 2, and so on.
inline std::vector<float> Ramp(int count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

}  // namespace upscaled

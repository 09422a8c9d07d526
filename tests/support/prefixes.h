// Checks of every codec's promises about cut and damaged files.
#pragma once

#include <string_view>

#include <gtest/gtest.h>

#include "tests/support/test_image.h"

namespace upscaled::test {

// Decodes every `step`th prefix of the whole `file`: each is refused as INVALID_ARGUMENT, or has
// all pixels and a warning of a missing part.
inline void ExpectPrefixesAreRefused(std::string_view file, size_t step = 1,
                                     const DecodeLimits& limits = {}) {
  const auto whole = Decode(file, limits);
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (size_t length = 0; length < file.size(); length += step) {
    const auto cut = Decode(file.substr(0, length), limits);
    if (!cut.ok()) {
      EXPECT_EQ(cut.status().code(), absl::StatusCode::kInvalidArgument)
          << length << " of " << file.size() << " bytes: " << cut.status();
      continue;
    }
    EXPECT_TRUE(SameImages(cut->image.view(), whole->image.view())) << length;
  }
}

// Changes single bytes of `file` at random: no outcome but an error or an image of the header's
// size is right, and none of them may end the process.
inline void ExpectDamageIsSurvived(std::string_view file, std::mt19937& random, int tries,
                                   DecodeLimits limits = {}) {
  limits.max_pixels = 1 << 20;
  for (int i = 0; i < tries; ++i) {
    std::string damaged(file);
    for (int n = RandomInt(random, 1, 4); n > 0; --n)
      damaged[RandomInt(random, 0, static_cast<int>(file.size()) - 1)] =
          static_cast<char>(RandomInt(random, 0, 255));
    const auto decoded = Decode(damaged, limits);
    if (decoded.ok()) {
      EXPECT_EQ(decoded->image.spec(), decoded->header.spec);
    }
  }
}

}  // namespace upscaled::test

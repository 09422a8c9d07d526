#include "engine/backends/cpu/kernels/samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "engine/image/full_scale.h"
#include "tests/support/test_image.h"

namespace upscaled::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kLongest = 70;

template <typename Sample>
SampleConversion<Sample> ConversionOf(Isa isa) {
  const SampleConversions& conversions = SampleConversionsFor(isa);
  if constexpr (sizeof(Sample) == 1) {
    return conversions.u8;
  } else {
    return conversions.u16;
  }
}

template <typename Sample>
class SamplesTest : public testing::Test {
 protected:
  static constexpr Sample kFull = kFullScale<Sample>;

  // By the definition, in double.
  static Sample Nearest(float value) {
    if (std::isnan(value)) return 0;
    const double scaled = std::floor(static_cast<double>(value) * kFull + 0.5);
    return static_cast<Sample>(std::clamp<double>(scaled, 0, kFull));
  }

  static std::vector<Sample> AllSamples() {
    std::vector<Sample> all(size_t{kFull} + 1);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Sample>(i);
    return all;
  }

  std::mt19937 random_ = test::FreshRandom();
};

using SampleTypes = testing::Types<uint8_t, uint16_t>;
TYPED_TEST_SUITE(SamplesTest, SampleTypes);

TYPED_TEST(SamplesTest, GoesToFloatsAndBack) {
  for (const Isa isa : ListIsas()) {
    SCOPED_TRACE(std::string(IsaName(isa)));
    const auto conversion = ConversionOf<TypeParam>(isa);
    const std::vector<TypeParam> samples = this->AllSamples();
    std::vector<float> floats(samples.size(), NAN);
    conversion.from(samples.data(), samples.size(), floats.data());
    for (size_t i = 0; i < samples.size(); ++i) {
      ASSERT_FLOAT_EQ(floats[i], static_cast<float>(i) / this->kFull);
    }
    std::vector<TypeParam> back(samples.size(), 77);
    conversion.to(floats.data(), floats.size(), back.data());
    EXPECT_EQ(back, samples);
  }
}

TYPED_TEST(SamplesTest, RoundsAndClamps) {
  std::uniform_real_distribution<float> any(-0.1f, 1.1f);
  std::vector<float> values = {NAN,    -NAN,  kInfinity, -kInfinity, -0.0f,
                               -1e30f, 1e30f, 1.0f,      0.0f,       0.5f / this->kFull};
  while (values.size() < 1000) values.push_back(any(this->random_));
  for (const Isa isa : ListIsas()) {
    SCOPED_TRACE(std::string(IsaName(isa)));
    std::vector<TypeParam> samples(values.size(), 77);
    ConversionOf<TypeParam>(isa).to(values.data(), values.size(), samples.data());
    for (size_t i = 0; i < values.size(); ++i) {
      // Where the product's own rounding decides, either neighbour is right.
      const double scaled = static_cast<double>(values[i]) * this->kFull + 0.5;
      const bool at_the_edge =
          std::abs(values[i]) < 2 && std::abs(scaled - std::round(scaled)) < 1e-7 * this->kFull;
      EXPECT_NEAR(samples[i], this->Nearest(values[i]), at_the_edge ? 1 : 0) << values[i];
    }
  }
}

// Rows begin and end anywhere, and tiles cut them anywhere.
TYPED_TEST(SamplesTest, DependsOnNoPlaceAndTouchesNothingElse) {
  std::uniform_real_distribution<float> any(-0.1f, 1.1f);
  std::vector<float> values(kLongest);
  for (float& value : values) value = any(this->random_);
  for (const Isa isa : ListIsas()) {
    SCOPED_TRACE(std::string(IsaName(isa)));
    const auto conversion = ConversionOf<TypeParam>(isa);
    std::vector<TypeParam> one_by_one(kLongest);
    std::vector<float> floats(kLongest);
    for (size_t i = 0; i < kLongest; ++i) {
      conversion.to(&values[i], 1, &one_by_one[i]);
      conversion.from(&one_by_one[i], 1, &floats[i]);
    }
    for (size_t count = 0; count <= kLongest; ++count) {
      constexpr TypeParam kPoison = 77;
      std::vector<TypeParam> samples(kLongest + 1, kPoison), expected = samples;
      std::copy_n(one_by_one.begin(), count, expected.begin());
      conversion.to(values.data(), count, samples.data());
      ASSERT_EQ(samples, expected) << count;

      std::vector<float> back(kLongest + 1, -1.0f), expected_back = back;
      std::copy_n(floats.begin(), count, expected_back.begin());
      conversion.from(one_by_one.data(), count, back.data());
      ASSERT_EQ(back, expected_back) << count;
    }
  }
}

}  // namespace
}  // namespace upscaled::cpu

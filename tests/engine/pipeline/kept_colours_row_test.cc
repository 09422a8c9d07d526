// Each loop against its definition, bit by bit: vectors must not round otherwise than single
// samples, so that a pixel's bytes do not depend on its place in a row.
#include "engine/pipeline/kept_colours_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/support/test_image.h"

namespace upscaled {
namespace {

std::vector<float> RandomRow(size_t count, std::mt19937& random) {
  std::uniform_real_distribution<float> values(-70000, 70000);
  std::vector<float> row(count + kRowPaddingFloats);
  std::ranges::generate(row, [&] { return values(random); });
  return row;
}

TEST(KeptColoursRow, SmoothsAsDefined) {
  std::mt19937 random = test::FreshRandom();
  for (size_t count = 1; count < 70; ++count) {
    HalfGaussian gaussian;
    std::vector<std::vector<float>> rows;
    SmoothedRows before, behind;
    for (size_t k = 0; k < gaussian.size(); ++k) {
      gaussian[k] = 1.0f / static_cast<float>(k + 3);
      rows.push_back(RandomRow(count, random));
      rows.push_back(RandomRow(count, random));
      before[k] = rows[2 * k].data();
      behind[k] = rows[2 * k + 1].data();
    }
    std::vector<float> smoothed(count + kRowPaddingFloats);
    SmoothRow(gaussian, before, behind, count, smoothed.data());
    for (size_t i = 0; i < count; ++i) {
      float expected = gaussian[0] * before[0][i];
      for (size_t k = 1; k < gaussian.size(); ++k)
        expected += gaussian[k] * (before[k][i] + behind[k][i]);
      ASSERT_EQ(smoothed[i], expected) << i << " of " << count;
    }
  }
}

TEST(KeptColoursRow, AddsAndMixesAsDefined) {
  std::mt19937 random = test::FreshRandom();
  for (size_t count = 1; count < 70; ++count) {
    std::vector<uint16_t> samples(count);
    std::ranges::generate(samples, [&] { return static_cast<uint16_t>(random()); });
    std::vector<uint32_t> sums(count, 7);
    AddSamples(samples.data(), count, sums.data());
    const std::vector<float> first = RandomRow(count, random), second = RandomRow(count, random);
    std::vector<float> mixed(count + kRowPaddingFloats);
    MixRows(first.data(), second.data(), 0.375f, count, mixed.data());
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(sums[i], samples[i] + 7u);
      ASSERT_EQ(mixed[i], first[i] + 0.375f * (second[i] - first[i]));
    }
  }
}

TEST(KeptColoursRow, EnlargesAsDefined) {
  std::mt19937 random = test::FreshRandom();
  const std::vector<ColumnPhase> phases = {{-3, 0.75f}, {0, 0.125f}, {0, 0.3f}};
  for (int width = 1; width < 40; ++width) {
    for (const int channels : {3, 4}) {
      const std::vector<float> row = RandomRow(static_cast<size_t>(3 * (width + 2)), random);
      const float* const rgb = row.data() + 3;
      std::vector<float> enlarged(static_cast<size_t>(3 * width * channels) + kRowPaddingFloats, 1);
      EnlargeRow(rgb, width, phases, channels, enlarged.data());
      for (int i = 0; i < 3 * width * channels; ++i) {
        const int pixel = i / channels, c = i % channels;
        const ColumnPhase& phase = phases[static_cast<size_t>(pixel % 3)];
        const float* const first = rgb + 3 * (pixel / 3) + phase.first_float + c;
        const float expected = c == 3 ? 0 : first[0] + phase.second_weight * (first[3] - first[0]);
        ASSERT_EQ(enlarged[static_cast<size_t>(i)], expected) << i << " of " << width;
      }
    }
  }
}

TEST(KeptColoursRow, CorrectsAsDefined) {
  std::mt19937 random = test::FreshRandom();
  for (size_t count = 1; count < 70; ++count) {
    std::vector<uint16_t> samples(count), corrected(count + 1, 4711);
    std::ranges::generate(samples, [&] { return static_cast<uint16_t>(random()); });
    const std::vector<float> corrections = RandomRow(count, random);
    CorrectRow(samples.data(), corrections.data(), count, corrected.data());
    for (size_t i = 0; i < count; ++i) {
      const float value = static_cast<float>(samples[i]) + corrections[i] + 0.5f;
      ASSERT_EQ(corrected[i], static_cast<uint16_t>(std::clamp(value, 0.0f, 65535.0f)));
    }
    ASSERT_EQ(corrected[count], 4711);
  }
}

}  // namespace
}  // namespace upscaled

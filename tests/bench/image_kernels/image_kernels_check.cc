#include "tests/bench/image_kernels/image_kernels_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "engine/image/quality.h"
#include "tests/bench/image_kernels/reference/image_kernels.h"
#include "tests/support/test_image.h"

namespace upscaled::test {
namespace {

constexpr int kRounds = 12;

bool IsFinal(ImageOp op) { return op == ImageOp::kSquaredError || op == ImageOp::kSsim; }

int RandomSide(std::mt19937& random) {
  constexpr int kEdges[] = {1, 3, 4, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257};
  if (RandomInt(random, 0, 1)) return RandomInt(random, 1, 200);
  return kEdges[RandomInt(random, 0, std::size(kEdges) - 1)];
}

template <typename T>
std::vector<T> As(const std::vector<uint8_t>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Largest size of a sum's terms: the source of its rounding.
float LargestFinite(const std::vector<uint8_t>& src) {
  float largest = 0;
  for (const float value : As<float>(src)) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

void CompareStats(const ImageWork& work, const std::vector<uint8_t>& src,
                  const std::vector<uint8_t>& actual, const std::vector<uint8_t>& expected) {
  const auto a = As<LineStats>(actual), b = As<LineStats>(expected);
  const int terms = work.op == ImageOp::kRowStats ? work.size.width : work.size.height;
  const float tolerance = 1e-6f * terms * LargestFinite(src);
  for (size_t i = 0; i < b.size(); ++i) {
    ASSERT_NEAR(a[i].sum, b[i].sum, tolerance) << "line " << i;
    ASSERT_EQ(a[i].min, b[i].min) << "line " << i;
    ASSERT_EQ(a[i].max, b[i].max) << "line " << i;
    ASSERT_EQ(a[i].non_finite, b[i].non_finite) << "line " << i;
  }
}

// `actual` may be off by `tolerance` in each value.
template <typename T>
void CompareValues(const std::vector<uint8_t>& actual, const std::vector<uint8_t>& expected,
                   double tolerance) {
  const auto a = As<T>(actual), b = As<T>(expected);
  for (size_t i = 0; i < b.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << "value " << i;
}

void Compare(const ImageWork& work, const std::vector<uint8_t>& src,
             const std::vector<uint8_t>& actual, const std::vector<uint8_t>& expected) {
  switch (work.op) {
    case ImageOp::kCopy:
    case ImageOp::kTranspose:
      ASSERT_TRUE(actual == expected);
      break;
    case ImageOp::kToPlanes:
      CompareValues<float>(actual, expected, 1e-7);
      break;
    case ImageOp::kBilateral:
    case ImageOp::kFromPlanes:
      CompareValues<uint8_t>(actual, expected, 1);
      break;
    case ImageOp::kRowStats:
    case ImageOp::kColumnStats:
      CompareStats(work, src, actual, expected);
      break;
    case ImageOp::kSquaredError: {
      // Floats of one sign, up to 2048 of them added before they become part of a double: each
      // addition may lose half a unit in the last place.
      const double terms = std::min<int64_t>(work.size.Area(), 2048);
      CompareValues<double>(actual, expected, (terms + 3) * 0x1p-24 * As<double>(expected)[0]);
      break;
    }
    case ImageOp::kSsim:
      CompareValues<double>(actual, expected, 2e-5 * static_cast<double>(work.size.Area()));
      break;
  }
}

}  // namespace

ImageWork RandomWork(ImageOp op, std::mt19937& random) {
  ImageWork work{op, {RandomSide(random), RandomSide(random)}};
  if (op == ImageOp::kBilateral) {
    work.size = {RandomInt(random, 1, 90), RandomInt(random, 1, 40)};
    work.bilateral = {0.1 * RandomInt(random, 1, 30), 0.1 * RandomInt(random, 1, 2550)};
  } else if (op == ImageOp::kSsim) {
    work.size.width = std::max(work.size.width, kSsimWindow);
    work.size.height = std::max(work.size.height, kSsimWindow);
  }
  return work;
}

std::vector<uint8_t> RandomSource(const ImageWork& work, std::mt19937& random) {
  if (work.op == ImageOp::kBilateral || work.op == ImageOp::kToPlanes) {
    const Image image = ArtImage({work.size.width, work.size.height, 3, SampleType::kU8}, random);
    return {image.view().data, image.view().data + image.bytes()};
  }
  std::vector<float> values(SourceBytes(work) / sizeof(float));
  const bool is_plane = IsFinal(work.op);
  std::uniform_real_distribution<float> level(0, 255), any(-1, 2);
  for (float& value : values) value = is_plane ? level(random) : any(random);
  if (is_plane) {  // the second plane is like the first one
    for (size_t i = values.size() / 2; i < values.size(); ++i) {
      values[i] = 0.7f * values[i - values.size() / 2] + 0.3f * values[i];
    }
  } else if (work.op != ImageOp::kTranspose) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    for (const float odd : {std::nanf(""), kInfinity, -kInfinity}) {
      if (RandomInt(random, 0, 1)) {
        values[RandomInt(random, 0, static_cast<int>(values.size()) - 1)] = odd;
      }
    }
  }
  std::vector<uint8_t> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<uint8_t> RunStep(ImageKernels& kernels, size_t step, const ImageWork& work,
                             const std::vector<uint8_t>& src) {
  std::vector<uint8_t> dst(ResultBytes(work), 0xA5);
  const auto seconds = kernels.Run(step, work, src, dst);
  EXPECT_TRUE(seconds.ok()) << seconds.status();
  return dst;
}

void ExpectDefinitions(ImageKernels& kernels, std::mt19937& random) {
  const auto reference = reference::CreateImageKernels();
  std::set<ImageOp> seen;
  for (size_t step = 0; step < kernels.steps().size(); ++step) {
    const ImageStep& tested = kernels.steps()[step];
    seen.insert(tested.op);
    const auto is_op = [&](const ImageStep& other) { return other.op == tested.op; };
    const auto plain = std::find_if(reference->steps().begin(), reference->steps().end(), is_op);
    for (int round = 0; round < kRounds; ++round) {
      const ImageWork work = RandomWork(tested.op, random);
      SCOPED_TRACE(::testing::Message()
                   << "operation " << static_cast<int>(tested.op) << ", " << tested.name << ", "
                   << work.size.width << "x" << work.size.height << ", sigma "
                   << work.bilateral.sigma_space << " and " << work.bilateral.sigma_range);
      const std::vector<uint8_t> src = RandomSource(work, random);
      const std::vector<uint8_t> result = RunStep(kernels, step, work, src);
      Compare(work, src, result,
              RunStep(*reference, plain - reference->steps().begin(), work, src));
      EXPECT_TRUE(result == RunStep(kernels, step, work, src)) << "not the same bytes again";
      if (::testing::Test::HasFailure()) return;
    }
  }
  EXPECT_EQ(seen.size(), reference->steps().size()) << "operations are missing";
}

}  // namespace upscaled::test

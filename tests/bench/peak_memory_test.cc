// The memory of a whole image, from PNG to PNG.
#include "tests/support/peak_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/base/sanitized.h"
#include "engine/image/codec.h"
#include "engine/image/memory_io.h"
#include "engine/pipeline/local_executor.h"
#include "engine/pipeline/transcode.h"
#include "tests/bench/networks.h"
#include "tests/support/test_image.h"

namespace upscaled::bench {
namespace {

constexpr int64_t kMegabyte = 1'000'000;

std::string EncodePng(const Image& image) {
  StringSink sink;
  const auto encoder =
      CreateImageEncoder({.format = ImageFormat::kPng}, image.spec(), ImageMetadata(), sink);
  EXPECT_TRUE(encoder.ok()) << encoder.status();
  EXPECT_TRUE((*encoder)->WriteRows(image.view()).ok());
  EXPECT_TRUE((*encoder)->Finish().ok());
  return sink.Take();
}

// In addition to the weights and the source: tiles of two threads, bands, codecs and the whole
// result.
TEST(PeakMemoryTest, Upconv7MakesAFullHdImageWithin150Megabytes) {
  if (kSanitized) GTEST_SKIP() << "sanitizers take memory of their own";
  std::mt19937 random = test::FreshRandom();
  const std::string png = EncodePng(test::RandomImage({960, 540, 3, SampleType::kU8}, random));
  const auto backend = CreateCpuBackend({.threads = 2});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto network = LoadBenchNetwork("random:upconv_7");
  ASSERT_TRUE(network.ok()) << network.status();
  const auto executable = (*backend)->Compile(*network, Precision::kExact);
  ASSERT_TRUE(executable.ok()) << executable.status();

  const test::PeakMemory peak;
  const auto executor = MakeLocalExecutor(**backend);
  MemorySource source(png);
  StringSink sink;
  const auto stats =
      TranscodeImage({.input = source, .output = sink, .executor = *executor},
                     [&](const ImageHeader& header) -> absl::StatusOr<TranscodePlan> {
                       auto plan = PlanUpscale(header.spec, {1920, 1080}, {*executable},
                                               {.concurrency = executor->concurrency()});
                       if (!plan.ok()) return plan.status();
                       return PlanTranscode(header, *std::move(plan), {});
                     });
  ASSERT_TRUE(stats.ok()) << stats.status();
  const int64_t grown = peak.grown_bytes();
  RecordProperty("grown_bytes", std::to_string(grown));
  EXPECT_LT(grown, 150 * kMegabyte);
  // Only the result's rows: otherwise nothing was measured.
  EXPECT_GT(grown, 1920 * 1080 * 3);
}

}  // namespace
}  // namespace upscaled::bench

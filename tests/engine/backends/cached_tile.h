// One tile of a network with a global pooling, pass by pass: for tests of the tensors devices keep
// of it.
#pragma once

#include <memory>
#include <random>
#include <span>

#include "engine/backends/backend.h"
#include "engine/base/status_macros.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/random_network.h"
#include "tests/support/run_image.h"
#include "tests/support/test_image.h"

namespace upscaled::test {

// A 3x3 convolution times the mean of its result.
inline Network ScaledByItsMean(std::mt19937& random) {
  Network network = InputAlone();
  AppendConv(network, 3, 3);
  std::uniform_real_distribution<float> weight(-1, 1);
  for (float& value : network.layers.back().weights) value = weight(random);
  AppendTimesMean(network, 1);
  return network;
}

// The image's two passes on one stream as one tile. It keeps the tensors `cache` (may be null)
// allows. The second is given `later_source` to read.
inline absl::StatusOr<Image> RunCached(Backend& backend, const Executable& executable,
                                       const Image& source, const Image& later_source,
                                       ActivationCache* cache) {
  const std::unique_ptr<Stream> stream = backend.CreateStream();
  const Size size = source.spec().size();
  Image result({size.width, size.height, 3, SampleType::kF32});
  ImageRun image(executable, {WholeTask(executable, source.view(), result.mutable_view())});
  const auto run = [&](std::span<const TileTask> tasks) {
    TileTask one = tasks.front();
    PoolingPass pass = *one.pooling;
    pass.cache = cache;
    one.pooling = &pass;
    if (!pass.gathers()) one.src = later_source.view();
    return stream->Run(executable, {&one, 1});
  };
  RETURN_IF_ERROR(image.Run(run));
  return result;
}

// Fails the test unless the second run goes on from the first one's kept layers, without the image.
inline void ExpectGoesOn(Backend& backend, Precision precision, std::mt19937& random) {
  const auto executable = backend.Compile(ScaledByItsMean(random), precision);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const Image source = RandomImage({40, 30, 3, SampleType::kU8}, random);
  const Image other = RandomImage({40, 30, 3, SampleType::kU8}, random);
  const auto expected = RunCached(backend, **executable, source, source, nullptr);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const std::unique_ptr<ActivationCache> cache = (*executable)->CreateActivationCache();
  ASSERT_NE(cache, nullptr);
  const auto result = RunCached(backend, **executable, source, other, cache.get());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(SameImages(result->view(), expected->view()));
}

}  // namespace upscaled::test

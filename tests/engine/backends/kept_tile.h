// One tile of a network with a global pooling, run by run: for tests of what devices keep of it.
#pragma once

#include <memory>
#include <random>
#include <span>

#include "engine/backends/backend.h"
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

// The image's two runs on one stream as one tile, which keeps what `memory` (may be null) can.
// The second is given `later_source` to read.
inline absl::StatusOr<Image> RunKept(Backend& backend, const Executable& executable,
                                     const Image& source, const Image& later_source,
                                     ActivationCache* memory) {
  const std::unique_ptr<Stream> stream = backend.CreateStream();
  const Size size = source.spec().size();
  const Rect whole{0, 0, size.width, size.height};
  Image result({size.width, size.height, 3, SampleType::kF32});
  TileTask task = MakeTask(executable, source, whole, result);
  task.memory = memory;
  const auto run = [&](std::span<const TileTask> tasks) {
    TileTask one = tasks.front();
    if (one.sums == nullptr) one.src = later_source.view();
    return stream->Run(executable, {&one, 1});
  };
  RETURN_IF_ERROR(RunImage(executable, {task}, run));
  return result;
}

// Fails the test unless the second run goes on from what the first one kept, without the image.
inline void ExpectGoesOn(Backend& backend, Precision precision, std::mt19937& random) {
  const auto executable = backend.Compile(ScaledByItsMean(random), precision);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const Image source = RandomImage({40, 30, 3, SampleType::kU8}, random);
  const Image other = RandomImage({40, 30, 3, SampleType::kU8}, random);
  const auto expected = RunKept(backend, **executable, source, source, nullptr);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const std::unique_ptr<ActivationCache> memory = (*executable)->CreateActivationCache();
  ASSERT_NE(memory, nullptr);
  const auto result = RunKept(backend, **executable, source, other, memory.get());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(SameImages(result->view(), expected->view()));
}

}  // namespace upscaled::test

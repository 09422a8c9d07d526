// Passes of networks with global poolings in strips of columns.
#include <cmath>
#include <memory>
#include <random>
#include <string>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/backends/cpu/cpu_executable.h"
#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/row_schedule.h"
#include "engine/graph/activation_cache.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cached_tile.h"
#include "tests/engine/backends/random_network.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::AppendConv;
using test::AppendTimesMean;
using test::FreshRandom;
using test::RandomImage;
using test::RandomInt;

constexpr int kChannels = 64;

// Squeeze-and-excite, a kept image in the middle, and a product with the layers the last pass
// computes again from there.
Network PooledNetwork(std::mt19937& random) {
  Network network = test::InputAlone();
  for (const bool scales_itself : {true, false}) {
    AppendConv(network, kChannels, 3);
    AppendConv(network, kChannels, 3);
    const int last = static_cast<int>(network.layers.size()) - 1;
    AppendTimesMean(network, scales_itself ? last : last - 1);
    AppendConv(network, 3, 3);
  }
  std::uniform_real_distribution<float> weight(-1, 1);
  for (Layer& layer : network.layers) {
    const float limit = std::sqrt(3.0f / static_cast<float>(9 * layer.in_channels));
    for (float& value : layer.weights) value = limit * weight(random);
    if (layer.op == Op::kConv) layer.activation = Activation::kRelu;
  }
  return network;
}

class StripsTest : public ::testing::TestWithParam<Precision> {};

TEST_P(StripsTest, GiveTheBytesOfWholeRows) {
  if (GetParam() == Precision::kFast && !cpu::HasVnni(cpu::ListIsas().front())) {
    GTEST_SKIP() << "no AVX512_VNNI here";
  }
  std::mt19937 random = FreshRandom();
  const auto backend = CreateCpuBackend({.poisons_memory = true});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto executable = (*backend)->Compile(PooledNetwork(random), GetParam());
  ASSERT_TRUE(executable.ok()) << executable.status();
  const Size size{RandomInt(random, 1100, 1500), RandomInt(random, 1, 25)};
  SCOPED_TRACE(::testing::Message() << size.width << "x" << size.height);
  const TilePlan plan = (*executable)->Plan({0, 0, size.width, size.height}, size);
  const auto& program = static_cast<const cpu::CpuExecutable&>(**executable).program();
  for (size_t pass = 0; pass <= program.poolings.size(); ++pass) {
    EXPECT_GT(ScheduleStrips(program, plan, pass).size(), 1u) << "pass " << pass;
  }

  const Image source = RandomImage({size.width, size.height, 3, SampleType::kU8}, random);
  const auto whole = test::RunCached(**backend, **executable, source, source, nullptr);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::unique_ptr<ActivationCache> cache = (*executable)->CreateActivationCache();
  const auto strips = test::RunCached(**backend, **executable, source, source, cache.get());
  ASSERT_TRUE(strips.ok()) << strips.status();
  EXPECT_TRUE(test::SameImages(strips->view(), whole->view()));
}

INSTANTIATE_TEST_SUITE_P(Precisions, StripsTest,
                         ::testing::Values(Precision::kExact, Precision::kFast),
                         [](const auto& info) { return std::string(PrecisionName(info.param)); });

}  // namespace
}  // namespace upscaled

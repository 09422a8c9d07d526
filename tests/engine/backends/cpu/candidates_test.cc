// The cpu backend's candidates for those who choose its kernels.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/backends/cpu/cpu_executable.h"
#include "engine/graph/kernel_choice.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/check_candidate.h"
#include "tests/engine/backends/random_network.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::Describe;
using test::FreshRandom;
using test::RandomInt;
using test::RandomNetwork;

constexpr float kCandidateTolerance = 1e-3f;  // relative to the largest value

// By what it is asked, and what it answers: one of the names at random.
class RandomChooser final : public KernelChooser {
 public:
  explicit RandomChooser(std::mt19937& random) : random_(random) {}

  std::string Choose(const KernelCandidates& candidates) override {
    const std::vector<std::string> names = candidates.names();
    EXPECT_GE(names.size(), 2u);
    EXPECT_THAT(candidates.device(), ::testing::StartsWith("cpu, "));
    for (const std::string& name : names) {
      test::CheckCandidate(candidates, name, kCandidateTolerance, random_);
    }
    chosen.push_back(names[RandomInt(random_, 0, static_cast<int>(names.size()) - 1)]);
    return chosen.back();
  }

  std::vector<std::string> chosen;

 private:
  std::mt19937& random_;
};

std::shared_ptr<const Executable> Compile(const Network& network, const BackendOptions& options) {
  const auto executable = (*CreateCpuBackend(options))->Compile(network, Precision::kExact);
  EXPECT_TRUE(executable.ok()) << executable.status();
  return *executable;
}

std::vector<std::string> KernelsOf(const Executable& executable) {
  std::vector<std::string> names;
  for (const cpu::KernelInfo* info :
       static_cast<const cpu::CpuExecutable&>(executable).program().kernel_infos) {
    if (info != nullptr) names.emplace_back(info->name);
  }
  return names;
}

TEST(CpuCandidatesTest, CandidatesAreRightAndChoicesAreTaken) {
  std::mt19937 random = FreshRandom();
  size_t choices = 0;
  for (int i = 0; i < 6 || choices == 0; ++i) {
    const Network network = RandomNetwork(random);
    SCOPED_TRACE(Describe(network));
    const auto chooser = std::make_shared<RandomChooser>(random);
    BackendOptions options;
    options.chooser = chooser;
    const auto executable = Compile(network, options);
    std::vector<std::string> used = KernelsOf(*executable);
    for (const std::string& kernel : chooser->chosen) {
      const auto found = std::find(used.begin(), used.end(), kernel);
      ASSERT_NE(found, used.end()) << kernel;
      used.erase(found);
    }
    choices += chooser->chosen.size();
  }
}

TEST(CpuCandidatesTest, ForcedKernelsAreNotChosen) {
  std::mt19937 random = FreshRandom();
  const auto chooser = std::make_shared<RandomChooser>(random);
  BackendOptions options;
  options.chooser = chooser;
  options.kernel = "direct";
  Network network;
  network.layers = {{.op = Op::kInput, .name = "input", .out_channels = 3},
                    {.op = Op::kConv,
                     .name = "conv",
                     .inputs = {0},
                     .out_channels = 3,
                     .in_channels = 3,
                     .kernel_px = 3,
                     .padding_px = 1,
                     .weights = std::vector<float>(81, 0.5f),
                     .bias = {0, 0, 0}}};
  Compile(network, options);
  EXPECT_THAT(chooser->chosen, ::testing::IsEmpty());
}

}  // namespace
}  // namespace upscaled

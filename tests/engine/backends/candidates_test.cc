// Every backend's candidates for its kernel choice: they compute the reference's results, and the
// backend asks only about layers without a forced kernel.
#include <algorithm>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/graph/kernel_choice.h"
#include "engine/model/border.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/check_candidate.h"
#include "tests/engine/backends/tested_devices.h"
#include "tests/engine/backends/tested_layers.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::MakeConv;
using test::RandomInt;

constexpr int kSampledNetworks = 6;  // others each time, where drivers compile kernels slowly
constexpr char kTested[] = "tested";

// The error of a backend's fastest algorithms, relative to the largest value.
float Tolerance(const std::string& device, Precision precision) {
  if (device == "cpu") return 1e-3f;  // Winograd's, of tiles of 6
  return precision == Precision::kExact ? 2e-5f : 6e-3f;
}

std::string KernelOf(const std::string& candidate) {
  return candidate.substr(0, candidate.find(','));
}

// Chooses a kernel for the tested layer at random among the offered ones.
class CheckingChooser final : public KernelChooser {
 public:
  CheckingChooser(std::string device, std::mt19937& random)
      : device_(std::move(device)), random_(random) {}

  std::string Choose(const KernelCandidates& candidates) override {
    const std::vector<std::string> names = candidates.names();
    if (candidates.layer().name != kTested) return names.front();
    EXPECT_THAT(candidates.device(), ::testing::StartsWith(absl::StrCat(device_, ", ")));
    EXPECT_GE(names.size(), 2u);
    EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size());
    const float tolerance = Tolerance(device_, candidates.precision());
    std::string kernel;
    for (const std::string& name : names) {
      // Only the first configuration of each: others differ only in their launch.
      if (KernelOf(name) == kernel) continue;
      kernel = KernelOf(name);
      test::CheckCandidate(candidates, name, tolerance, random_);
    }
    kernels.push_back(KernelOf(names.back()));
    return names[RandomInt(random_, 0, static_cast<int>(names.size()) - 1)];
  }

  std::vector<std::string> kernels;  // one that could be forced, for each time that it was asked

 private:
  const std::string device_;
  std::mt19937& random_;
};

class RefusingChooser final : public KernelChooser {
 public:
  std::string Choose(const KernelCandidates& candidates) override {
    EXPECT_NE(candidates.layer().name, kTested) << "was asked";
    return candidates.names().front();
  }
};

class CandidatesTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto backend = test::CreateTestedBackend(GetParam());
    if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status();
    ASSERT_TRUE(backend.ok()) << backend.status();
    const std::string description = (*backend)->description();
    if (absl::StrContains(description, "compute capability 7.")) {
      GTEST_SKIP() << "there is one kernel for each layer on " << description;
    }
  }

  // A network for each kind of convolution.
  std::vector<Network> TestedNetworks() {
    std::vector<Network> networks, sampled;
    for (const Layer& layer : test::TestedLayers(random_)) {
      if (layer.op != Op::kConv && layer.op != Op::kConvTranspose) continue;
      Network network = Around(layer);
      if (InferBorder(network).ok()) networks.push_back(std::move(network));
    }
    if (GetParam() != "opencl") return networks;
    std::sample(networks.begin(), networks.end(), std::back_inserter(sampled), kSampledNetworks,
                random_);
    return sampled;
  }

  // The layer in a network with an image of three channels, at least as large.
  Network Around(const Layer& tested) {
    Network network;
    network.layers = {{.op = Op::kInput, .name = "input", .out_channels = 3}};
    if (tested.op == Op::kConv && tested.stride_px > 1) {
      Append(network, test::MakePlain(Op::kResizeNearest, 3, 3, tested.stride_px, 0, {}));
    }
    Append(network, MakeConv(Op::kConv, 3, tested.in_channels, 1, 1, 0, random_));
    Append(network, tested);
    network.layers.back().name = kTested;
    Append(network, MakeConv(Op::kConv, tested.out_channels, 3, 1, 1, 0, random_));
    return network;
  }

  void Compile(const Network& network, Precision precision, std::shared_ptr<KernelChooser> chooser,
               const std::string& forced = "") {
    BackendOptions options;
    options.chooser = std::move(chooser);
    options.kernel = forced;
    const auto backend = test::CreateTestedBackend(GetParam(), options);
    ASSERT_TRUE(backend.ok()) << backend.status();
    const absl::Status status = (*backend)->Compile(network, precision).status();
    EXPECT_TRUE(status.ok() || absl::IsUnimplemented(status)) << status;
  }

  std::mt19937 random_ = test::FreshRandom();

 private:
  static void Append(Network& network, Layer layer) {
    layer.name = "other";
    layer.inputs = {static_cast<int>(network.layers.size()) - 1};
    network.layers.push_back(std::move(layer));
  }
};

TEST_P(CandidatesTest, AreRight) {
  const auto chooser = std::make_shared<CheckingChooser>(GetParam(), random_);
  for (const Network& network : TestedNetworks()) {
    Compile(network, Precision::kExact, chooser);
    Compile(network, Precision::kFast, chooser);
  }
  EXPECT_FALSE(chooser->kernels.empty());
}

TEST_P(CandidatesTest, AreNotAskedForWhereAKernelIsForced) {
  const auto chooser = std::make_shared<CheckingChooser>(GetParam(), random_);
  Network network = Around(MakeConv(Op::kConv, 12, 20, 3, 1, 1, random_));
  ASSERT_TRUE(InferBorder(network).ok());
  // In exact a GPU has one kernel for it.
  const Precision precision = GetParam() == "cuda" ? Precision::kFast : Precision::kExact;
  Compile(network, precision, chooser);
  ASSERT_EQ(chooser->kernels.size(), 1u);
  Compile(network, precision, std::make_shared<RefusingChooser>(), chooser->kernels[0]);
}

std::vector<std::string> DevicesWithAChoice() {
  std::vector<std::string> devices = test::TestedDevices();
  std::erase(devices, "reference");
  std::erase(devices, "cpu_in_stages");  // chooses as the cpu does
  return devices;
}

INSTANTIATE_TEST_SUITE_P(Devices, CandidatesTest, ::testing::ValuesIn(DevicesWithAChoice()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace upscaled

// The cpu backend takes the kernels of a given choice.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/backends/cpu/cpu_executable.h"
#include "engine/graph/kernel_choice.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/random_network.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::Describe;
using test::FreshRandom;
using test::RandomInt;
using test::RandomNetwork;

// Answers with one of the names at random.
class RandomChooser final : public KernelChooser {
 public:
  explicit RandomChooser(std::mt19937& random) : random_(random) {}

  std::string Choose(const KernelCandidates& candidates) override {
    const std::vector<std::string> names = candidates.names();
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
  for (const cpu::Step& step : static_cast<const cpu::CpuExecutable&>(executable).program().steps) {
    if (step.kernel_entry != nullptr) names.emplace_back(step.kernel_entry->name);
  }
  return names;
}

TEST(CpuCandidatesTest, ChoicesAreTaken) {
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

}  // namespace
}  // namespace upscaled

#include "server/proof/kernel_proofs.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class KernelProofsTest : public ::testing::Test {
 protected:
  KernelProofs Open(bool prove = true, const std::string& build = "1") {
    return KernelProofs(
        {.file = file_, .prove = prove, .build = build},
        [this](const std::string& device, const std::string& kernel) {
          asked_.push_back(device + " " + kernel);
          const bool good = kernel == "good" || (kernel == "failed" && failed_passes_);
          return good ? KernelVerdict{"proven", "", 2} : KernelVerdict{kernel, "", 0};
        },
        logger_);
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ = [] {
    std::string name = ::testing::TempDir() + "/kernel_proofs.XXXXXX";
    return std::filesystem::path(mkdtemp(name.data()));
  }();
  std::filesystem::path file_ = folder_ / "proofs.json";
  Logger logger_{LogFormat::kText, LogLevel::kError};
  bool failed_passes_ = false;
  std::vector<std::string> asked_;
};

TEST_F(KernelProofsTest, OnlyProvenKernelsServeAndAreAskedOnce) {
  const std::vector<std::string> kernels = {"wrong", "hung", "crashed", "slow", "good", "failed"};
  KernelProofs proofs = Open();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(proofs.ProvenOn("cuda:0", "a card", "p1", kernels), ElementsAre("good"));
  }
  EXPECT_EQ(asked_.size(), kernels.size());
  // Nor by another process, and on another card of the kind, except one that could not run.
  asked_.clear();
  KernelProofs again = Open();
  EXPECT_THAT(again.ProvenOn("cuda:1", "a card", "p1", kernels), ElementsAre("good"));
  EXPECT_THAT(asked_, ElementsAre("cuda:1 failed"));
}

TEST_F(KernelProofsTest, TroubleThatPassesIsForgotten) {
  EXPECT_THAT(Open().ProvenOn("cuda:0", "a card", "p1", {"failed", "wrong"}), IsEmpty());
  failed_passes_ = true;
  EXPECT_THAT(Open().ProvenOn("cuda:0", "a card", "p1", {"failed", "wrong"}),
              ElementsAre("failed"));
}

TEST_F(KernelProofsTest, TellsOfEveryKernelOfADevice) {
  KernelProofs proofs = Open();
  EXPECT_THAT(proofs.VerdictsOn("cuda:0"), IsEmpty());
  proofs.ProvenOn("cuda:0", "a card", "p1", {"wrong", "good"});
  const KernelProofs::Verdicts verdicts = proofs.VerdictsOn("cuda:0");
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_TRUE(verdicts.at("good").proven());
  EXPECT_EQ(verdicts.at("good").speed, 2);
  EXPECT_EQ(verdicts.at("wrong").verdict, "wrong");
  EXPECT_THAT(proofs.VerdictsOn("cuda:1"), IsEmpty());
  KernelProofs loaded = Open(/*prove=*/false);
  loaded.ProvenOn("cuda:0", "a card", "p1", {"wrong", "other"});
  EXPECT_EQ(loaded.VerdictsOn("cuda:0").at("wrong").verdict, "wrong");
  EXPECT_EQ(loaded.VerdictsOn("cuda:0").at("other").verdict, "unproven");
}

TEST_F(KernelProofsTest, AnotherDeviceDriverOrBuildIsAnotherMatter) {
  EXPECT_THAT(Open().ProvenOn("cuda:0", "a card (driver of CUDA 13.0)", "p1", {"good"}),
              ElementsAre("good"));
  EXPECT_THAT(Open().ProvenOn("cuda:0", "a card (driver of CUDA 13.1)", "p1", {"good"}),
              ElementsAre("good"));
  EXPECT_THAT(Open(true, "2").ProvenOn("cuda:0", "a card (driver of CUDA 13.1)", "p1", {"good"}),
              ElementsAre("good"));
  EXPECT_THAT(asked_, ElementsAre("cuda:0 good", "cuda:0 good", "cuda:0 good"));
  // The kernels are the plugin's, and the program may keep its build.
  EXPECT_THAT(Open(true, "2").ProvenOn("cuda:0", "a card (driver of CUDA 13.1)", "p2", {"good"}),
              ElementsAre("good"));
  EXPECT_EQ(asked_.size(), 4u);
}

TEST_F(KernelProofsTest, WithoutARecordOnlySeenKernelsServe) {
  EXPECT_THAT(Open(/*prove=*/false).ProvenOn("cuda:0", "a card", "p1", {"good"}), IsEmpty());
  file_.clear();
  KernelProofs without = Open();
  EXPECT_THAT(without.ProvenOn("cuda:0", "a card", "p1", {"good"}), IsEmpty());
  EXPECT_THAT(without.VerdictsOn("cuda:0").at("good").reason, HasSubstr("--tune-file"));
  EXPECT_THAT(asked_, IsEmpty());
  file_ = folder_ / "no such folder" / "proofs.json";  // cannot be written
  KernelProofs proofs = Open();
  EXPECT_THAT(proofs.ProvenOn("cuda:0", "a card", "p1", {"good"}), IsEmpty());
  EXPECT_THAT(proofs.VerdictsOn("cuda:0").at("good").reason, HasSubstr(file_.string()));
}

TEST_F(KernelProofsTest, AFileOfSomethingElseIsLeftAlone) {
  for (const char* text : {"", "[]", "{\"kernel_proofs\": 2}", "{\"tuning_table\": 2}"}) {
    std::ofstream(file_) << text;
    KernelProofs proofs = Open();
    EXPECT_THAT(proofs.ProvenOn("cuda:0", "a card", "p1", {"good"}), IsEmpty()) << text;
    EXPECT_THAT(proofs.VerdictsOn("cuda:0").at("good").reason,
                HasSubstr(file_.string() + " is no record of kernels"));
    std::string kept;
    std::getline(std::ifstream(file_), kept);
    EXPECT_EQ(kept, text);
  }
  EXPECT_THAT(asked_, IsEmpty());
}

}  // namespace
}  // namespace upscaled::server

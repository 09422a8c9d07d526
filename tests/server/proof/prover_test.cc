// The server's side of a proof, with scripts in the place of kernels.
#include "server/proof/prover.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

using ::testing::HasSubstr;

class ProverTest : public ::testing::Test {
 protected:
  KernelVerdict Run(const std::string& script, absl::Duration patience = absl::Minutes(5)) {
    const std::filesystem::path file =
        std::filesystem::path(::testing::TempDir()) /
        (std::string("prover_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::ofstream(file) << "#!/bin/sh\n" << script;
    chmod(file.c_str(), 0700);
    KernelVerdict verdict = RunProver(file, {"cuda:0", "conv3x3_ws"}, patience);
    std::filesystem::remove(file);
    return verdict;
  }
};

TEST_F(ProverTest, TellsWhatTheProcessFinds) {
  const KernelVerdict proven =
      Run("test \"$1 $2\" = 'cuda:0 conv3x3_ws' || exit 1\n"
          "echo '{\"case\": \"64-64\", \"right\": true}'\n"
          "echo 'noise'\n"
          "echo '{\"verdict\": \"proven\", \"speed\": 1.75}'\n");
  EXPECT_TRUE(proven.proven());
  EXPECT_EQ(proven.speed, 1.75);
  const KernelVerdict wrong = Run("echo '{\"verdict\": \"wrong\", \"reason\": \"64-64: 0.5\"}'\n");
  EXPECT_FALSE(wrong.proven());
  EXPECT_EQ(wrong.verdict, "wrong");
  EXPECT_EQ(wrong.reason, "64-64: 0.5");
  const KernelVerdict slow = Run("echo '{\"verdict\": \"slow\", \"speed\": 0.5}'\n");
  EXPECT_FALSE(slow.proven());
  EXPECT_EQ(slow.speed, 0.5);
}

TEST_F(ProverTest, AProcessThatPrintsNothingHangs) {
  const KernelVerdict verdict =
      Run("echo '{\"case\": \"64-64 + skip\"}'\nexec sleep 1000\n", absl::Seconds(1));
  EXPECT_EQ(verdict.verdict, "hung");
  EXPECT_THAT(verdict.reason, HasSubstr("nothing for 1s, at 64-64 + skip"));
}

TEST_F(ProverTest, AProcessThatEndsWithoutAVerdictHasCrashed) {
  const KernelVerdict killed = Run("echo '{\"case\": \"96-32\"}'\nkill -SEGV $$\n");
  EXPECT_EQ(killed.verdict, "crashed");
  EXPECT_EQ(killed.reason, "signal 11, at 96-32");
  EXPECT_EQ(Run("exit 0\n").verdict, "crashed");
  // A process with a good report and a death right after it is not believed.
  EXPECT_EQ(Run("echo '{\"verdict\": \"proven\"}'\nexit 9\n").reason, "exit code 9");
}

TEST_F(ProverTest, WithoutItsProgramNothingIsProven) {
  const KernelVerdict verdict = RunProver("/no/such/program", {});
  EXPECT_FALSE(verdict.proven());
  EXPECT_THAT(verdict.reason, HasSubstr("/no/such/program"));
}

}  // namespace
}  // namespace upscaled::server

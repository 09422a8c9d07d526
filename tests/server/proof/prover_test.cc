// The server's side of a proof, with scripts in the place of kernels.
#include "server/proof/prover.h"

#include <signal.h>
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
  KernelVerdict Run(const std::string& script, const ProofLimits& limits = {absl::Minutes(5)}) {
    const std::filesystem::path file =
        std::filesystem::path(::testing::TempDir()) /
        (std::string("prover_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::ofstream(file) << "#!/bin/sh\n" << script;
    chmod(file.c_str(), 0700);
    KernelVerdict verdict = RunProver(file, {"cuda:0", "conv3x3_ws"}, limits);
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

// The begin of a case, and the end of the shipped kernels' run of it.
std::string Case(const std::string& name) { return "echo '{\"case\": \"" + name + "\"}'\n"; }
std::string Plain(const std::string& name) {
  return "echo '{\"case\": \"" + name + "\", \"plain\": true}'\n";
}

TEST_F(ProverTest, AProcessThatPrintsNothingHangs) {
  const KernelVerdict verdict =
      Run(Case("64-64 + skip") + Plain("64-64 + skip") + "exec sleep 1000\n", {absl::Seconds(1)});
  EXPECT_EQ(verdict.verdict, "hung");
  EXPECT_EQ(verdict.reason, "nothing for 1s, at 64-64 + skip");
}

TEST_F(ProverTest, AProcessThatEndsWithoutAVerdictHasCrashed) {
  const KernelVerdict killed = Run(Case("96-32") + Plain("96-32") + "kill -SEGV $$\n");
  EXPECT_EQ(killed.verdict, "crashed");
  EXPECT_EQ(killed.reason, "signal 11, at 96-32");
  EXPECT_EQ(Run(Plain("96-32") + "exit 0\n").verdict, "crashed");
  // A process with a good report and a death right after it is not believed.
  EXPECT_THAT(Run("echo '{\"verdict\": \"proven\"}'\nexit 9\n").reason, HasSubstr("exit code 9"));
}

// A cold driver or a shipped kernel is to blame.
TEST_F(ProverTest, TroubleBeforeTheKernelRunsIsNoneOfIts) {
  const std::string before = Case("64-64") + Plain("64-64") + Case("96-32");
  const KernelVerdict killed = Run(before + "kill -SEGV $$\n");
  EXPECT_EQ(killed.verdict, "failed");
  EXPECT_EQ(killed.reason, "signal 11, at 96-32, not while the kernel ran");
  EXPECT_EQ(Run("exit 0\n").verdict, "failed");
  const KernelVerdict hung = Run(before + "exec sleep 1000\n", {absl::Seconds(1)});
  EXPECT_EQ(hung.verdict, "failed");
  EXPECT_EQ(hung.reason, "nothing for 1s, at 96-32, not while the kernel ran");
}

TEST_F(ProverTest, EndlessOutputEnds) {
  const KernelVerdict lines = Run(Plain("96-32") + "while :; do echo noise; done\n",
                                  {.silence = absl::Minutes(5), .total = absl::Seconds(1)});
  EXPECT_EQ(lines.verdict, "failed");
  EXPECT_EQ(lines.reason, "not done after 1s, at 96-32");
  // A line of 1 MB is dropped, and those behind it count.
  const KernelVerdict behind =
      Run("head -c 1000000 /dev/zero | tr '\\0' '{'; echo\n"
          "echo '{\"verdict\": \"proven\"}'\n");
  EXPECT_TRUE(behind.proven()) << behind.reason;
}

TEST_F(ProverTest, NoProcessOutlivesTheCall) {
  const std::string pid_file = ::testing::TempDir() + "/prover_pid";
  const KernelVerdict verdict = Run("echo $$ > " + pid_file + "\nexec sleep 1000 >&-\n");
  EXPECT_FALSE(verdict.proven());
  EXPECT_THAT(verdict.reason, HasSubstr("it does not end"));
  pid_t pid = 0;
  std::ifstream(pid_file) >> pid;
  ASSERT_GT(pid, 0);
  EXPECT_EQ(kill(pid, 0), -1) << "it lives";
  std::filesystem::remove(pid_file);
}

TEST_F(ProverTest, WithoutItsProgramNothingIsProven) {
  const KernelVerdict verdict = RunProver("/no/such/program", {});
  EXPECT_FALSE(verdict.proven());
  EXPECT_THAT(verdict.reason, HasSubstr("/no/such/program"));
}

}  // namespace
}  // namespace upscaled::server

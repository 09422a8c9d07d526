#include "server/telemetry/line_limit.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/support/fake_clock.h"

namespace upscaled::server {
namespace {

constexpr LineRate kRate = {.burst = 3, .per_second = 2};

class LineLimitTest : public ::testing::Test {
 protected:
  int Admitted(const std::string& kind, int lines) {
    int admitted = 0;
    for (int i = 0; i < lines; ++i) admitted += limit_.Admit(kind, kRate) ? 1 : 0;
    return admitted;
  }
  FakeClock clock_;
  LineLimit limit_{clock_};
};

TEST_F(LineLimitTest, ABurstAndThenSoManyASecond) {
  EXPECT_EQ(Admitted("a", 10), 3);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Admitted("a", 10), 2);
  clock_.Advance(absl::Hours(1));
  EXPECT_EQ(Admitted("a", 10), 3);
  EXPECT_EQ(limit_.total(), 7 + 8 + 7);
}

TEST_F(LineLimitTest, KindsDoNotCountAgainstEachOther) {
  EXPECT_EQ(Admitted("a", 10), 3);
  EXPECT_EQ(Admitted("b", 2), 2);
}

TEST_F(LineLimitTest, SaysOnceWhatIsMissing) {
  Admitted("a", 10);
  Admitted("b", 2);
  Admitted("c", 4);
  const auto omissions = limit_.TakeOmissions();
  ASSERT_EQ(omissions.size(), 2u);
  EXPECT_EQ(omissions[0].kind, "a");
  EXPECT_EQ(omissions[0].lines, 7);
  EXPECT_EQ(omissions[1].kind, "c");
  EXPECT_EQ(omissions[1].lines, 1);
  EXPECT_TRUE(limit_.TakeOmissions().empty());
}

TEST_F(LineLimitTest, ManyKindsShareABucket) {
  for (size_t i = 0; i < LineLimit::kMaxKinds; ++i) EXPECT_EQ(Admitted(std::to_string(i), 1), 1);
  int admitted = 0;
  for (int i = 0; i < 1000; ++i) admitted += Admitted("more" + std::to_string(i), 1);
  EXPECT_EQ(admitted, 3);
  EXPECT_EQ(limit_.TakeOmissions().size(), 1u);
}

}  // namespace
}  // namespace upscaled::server

#include "server/lifecycle/build_id.h"

#include <gmock/gmock.h>

#include "absl/strings/escaping.h"
#include "engine/base/files.h"

namespace upscaled::server {
namespace {

TEST(BuildId, IsInTheProgram) {
  const std::string build_id = BuildId();
  ASSERT_EQ(build_id.size() % 2, 0);
  ASSERT_GE(build_id.size(), 16);
  const auto program = ReadFile("/proc/self/exe", size_t{1} << 30);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_NE(program->find(absl::HexStringToBytes(build_id)), std::string::npos);
}

}  // namespace
}  // namespace upscaled::server

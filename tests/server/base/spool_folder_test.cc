#include "server/base/spool_folder.h"

#include <string>

#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

TEST(SpoolFolderTest, IsTheUsersChoiceOrCanBeWritten) {
  const char* const before = getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", "/chosen", 1);
  EXPECT_EQ(SpoolFolder(), "/chosen");
  unsetenv("TMPDIR");
  EXPECT_EQ(access(SpoolFolder().c_str(), W_OK), 0) << SpoolFolder();
  if (before != nullptr) setenv("TMPDIR", kept.c_str(), 1);
}

}  // namespace
}  // namespace upscaled::server

#include "engine/base/unnamed_file.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace upscaled {
namespace {

TEST(UnnamedFileTest, HoldsBytesAndIsInNoFolder) {
  std::string folder = testing::TempDir() + "/unnamed-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const absl::StatusOr<UniqueFd> file = OpenUnnamedFile(folder);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(pwrite(file->get(), "bytes", 5, 0), 5);
  char back[5] = {};
  EXPECT_EQ(pread(file->get(), back, sizeof back, 0), 5);
  EXPECT_EQ(std::string(back, 5), "bytes");
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
}

TEST(UnnamedFileTest, SaysWhyThereIsNone) {
  const absl::Status status = OpenUnnamedFile("/nowhere/at/all").status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_EQ(status.message(), "No such file or directory");
}

}  // namespace
}  // namespace upscaled

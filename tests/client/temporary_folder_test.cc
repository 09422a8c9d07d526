#include "client/temporary_folder.h"

#include <fstream>
#include <utility>

#include <gmock/gmock.h>

#include "tests/client/environment_variable.h"

namespace upscaled::client {
namespace {

namespace fs = std::filesystem;

TEST(TemporaryFolderTest, IsItsUsersAndGoesWithItsContents) {
  fs::path path;
  {
    const auto folder = TemporaryFolder::Make("upscale-test-");
    ASSERT_TRUE(folder.ok()) << folder.status();
    path = folder->path();
    EXPECT_EQ(path.parent_path(), fs::temp_directory_path());
    EXPECT_EQ(path.filename().string().find("upscale-test-"), 0u);
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    fs::create_directory(path / "inner");
    std::ofstream(path / "inner" / "file") << "text";
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(TemporaryFolderTest, LastsUntilTheObjectThatItWasMovedToGoes) {
  auto first = TemporaryFolder::Make("upscale-test-");
  ASSERT_TRUE(first.ok()) << first.status();
  const fs::path path = first->path();
  {
    const TemporaryFolder second = *std::move(first);
    first = absl::UnknownError("gone");
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(TemporaryFolderTest, EachHasANameOfItsOwn) {
  const auto first = TemporaryFolder::Make("upscale-test-");
  const auto second = TemporaryFolder::Make("upscale-test-");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->path(), second->path());
}

TEST(TemporaryFolderTest, AFolderThatCannotBeMadeIsNamed) {
  const EnvironmentVariable there("TMPDIR", "/proc");
  const auto folder = TemporaryFolder::Make("upscale-test-");
  ASSERT_FALSE(folder.ok());
  EXPECT_THAT(folder.status().message(), testing::HasSubstr("/proc/upscale-test-"));
}

}  // namespace
}  // namespace upscaled::client

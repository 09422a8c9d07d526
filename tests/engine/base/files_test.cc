#include "engine/base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace upscaled {
namespace {

using ::testing::HasSubstr;

class FilesTest : public ::testing::Test {
 protected:
  FilesTest() { std::filesystem::create_directory(folder_); }
  ~FilesTest() override { std::filesystem::remove_all(folder_); }

  size_t Entries() const { return ListFolder(folder_)->size(); }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / absl::StrCat("files_test.", getpid());
  const std::filesystem::path file_ = folder_ / "file";
};

TEST_F(FilesTest, ReadsBackThePartsWritten) {
  ASSERT_TRUE(ReplaceFile(file_, {"one ", "", std::string_view("\0two", 4)}).ok());
  EXPECT_EQ(*ReadFile(file_, 8), std::string("one \0two", 8));
  ASSERT_TRUE(ReplaceFile(file_, {}, {.sync = true}).ok());
  EXPECT_EQ(*ReadFile(file_, 0), "");
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(FilesTest, RefusesToReadMoreThanTheLimit) {
  ASSERT_TRUE(ReplaceFile(file_, {"12345"}).ok());
  EXPECT_EQ(ReadFile(file_, 4).status(), absl::ResourceExhaustedError(absl::StrCat(
                                             file_.string(), ": has 5 bytes, the limit is 4")));
}

TEST_F(FilesTest, ReadsPipesToTheirEndOrTheLimit) {
  for (const size_t limit : {3, 4, 10}) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    ASSERT_EQ(write(ends[1], "1234", 4), 4);
    close(ends[1]);
    const auto read = ReadFile(absl::StrCat("/dev/fd/", ends[0]), limit, {.pipes = true});
    close(ends[0]);
    if (limit < 4) {
      EXPECT_EQ(read.status().code(), absl::StatusCode::kResourceExhausted);
    } else {
      EXPECT_EQ(*read, "1234");
    }
  }
}

TEST_F(FilesTest, RefusesPipesUnlessAskedForThemWithoutWaiting) {
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_EQ(ReadFile(file_, 4).status(),
            absl::NotFoundError(absl::StrCat(file_.string(), ": is not a regular file")));
  EXPECT_EQ(ReadFile("/dev/null", 4).status().code(), absl::StatusCode::kNotFound);
  std::thread writer([this] { std::ofstream(file_) << "1234"; });
  EXPECT_EQ(*ReadFile(file_, 4, {.pipes = true}), "1234");
  writer.join();
}

TEST_F(FilesTest, NamesTheFileThatIsNotThere) {
  const absl::Status status = ReadFile(file_, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(file_.string()));
  EXPECT_EQ(ReadFile(folder_, 1).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadFile(folder_, 1, {.pipes = true}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(FilesTest, GivesThePermissionsAsked) {
  for (const mode_t mode : {0600, 0644}) {
    ASSERT_TRUE(ReplaceFile(file_, {"x"}, {.mode = mode}).ok());
    struct stat info {};
    ASSERT_EQ(stat(file_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, mode);
  }
}

TEST_F(FilesTest, StateTellsOfAChangeThatHidesItsTime) {
  std::ofstream(file_) << "one";
  const auto time = std::filesystem::last_write_time(file_);
  const std::string state = *FileState(file_);
  EXPECT_EQ(*FileState(file_), state);
  std::ofstream(file_) << "two";
  std::filesystem::last_write_time(file_, time);
  EXPECT_NE(*FileState(file_), state);
}

TEST_F(FilesTest, LeavesNothingBesideWhatCannotBeReplaced) {
  std::filesystem::create_directories(file_ / "not empty");
  const absl::Status status = ReplaceFile(file_, {"x"});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("cannot replace ", file_.string())));
  EXPECT_EQ(Entries(), 1u);
  EXPECT_EQ(ReplaceFile(folder_ / "none" / "file", {"x"}).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace upscaled

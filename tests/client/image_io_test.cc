#include "client/image_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/temp_folder.h"

namespace upscaled::client {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string ReadAll(ImageSource& source, size_t piece = 7) {
  std::string all, buffer(piece, '\0');
  for (;;) {
    const absl::StatusOr<size_t> count = source.Read(buffer, {});
    EXPECT_TRUE(count.ok()) << count.status();
    if (!count.ok() || *count == 0) return all;
    all.append(buffer, 0, *count);
  }
}

struct Pipe {
  Pipe() {
    std::array<int, 2> ends;
    EXPECT_EQ(pipe(ends.data()), 0);
    out = UniqueFd(ends[0]);
    in = UniqueFd(ends[1]);
  }
  void Write(const std::string& text) {
    EXPECT_EQ(write(in.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void CloseInput() { in = UniqueFd(); }
  UniqueFd in, out;
};

TEST(MemorySourceTest, ReadsAndRewinds) {
  MemorySource source("0123456789abc");
  EXPECT_EQ(source.total_bytes(), 13);
  EXPECT_EQ(ReadAll(source), "0123456789abc");
  ASSERT_TRUE(source.Rewind().ok());
  EXPECT_EQ(ReadAll(source, 100), "0123456789abc");
}

TEST(OpenSourceTest, ReadsAndRewindsAFile) {
  TempFolder folder;
  const std::string bytes = RandomBytes(10'007, 1);
  WriteText(folder / "a.png", bytes);
  const auto source = OpenSource(folder / "a.png");
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->total_bytes(), 10'007);
  EXPECT_EQ(ReadAll(**source, 999), bytes);
  ASSERT_TRUE((*source)->Rewind().ok());
  EXPECT_EQ(ReadAll(**source, 999), bytes);
}

TEST(OpenSourceTest, ErrorsNameTheFile) {
  TempFolder folder;
  const absl::Status missing = OpenSource(folder / "none.png").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("none.png"));
  EXPECT_EQ(OpenSource(folder.path()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(OpenSourceTest, ReadsANamedPipeAndReplaysIt) {
  TempFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const auto source = OpenSource(path);  // Nobody writes yet.
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->total_bytes(), 0);
  const std::string bytes = RandomBytes(200'003, 5);  // More than a pipe holds.
  std::jthread writer([&] { WriteText(path, bytes); });
  EXPECT_EQ(ReadAll(**source, 4096), bytes);
  ASSERT_TRUE((*source)->Rewind().ok());
  EXPECT_EQ(ReadAll(**source, 999), bytes);
}

TEST(OpenSourceTest, StopEndsTheWaitForANamedPipe) {
  TempFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const auto source = OpenSource(path);
  ASSERT_TRUE(source.ok()) << source.status();
  std::stop_source stop;
  stop.request_stop();
  std::string buffer(10, '\0');
  EXPECT_EQ((*source)->Read(buffer, stop.get_token()).status().code(),
            absl::StatusCode::kCancelled);
}

TEST(PipeSourceTest, ReplaysWhatItRemembers) {
  Pipe pipe;
  pipe.Write("first ");
  PipeSource source(pipe.out.get());
  std::string start(6, '\0');
  ASSERT_EQ(source.Read(start, {}).value(), 6u);
  ASSERT_TRUE(source.Rewind().ok());
  pipe.Write("second");
  pipe.CloseInput();
  EXPECT_EQ(ReadAll(source), "first second");
  ASSERT_TRUE(source.Rewind().ok());
  EXPECT_EQ(ReadAll(source), "first second");
}

TEST(PipeSourceTest, ForgetsBeyondItsBound) {
  Pipe pipe;
  pipe.Write("0123456789");
  pipe.CloseInput();
  PipeSource source(pipe.out.get(), /*max_replay_bytes=*/9);
  EXPECT_EQ(ReadAll(source, 5), "0123456789");
  const absl::Status status = source.Rewind();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("more than 9 bytes"));
}

TEST(PipeSourceTest, StopEndsAWait) {
  Pipe pipe;
  PipeSource source(pipe.out.get());
  absl::Status status;
  std::string buffer(10, '\0');
  {
    std::jthread reader([&](std::stop_token stop) { status = source.Read(buffer, stop).status(); });
  }  // Asks to stop, and hangs when it does not.
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

TEST(PipeSinkTest, StartsAnewOnlyBeforeTheFirstByte) {
  Pipe pipe;
  PipeSink sink(pipe.in.get());
  EXPECT_TRUE(sink.Restart().ok());
  EXPECT_TRUE(sink.Write("x").ok());
  EXPECT_EQ(sink.Restart().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(FileSinkTest, AppearsOnCommit) {
  TempFolder folder;
  WriteText(folder / "a.png", "old");
  absl::StatusOr<FileSink> sink = FileSink::Create(folder / "a.png");
  ASSERT_TRUE(sink.ok());
  ASSERT_TRUE(sink->Write("new ").ok());
  ASSERT_TRUE(sink->Write("text").ok());
  EXPECT_EQ(ReadText(folder / "a.png"), "old");
  EXPECT_THAT(folder.Files(), SizeIs(2));
  ASSERT_TRUE(sink->Commit().ok());
  EXPECT_EQ(ReadText(folder / "a.png"), "new text");
  EXPECT_THAT(folder.Files(), ElementsAre("a.png"));
}

TEST(FileSinkTest, KeepsPermissions) {
  TempFolder folder;
  const auto rights = [&](const char* name) { return fs::status(folder / name).permissions(); };
  WriteText(folder / "a.png", "old");
  WriteText(folder / "b.png", "old");
  fs::permissions(folder / "a.png", fs::perms(0600));
  fs::permissions(folder / "b.png", fs::perms(0640));
  absl::StatusOr<FileSink> a = FileSink::Create(folder / "a.png");
  ASSERT_TRUE(a.ok()) << a.status();
  for (const auto& entry : fs::directory_iterator(folder / "."))
    EXPECT_EQ(entry.status().permissions() & fs::perms(0007), fs::perms()) << entry.path();
  ASSERT_TRUE(a->Commit().ok());
  EXPECT_EQ(rights("a.png"), fs::perms(0600));
  absl::StatusOr<FileSink> renamed = FileSink::Create(folder / "a.png");
  ASSERT_TRUE(renamed.ok()) << renamed.status();
  renamed->Rename("b.png");
  ASSERT_TRUE(renamed->Commit().ok());
  EXPECT_EQ(rights("b.png"), fs::perms(0640));
}

TEST(FileSinkTest, FollowsLinks) {
  TempFolder folder;
  WriteText(folder / "a.png", "old");
  fs::create_symlink("a.png", folder / "link.png");
  fs::create_symlink("none.png", folder / "first.png");
  fs::create_symlink("first.png", folder / "second.png");
  fs::create_symlink("self.png", folder / "self.png");
  for (const auto& [link, file] : {std::pair{"link.png", "a.png"}, {"second.png", "none.png"}}) {
    absl::StatusOr<FileSink> sink = FileSink::Create(folder / link);
    ASSERT_TRUE(sink.ok()) << sink.status();
    ASSERT_TRUE(sink->Write("new").ok());
    ASSERT_TRUE(sink->Commit().ok());
    EXPECT_TRUE(fs::is_symlink(folder / link)) << link;
    EXPECT_FALSE(fs::is_symlink(folder / file)) << file;
    EXPECT_EQ(ReadText(folder / file), "new");
  }
  EXPECT_FALSE(FileSink::Create(folder / "self.png").ok());
}

TEST(FileSinkTest, VanishesWithoutCommit) {
  TempFolder folder;
  {
    absl::StatusOr<FileSink> sink = FileSink::Create(folder / "a.png");
    ASSERT_TRUE(sink.ok());
    ASSERT_TRUE(sink->Write("half").ok());
    FileSink moved = *std::move(sink);
    EXPECT_THAT(folder.Files(), SizeIs(1));
  }
  EXPECT_THAT(folder.Files(), SizeIs(0));
}

TEST(FileSinkTest, StartsAnewEmpty) {
  TempFolder folder;
  absl::StatusOr<FileSink> sink = FileSink::Create(folder / "a.png");
  ASSERT_TRUE(sink.ok());
  ASSERT_TRUE(sink->Write("a long first try").ok());
  ASSERT_TRUE(sink->Restart().ok());
  ASSERT_TRUE(sink->Write("second").ok());
  ASSERT_TRUE(sink->Commit().ok());
  EXPECT_EQ(ReadText(folder / "a.png"), "second");
}

TEST(FileSinkTest, TwoOfOneFolderDoNotMeet) {
  TempFolder folder;
  absl::StatusOr<FileSink> a = FileSink::Create(folder / "a.png");
  absl::StatusOr<FileSink> b = FileSink::Create(folder / "b.png");
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_TRUE(a->Write("a").ok() && b->Write("b").ok());
  ASSERT_TRUE(a->Commit().ok() && b->Commit().ok());
  EXPECT_EQ(ReadText(folder / "a.png"), "a");
  EXPECT_EQ(ReadText(folder / "b.png"), "b");
}

TEST(FileSinkTest, HasThePermissionsOfAnyNewFile) {
  TempFolder folder;
  const mode_t mask = umask(0027);
  absl::StatusOr<FileSink> sink = FileSink::Create(folder / "a.png");
  umask(mask);
  ASSERT_TRUE(sink.ok() && sink->Commit().ok());
  struct stat info {};
  ASSERT_EQ(stat((folder / "a.png").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST(FileSinkTest, AFullDiskIsAnError) {
  // /dev/full takes no byte; a sink over it stands for a disk without room.
  UniqueFd full(open("/dev/full", O_WRONLY));
  ASSERT_TRUE(full.valid());
  PipeSink sink(full.get());
  const absl::Status status = sink.Write("x");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("No space left"));
}

TEST(FileSinkTest, AMissingFolderIsAnError) {
  TempFolder folder;
  const absl::Status status = FileSink::Create(folder / "none" / "a.png").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("none/a.png"));
}

}  // namespace
}  // namespace upscaled::client

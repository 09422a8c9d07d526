#include "server/results/result_store.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/files.h"
#include "engine/image/memory_io.h"

namespace upscaled::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string NameOf(int number) { return ToHex(DigestOf(AsBytes(absl::StrCat(number)))); }

std::string BytesOf(int number, size_t bytes = 1000) {
  std::string text;
  while (text.size() < bytes) absl::StrAppend(&text, number, ",");
  return text.substr(0, bytes);
}

class ResultStoreTest : public ::testing::Test {
 protected:
  ResultStoreTest() { Open(); }
  ~ResultStoreTest() override {
    store_.reset();
    fs::remove_all(folder_);
  }

  // Again: as another process would.
  void Open(int64_t max_bytes = 100'000) {
    store_.reset();
    auto store =
        ResultStore::Open({.directory = folder_, .max_bytes = max_bytes, .warn = [this](auto& m) {
                             warnings_.push_back(m);
                           }});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  bool Store(int number, size_t bytes = 1000, const std::string& tenant = "") {
    auto writer = store_->Create();
    const bool written = writer != nullptr && writer->Append(AsBytes(BytesOf(number, bytes)));
    if (written) {
      writer->Commit({.name = NameOf(number),
                      .tenant = tenant,
                      .media_type = "image/png",
                      .header = absl::StrCat("header ", number),
                      .source = DigestOf(AsBytes("source")),
                      .source_header = "source header"});
    }
    return written;
  }

  std::string Read(int number) {
    const auto found = store_->Find(NameOf(number), "");
    if (!found.has_value()) return "";
    std::string bytes(static_cast<size_t>(found->result.bytes) + 1, '\0');
    const auto count =
        found->file.ReadAt(0, {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
    return count.ok() ? bytes.substr(0, *count) : "";
  }

  fs::path PathOf(int number) const { return folder_ / "results" / NameOf(number); }
  std::vector<fs::path> FilesIn(const std::string& folder) const {
    return *ListFolder(folder_ / folder);
  }
  int Files(const std::string& folder) const { return static_cast<int>(FilesIn(folder).size()); }

  const fs::path folder_ = fs::path(::testing::TempDir()) / absl::StrCat("results.", getpid());
  std::vector<std::string> warnings_;
  std::unique_ptr<ResultStore> store_;
};

TEST_F(ResultStoreTest, TenantsHaveTheirOwn) {
  const auto writer = store_->Create();
  ASSERT_TRUE(writer->Append(AsBytes("image")));
  writer->Commit({.name = NameOf(1), .tenant = "shop", .media_type = "image/png", .source = {}});
  EXPECT_TRUE(store_->Find(NameOf(1), "shop").has_value());
  EXPECT_TRUE(store_->FindSource({}, "shop").has_value());
  for (const char* other : {"", "else", "sho", "Shop"}) {
    EXPECT_FALSE(store_->Find(NameOf(1), other).has_value()) << other;
    EXPECT_FALSE(store_->FindSource({}, other).has_value()) << other;
  }
}

TEST_F(ResultStoreTest, FindsWhatWasStored) {
  EXPECT_EQ(Read(1), "");
  ASSERT_TRUE(Store(1));
  EXPECT_EQ(Read(1), BytesOf(1));
  const auto found = store_->Find(NameOf(1), "");
  EXPECT_EQ(found->result.media_type, "image/png");
  EXPECT_EQ(found->result.header, "header 1");
  EXPECT_EQ(store_->FindSource(DigestOf(AsBytes("source")), ""), "source header");
  EXPECT_EQ(store_->FindSource(DigestOf(AsBytes("other")), ""), std::nullopt);
  EXPECT_EQ(store_->counts().results, 1);
  EXPECT_EQ(store_->counts().bytes, 1000);
}

TEST_F(ResultStoreTest, OutlivesTheProcess) {
  ASSERT_TRUE(Store(1));
  Open();
  EXPECT_EQ(Read(1), BytesOf(1));
  EXPECT_EQ(store_->counts().bytes, 1000);
}

TEST_F(ResultStoreTest, TheSameTwiceIsThereOnce) {
  ASSERT_TRUE(Store(1) && Store(1));
  EXPECT_EQ(store_->counts().results, 1);
  EXPECT_EQ(store_->counts().bytes, 1000);
  EXPECT_EQ(Read(1), BytesOf(1));
}

TEST_F(ResultStoreTest, WhatIsNotCommittedIsNotThere) {
  {
    auto writer = store_->Create();
    ASSERT_TRUE(writer->Append(AsBytes(BytesOf(1))));
    EXPECT_EQ(*writer->read_back()(2, 5), BytesOf(1).substr(2, 5));
    EXPECT_FALSE(writer->read_back()(0, 1001).ok());
  }
  EXPECT_EQ(Files("partial"), 0);
  EXPECT_EQ(Files("results"), 0);
}

TEST_F(ResultStoreTest, ThrowsOutTheLeastRecentlyUsed) {
  Open(5000);  // 3750 for whole ones
  ASSERT_TRUE(Store(1) && Store(2) && Store(3));
  EXPECT_EQ(Read(1), BytesOf(1));
  ASSERT_TRUE(Store(4));
  EXPECT_EQ(Read(2), "");
  EXPECT_FALSE(fs::exists(PathOf(2)));
  for (const int number : {1, 3, 4}) EXPECT_EQ(Read(number), BytesOf(number));
  EXPECT_EQ(store_->counts().evictions, 1);
  EXPECT_EQ(store_->counts().bytes, 3000);
  Open(2000);  // less room than before
  EXPECT_EQ(store_->counts().results, 1);
  EXPECT_EQ(Read(4), BytesOf(4));
}

// However much the others store, and whenever it was used.
TEST_F(ResultStoreTest, ATenantThatStoresMuchThrowsOutItsOwn) {
  for (const bool opened : {false, true}) {
    ASSERT_TRUE(Store(1, 20'000, "modest"));
    for (int number = 2; number < 60; ++number) ASSERT_TRUE(Store(number, 5'000, "flood"));
    if (opened) Open();
    EXPECT_TRUE(store_->Find(NameOf(1), "modest").has_value());
    EXPECT_FALSE(store_->Find(NameOf(2), "flood").has_value());
    EXPECT_TRUE(store_->Find(NameOf(59), "flood").has_value());
    EXPECT_GT(store_->counts().bytes, 60'000) << "what the modest one leaves is the others'";
  }
  for (int number = 60; number < 90; ++number) ASSERT_TRUE(Store(number, 5'000, "modest"));
  EXPECT_FALSE(store_->Find(NameOf(1), "modest").has_value()) << "beyond its half";
}

// One result is thrown out at a time: the largest tenant is looked for again behind each.
TEST_F(ResultStoreTest, ATenantIsTheLargestUntilAnotherIs) {
  Open(133'000);  // 99,750 for whole ones
  for (int number = 1; number <= 10; ++number) {
    ASSERT_TRUE(Store(number, 4'000, "first") && Store(100 + number, 5'000, "second"));
  }
  Open(80'000);  // 60,000
  int64_t first = 0, second = 0;
  for (int number = 1; number <= 10; ++number) {
    first += store_->Find(NameOf(number), "first").has_value() ? 4'000 : 0;
    second += store_->Find(NameOf(100 + number), "second").has_value() ? 5'000 : 0;
  }
  EXPECT_LE(std::abs(first - second), 5'000) << first << " and " << second;
  EXPECT_GT(first + second, 55'000);
}

TEST_F(ResultStoreTest, WhoReadsReadsOnWhenItIsThrownOut) {
  Open(4000);
  ASSERT_TRUE(Store(1));
  const auto found = store_->Find(NameOf(1), "");
  ASSERT_TRUE(Store(2) && Store(3) && Store(4));
  EXPECT_EQ(*found->file.ReadDigest(), DigestOf(AsBytes(BytesOf(1))));
  EXPECT_EQ(Read(1), "");
}

TEST_F(ResultStoreTest, WhatDoesNotFitIsNotStoredAndCostsNoOther) {
  Open(4000);
  ASSERT_TRUE(Store(1) && Store(2) && Store(3));
  for (const size_t bytes : {1001, 3001, 4001, 100'000}) EXPECT_FALSE(Store(4, bytes));
  EXPECT_EQ(Files("partial"), 0);
  EXPECT_EQ(store_->counts().results, 3);
  EXPECT_EQ(store_->counts().evictions, 0);
  EXPECT_TRUE(Store(4, 1000));
  EXPECT_EQ(store_->counts().evictions, 1);
}

TEST_F(ResultStoreTest, WhatIsBeingWrittenSharesItsSpace) {
  Open(4000);
  const std::string half = BytesOf(1, 501);
  auto first = store_->Create();
  ASSERT_TRUE(first->Append(AsBytes(half)));
  EXPECT_FALSE(store_->Create()->Append(AsBytes(half)));
  first.reset();
  EXPECT_TRUE(store_->Create()->Append(AsBytes(half)));
}

TEST_F(ResultStoreTest, ADamagedFileIsNotServed) {
  ASSERT_TRUE(Store(1) && Store(2));
  Open();
  std::fstream(PathOf(1), std::ios::in | std::ios::out | std::ios::binary).seekp(500).put('#');
  EXPECT_EQ(Read(1), "");
  EXPECT_FALSE(fs::exists(PathOf(1)));
  EXPECT_EQ(Read(2), BytesOf(2));
  EXPECT_EQ(store_->counts().errors, 1);
  ASSERT_EQ(warnings_.size(), 1);
  EXPECT_THAT(warnings_[0], HasSubstr("damaged"));
}

TEST_F(ResultStoreTest, AShortFileIsNotServed) {
  ASSERT_TRUE(Store(1) && Store(2));
  fs::resize_file(PathOf(1), 999);  // while the store is open
  EXPECT_EQ(Read(1), "");
  Open();
  fs::resize_file(PathOf(2), 10);
  Open();
  EXPECT_EQ(Read(2), "");
  EXPECT_EQ(store_->counts().results, 0);
}

TEST_F(ResultStoreTest, AMissingFileIsAMiss) {
  ASSERT_TRUE(Store(1));
  fs::remove(PathOf(1));
  EXPECT_EQ(Read(1), "");
  ASSERT_TRUE(Store(1));
  EXPECT_EQ(Read(1), BytesOf(1));
}

TEST_F(ResultStoreTest, AnErrorThatPassesRemovesNothing) {
  ASSERT_TRUE(Store(1));
  EXPECT_EQ(Read(1), BytesOf(1));
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(Read(1), "");
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(Read(1), BytesOf(1));
  EXPECT_EQ(store_->counts().errors, 1);
}

TEST_F(ResultStoreTest, TheStartRemovesWhatTheIndexLacks) {
  ASSERT_TRUE(Store(1));
  store_.reset();
  ASSERT_TRUE(ReplaceFile(folder_ / "partial" / "abcdef", {"half a result"}).ok());
  ASSERT_TRUE(ReplaceFile(PathOf(2), {"without a row"}).ok());
  Open();
  EXPECT_EQ(Files("partial"), 0);
  EXPECT_EQ(Files("results"), 1);
  EXPECT_EQ(Read(1), BytesOf(1));
}

TEST_F(ResultStoreTest, ADamagedIndexBeginsAnew) {
  ASSERT_TRUE(Store(1));
  store_.reset();
  fs::remove(folder_ / "index.sqlite-wal");
  ASSERT_TRUE(ReplaceFile(folder_ / "index.sqlite", {std::string(8192, 'x')}).ok());
  Open();
  EXPECT_EQ(Read(1), "");
  EXPECT_EQ(Files("results"), 0);
  EXPECT_TRUE(Store(1));
}

TEST_F(ResultStoreTest, FilesOfOthersStay) {
  const fs::path other = fs::path(::testing::TempDir()) / absl::StrCat("others.", getpid());
  for (const char* folder : {"results", "partial"}) {
    fs::create_directories(other / folder);
    ASSERT_TRUE(ReplaceFile(other / folder / "thesis", {"years of work"}).ok());
    const auto status = ResultStore::Open({.directory = other, .max_bytes = 1000}).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(other / folder));
    EXPECT_TRUE(fs::exists(other / folder / "thesis"));
    fs::remove_all(other / folder);
  }
  fs::remove_all(other);
}

TEST_F(ResultStoreTest, NobodyElseReadsIt) {
  ASSERT_TRUE(Store(1));
  for (const fs::path& path : {folder_ / "index.sqlite", folder_ / "index.sqlite-wal",
                               folder_ / "results", folder_ / "partial", PathOf(1)}) {
    EXPECT_EQ(fs::status(path).permissions() & (fs::perms::group_all | fs::perms::others_all),
              fs::perms::none)
        << path;
  }
}

TEST_F(ResultStoreTest, OneProcessAtATime) {
  const auto second = ResultStore::Open({.directory = folder_, .max_bytes = 1000});
  EXPECT_TRUE(absl::IsFailedPrecondition(second.status())) << second.status();
}

TEST_F(ResultStoreTest, ADirectoryThatCannotBeIsUnavailable) {
  const auto status = ResultStore::Open({.directory = "/proc/no/such", .max_bytes = 1000}).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/proc/no/such"));
}

TEST_F(ResultStoreTest, AFullDiskStoresNothing) {
  Open(400'000);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 64 << 10;  // writes beyond it fail
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_FALSE(Store(1, 80'000));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(Files("partial"), 0);
  EXPECT_EQ(store_->counts().errors, 1);
  EXPECT_TRUE(Store(1, 80'000));
}

TEST_F(ResultStoreTest, NamesAreNoPaths) {
  for (const char* name : {"", ".", "../index.sqlite", "/etc/passwd", "ABC"}) {
    EXPECT_FALSE(store_->Find(name, "").has_value()) << name;
  }
}

TEST_F(ResultStoreTest, ManyThreadsAtOnce) {
  Open(20'000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 50; ++i) {
        Store((i + t) % 30);
        const std::string read = Read(i % 30);
        EXPECT_TRUE(read.empty() || read == BytesOf(i % 30));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(store_->counts().bytes, 20'000);
  EXPECT_EQ(store_->counts().results, Files("results"));
  EXPECT_EQ(store_->counts().errors, 0) << warnings_.front();
}

// A process with endless results, until it is killed.
class Filler {
 public:
  Filler(const fs::path& folder, int seed) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execl(RESULT_STORE_FILLER, RESULT_STORE_FILLER, folder.c_str(), std::to_string(seed).c_str(),
            nullptr);
      _exit(127);
    }
    close(ends[1]);
    char ready[6];
    EXPECT_EQ(read(ends[0], ready, sizeof ready), 6);
    close(ends[0]);
  }
  ~Filler() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

TEST_F(ResultStoreTest, KilledProcessesLeaveWholeFilesAlone) {
  store_.reset();
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 12; ++round) {
    {
      const Filler filler(folder_, round);
      absl::SleepFor(absl::Milliseconds(std::uniform_int_distribution(1, 150)(random)));
    }
    // Every named file is whole, known to the index or not.
    for (const fs::path& file : FilesIn("results")) {
      const std::string name = file.filename();
      const std::string bytes = *ReadFile(file, 1 << 20);
      ASSERT_FALSE(bytes.empty());
      for (size_t i = 0; i < bytes.size(); i += name.size()) {
        ASSERT_EQ(bytes.substr(i, name.size()), name);
      }
    }
    Open(int64_t{8} << 20);
    EXPECT_EQ(Files("partial"), 0);
    EXPECT_EQ(store_->counts().results, Files("results"));
    for (const fs::path& file : FilesIn("results")) {
      EXPECT_TRUE(store_->Find(file.filename(), "").has_value());
    }
    EXPECT_EQ(store_->counts().errors, 0);
    store_.reset();
  }
  EXPECT_GT(Files("results"), 0);
}

}  // namespace
}  // namespace upscaled::server

// The cache of compiled programs: the programs it keeps, the files it refuses, and compiling from
// source after any fault.
#include "engine/backends/opencl/program_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/opencl/cl_status.h"
#include "engine/backends/opencl/programs.h"
#include "engine/backends/opencl/sources.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/opencl/test_context.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

namespace fs = std::filesystem;
using opencl::ProgramCache;
using opencl::Programs;
using ::testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

// A folder of this test's own, gone afterwards.
class CacheFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/program_cache_test.XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    folder_ = root_ / "programs";
  }
  void TearDown() override { fs::remove_all(root_); }

  ProgramCache OpenCache() {
    auto cache = ProgramCache::Open(folder_);
    EXPECT_TRUE(cache.ok()) << cache.status();
    return *std::move(cache);
  }
  static std::string KeyOf(std::vector<std::string_view> parts) { return ProgramCache::Key(parts); }
  std::vector<fs::path> Files() const {
    return {fs::directory_iterator(folder_), fs::directory_iterator()};
  }

  fs::path root_, folder_;
};

class ProgramCacheTest : public CacheFolderTest {
 protected:
  Bytes RandomBytes() {
    Bytes bytes(test::RandomInt(random_, 1, 100'000));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(test::RandomInt(random_, 0, 255));
    return bytes;
  }
  static Bytes ReadFile(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void WriteFile(const fs::path& path, const Bytes& bytes) {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }

  std::mt19937 random_ = test::FreshRandom();
};

TEST_F(ProgramCacheTest, KeepsWhatWasStored) {
  const ProgramCache cache = OpenCache();
  const std::string key = KeyOf({"source", "options"}), other = KeyOf({"source", "others"});
  EXPECT_EQ(cache.Load(key), std::nullopt);
  const Bytes program = RandomBytes(), newer = RandomBytes();
  ASSERT_TRUE(cache.Store(key, program).ok());
  EXPECT_EQ(OpenCache().Load(key), program);
  EXPECT_EQ(cache.Load(other), std::nullopt);
  ASSERT_TRUE(cache.Store(key, newer).ok());
  EXPECT_EQ(cache.Load(key), newer);
  EXPECT_EQ(Files().size(), 1u);  // nothing temporary is left
}

TEST_F(ProgramCacheTest, KeyIsOfEveryPartAndWhereItEnds) {
  EXPECT_EQ(KeyOf({"a", "b"}), KeyOf({"a", "b"}));
  EXPECT_NE(KeyOf({"a", "b"}), KeyOf({"a", "c"}));
  EXPECT_NE(KeyOf({"ab", ""}), KeyOf({"a", "b"}));
  EXPECT_NE(KeyOf({"a"}), KeyOf({"a", ""}));
  EXPECT_EQ(KeyOf({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_F(ProgramCacheTest, EveryDamageIsFound) {
  const ProgramCache cache = OpenCache();
  const std::string key = KeyOf({"source"});
  ASSERT_TRUE(cache.Store(key, RandomBytes()).ok());
  const Bytes good = ReadFile(cache.PathOf(key));
  for (int i = 0; i < 20; ++i) {
    Bytes damaged = good;
    const int at = test::RandomInt(random_, 0, static_cast<int>(good.size()) - 1);
    damaged[at] ^= static_cast<uint8_t>(1 << test::RandomInt(random_, 0, 7));
    WriteFile(cache.PathOf(key), damaged);
    EXPECT_EQ(cache.Load(key), std::nullopt) << "a bit of byte " << at << " is wrong";
    damaged = good;
    damaged.resize(at);
    WriteFile(cache.PathOf(key), damaged);
    EXPECT_EQ(cache.Load(key), std::nullopt) << "cut off at byte " << at;
  }
  Bytes longer = good;
  longer.push_back(0);
  WriteFile(cache.PathOf(key), longer);
  EXPECT_EQ(cache.Load(key), std::nullopt);
  WriteFile(cache.PathOf(key), good);
  EXPECT_NE(cache.Load(key), std::nullopt);
}

TEST_F(ProgramCacheTest, ProgramOfAnotherKeyIsRefused) {
  const ProgramCache cache = OpenCache();
  const std::string key = KeyOf({"driver 1"}), other = KeyOf({"driver 2"});
  ASSERT_TRUE(cache.Store(key, RandomBytes()).ok());
  fs::rename(cache.PathOf(key), cache.PathOf(other));
  EXPECT_EQ(cache.Load(other), std::nullopt);
}

TEST_F(ProgramCacheTest, FolderThatOthersMayWriteIsRefused) {
  fs::create_directories(folder_);
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  const auto cache = ProgramCache::Open(folder_);
  EXPECT_EQ(cache.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(cache.status().message()), HasSubstr(folder_.string()));
}

TEST_F(ProgramCacheTest, NewFolderIsOfThisUserAlone) {
  OpenCache();
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
}

TEST_F(ProgramCacheTest, FileInPlaceOfTheFolderIsRefused) {
  WriteFile(folder_, {});
  const auto cache = ProgramCache::Open(folder_);
  EXPECT_EQ(cache.status(), absl::FailedPreconditionError(folder_.string() + " is no folder"));
  EXPECT_FALSE(ProgramCache::Open(folder_ / "below").ok());
}

// The device's compiled programs, with this cache folder.
class CachedProgramsTest : public CacheFolderTest {
 protected:
  void SetUp() override {
    CacheFolderTest::SetUp();
    auto context = test::MakeContext();
    if (absl::IsUnavailable(context.status())) GTEST_SKIP() << context.status();
    ASSERT_TRUE(context.ok()) << context.status();
    context_ = *std::move(context);
  }

  // As a new process would start.
  Programs::Origins BuildOnce() {
    Programs programs(context_->device, context_->handle, OpenCache());
    for (int i = 0; i < 2; ++i) {  // the second time from memory
      const auto program = programs.Get(opencl::kPixelsSource, "");
      EXPECT_TRUE(program.ok()) << program.status();
      if (!program.ok()) continue;
      cl_int error = CL_SUCCESS;
      const cl::Kernel kernel(*program, "load_u8", &error);
      EXPECT_EQ(error, CL_SUCCESS);
    }
    return programs.origins();
  }
  void ExpectOrigins(Programs::Origins origins, int cache, int source) {
    EXPECT_EQ(origins.cache, cache);
    EXPECT_EQ(origins.source, source);
  }

  std::shared_ptr<opencl::Context> context_;
};

TEST_F(CachedProgramsTest, SecondStartDoesNotCompile) {
  ExpectOrigins(BuildOnce(), 0, 1);
  ASSERT_EQ(Files().size(), 1u);
  ExpectOrigins(BuildOnce(), 1, 0);
  // Other options, and another driver, are other programs.
  Programs programs(context_->device, context_->handle, OpenCache());
  ASSERT_TRUE(programs.Get(opencl::kPixelsSource, "-DHALF_STORAGE").ok());
  ExpectOrigins(programs.origins(), 0, 1);
  opencl::Device updated = context_->device;
  updated.driver += "1";
  Programs after_update(updated, context_->handle, OpenCache());
  ASSERT_TRUE(after_update.Get(opencl::kPixelsSource, "").ok());
  ExpectOrigins(after_update.origins(), 0, 1);
}

TEST_F(CachedProgramsTest, DamagedProgramIsCompiledAndReplaced) {
  BuildOnce();
  ASSERT_EQ(Files().size(), 1u);
  fs::resize_file(Files()[0], fs::file_size(Files()[0]) / 2);
  ExpectOrigins(BuildOnce(), 0, 1);
  ExpectOrigins(BuildOnce(), 1, 0);
}

// Intact, but no program to the driver.
TEST_F(CachedProgramsTest, ProgramThatTheDriverRefusesIsCompiledAndReplaced) {
  BuildOnce();
  ASSERT_EQ(Files().size(), 1u);
  ASSERT_TRUE(OpenCache().Store(Files()[0].stem(), Bytes{'n', 'o'}).ok());
  ExpectOrigins(BuildOnce(), 0, 1);
  ExpectOrigins(BuildOnce(), 1, 0);
}

// The folder vanishes: this stops even root from writing, unlike a read-only folder.
TEST_F(CachedProgramsTest, FolderThatCannotBeWrittenCostsTimeAlone) {
  Programs programs(context_->device, context_->handle, OpenCache());
  fs::remove_all(folder_);
  const auto program = programs.Get(opencl::kPixelsSource, "");
  EXPECT_TRUE(program.ok()) << program.status();
  ExpectOrigins(programs.origins(), 0, 1);
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(CachedProgramsTest, SourceThatDoesNotCompileGivesTheCompilersLog) {
  Programs programs(context_->device, context_->handle, OpenCache());
  const auto program = programs.Get("__kernel void broken() { no_such_function(); }", "-DBAD=1");
  EXPECT_EQ(program.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(program.status().message()), HasSubstr("CL_BUILD_PROGRAM_FAILURE"));
  EXPECT_THAT(std::string(program.status().message()), HasSubstr("-DBAD=1"));
  EXPECT_THAT(std::string(program.status().message()), HasSubstr("no_such_function"));
  EXPECT_TRUE(Files().empty());
}

}  // namespace
}  // namespace upscaled

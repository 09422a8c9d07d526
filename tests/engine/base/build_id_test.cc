#include "engine/base/build_id.h"

#include <dlfcn.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "absl/strings/escaping.h"
#include "engine/base/files.h"

namespace upscaled {
namespace {

TEST(BuildId, IsInTheProgram) {
  const std::string build_id = BuildId();
  ASSERT_EQ(build_id.size() % 2, 0);
  ASSERT_GE(build_id.size(), 16);
  const auto program = ReadFile("/proc/self/exe", size_t{1} << 30);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_NE(program->find(absl::HexStringToBytes(build_id)), std::string::npos);
}

TEST(BuildId, IsThatOfTheLibraryThatHoldsAFunction) {
  const auto* const function = reinterpret_cast<const void*>(&getpid);
  Dl_info library = {};
  ASSERT_NE(dladdr(function, &library), 0);
  const auto file = ReadFile(library.dli_fname, size_t{1} << 30);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string build_id = BuildIdOf(function);
  ASSERT_GE(build_id.size(), 16);
  EXPECT_NE(build_id, BuildId());
  EXPECT_NE(file->find(absl::HexStringToBytes(build_id)), std::string::npos);
}

TEST(BuildId, OfNoFileIsEmpty) {
  int variable = 0;  // on the stack
  EXPECT_EQ(BuildIdOf(&variable), "");
}

}  // namespace
}  // namespace upscaled

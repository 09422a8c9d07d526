#include "server/base/reloaded.h"

#include <fstream>

#include "gtest/gtest.h"
#include "tests/client/temp_folder.h"

namespace upscaled::server {
namespace {

constexpr size_t kMaxBytes = 100;

TEST(FileReaderTest, TriesAgainWhatIsThereAndCouldNotBeRead) {
  const client::TempFolder folder;
  std::ofstream(folder / "file") << "text";
  FileReader reader(/*pipes=*/false);
  EXPECT_FALSE(reader.Read(folder / "file", /*max_bytes=*/1).ok());
  EXPECT_TRUE(reader.Changed());
}

TEST(FileReaderTest, WaitsForWhatIsMissing) {
  const client::TempFolder folder;
  FileReader reader(/*pipes=*/false);
  EXPECT_FALSE(reader.Read(folder / "file", kMaxBytes).ok());
  EXPECT_FALSE(reader.Changed());
  std::ofstream(folder / "file") << "text";
  EXPECT_TRUE(reader.Changed());
}

TEST(FileReaderTest, KnowsWhatItHasRead) {
  const client::TempFolder folder;
  std::ofstream(folder / "file") << "text";
  FileReader reader(/*pipes=*/false);
  EXPECT_EQ(*reader.Read(folder / "file", kMaxBytes), "text");
  EXPECT_FALSE(reader.Changed());
  std::ofstream(folder / "file") << "another";
  EXPECT_TRUE(reader.Changed());
}

}  // namespace
}  // namespace upscaled::server

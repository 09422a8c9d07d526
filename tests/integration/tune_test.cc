// --tune: measured when a model is first loaded, noted in the file, and taken from there.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/autotune/tuner.h"
#include "tests/integration/test_server.h"

namespace upscaled::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TuneTest : public ::testing::Test {
 protected:
  ~TuneTest() override { std::filesystem::remove_all(folder_); }

  ServerConfig Config(TuneMode mode) const {
    ServerConfig config = TestConfig();
    config.tune = mode;
    config.tune_file = folder_ / "tune.json";
    return config;
  }

  const std::filesystem::path folder_ = MakeFolder();

 private:
  static std::filesystem::path MakeFolder() {
    std::string name = std::filesystem::temp_directory_path() / "tune-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    return name;
  }
};

TEST_F(TuneTest, MeasuresForTheDefaultModelAndLoadsItLater) {
  const ServerConfig measure = Config(TuneMode::kFast);
  {
    const TestServer server(measure);
    EXPECT_THAT(server.log(), Not(HasSubstr("tuning")));
  }
  const auto time = std::filesystem::last_write_time(measure.tune_file);
  ASSERT_TRUE(TuningTable::Load(measure.tune_file).ok());
  const TestServer server(Config(TuneMode::kLoad));
  EXPECT_EQ(std::filesystem::last_write_time(measure.tune_file), time);
}

TEST_F(TuneTest, LoadingNeedsTheFile) {
  const ServerConfig config = Config(TuneMode::kLoad);
  Logger logger(LogFormat::kText, LogLevel::kError);
  const absl::Status status = Server::Start(config, logger).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(config.tune_file.string()));
}

}  // namespace
}  // namespace upscaled::server

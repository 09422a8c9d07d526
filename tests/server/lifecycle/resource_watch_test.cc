#include "server/lifecycle/resource_watch.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

using ::testing::HasSubstr;

TEST(ResourceWatchTest, NamesWhatRunsOut) {
  const ProcessUsage idle = {.open_fds = 20,
                             .max_fds = 1000,
                             .threads = 10,
                             .max_threads = 100,
                             .group_tasks = 30,
                             .max_group_tasks = 100,
                             .resident_bytes = 1000,
                             .max_memory_bytes = 10'000};
  EXPECT_TRUE(ResourceWatch().Check(idle).ok());
  ProcessUsage usage = idle;
  usage.open_fds = 950;
  absl::Status status = ResourceWatch().Check(usage);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("950 file descriptors"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("limit is 1000 (RLIMIT_NOFILE)"));
  usage = idle;
  usage.threads = 99;
  EXPECT_THAT(std::string(ResourceWatch().Check(usage).message()), HasSubstr("99 threads"));
  usage = idle;
  usage.group_tasks = 96;
  EXPECT_THAT(std::string(ResourceWatch().Check(usage).message()),
              HasSubstr("96 threads of the control group"));
  usage = idle;
  usage.resident_bytes = 9600;
  EXPECT_THAT(std::string(ResourceWatch().Check(usage).message()), HasSubstr("9600 bytes"));
}

TEST(ResourceWatchTest, MemoryIsPressedBeforeItIsExhausted) {
  EXPECT_FALSE(ResourceWatch::IsMemoryPressed({.resident_bytes = 849, .max_memory_bytes = 1000}));
  const ProcessUsage pressed = {.resident_bytes = 850, .max_memory_bytes = 1000};
  EXPECT_TRUE(ResourceWatch::IsMemoryPressed(pressed));
  EXPECT_TRUE(ResourceWatch().Check(pressed).ok());
  EXPECT_FALSE(ResourceWatch::IsMemoryPressed({.resident_bytes = 1 << 30}));
}

TEST(ResourceWatchTest, NoLimitIsNeverReached) {
  EXPECT_TRUE(ResourceWatch()
                  .Check({.open_fds = 1 << 30, .threads = 1 << 30, .resident_bytes = 1 << 30})
                  .ok());
}

TEST(ResourceWatchTest, DoesNotFlicker) {
  ResourceWatch watch;
  EXPECT_TRUE(watch.Check({.open_fds = 92, .max_fds = 100}).ok());
  EXPECT_FALSE(watch.Check({.open_fds = 95, .max_fds = 100}).ok());
  EXPECT_FALSE(watch.Check({.open_fds = 92, .max_fds = 100}).ok());
  EXPECT_TRUE(watch.Check({.open_fds = 89, .max_fds = 100}).ok());
  EXPECT_TRUE(watch.Check({.open_fds = 92, .max_fds = 100}).ok());
}

}  // namespace
}  // namespace upscaled::server

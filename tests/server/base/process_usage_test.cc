#include "server/base/process_usage.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

TEST(ProcessUsageTest, CountsDescriptorsAndThreads) {
  const ProcessProbe probe;
  std::thread([] {}).join();  // with the first one a sanitizer's runtime starts one of its own
  const ProcessUsage before = probe.Read();
  EXPECT_GT(before.open_fds, 2);
  EXPECT_GT(before.max_fds, before.open_fds);
  EXPECT_GT(before.resident_bytes, 1 << 20);
  EXPECT_GT(before.virtual_bytes, before.resident_bytes);
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  absl::Notification end;
  std::thread thread([&] { end.WaitForNotification(); });
  const ProcessUsage after = probe.Read();
  end.Notify();
  thread.join();
  close(fd);
  EXPECT_EQ(after.open_fds, before.open_fds + 1);
  EXPECT_EQ(after.threads, before.threads + 1);
  EXPECT_EQ(probe.Read().open_fds, before.open_fds);
}

TEST(ProcessUsageTest, NeedsNoDescriptor) {
  const ProcessProbe probe;
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {.rlim_cur = 1, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const ProcessUsage usage = probe.Read();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_GT(usage.open_fds, usage.max_fds);
  EXPECT_EQ(usage.max_fds, 1);
  EXPECT_GT(usage.threads, 0);
}

TEST(ProcessUsageTest, StartedAWhileAgo) {
  const ProcessProbe probe;
  EXPECT_LT(probe.start_time(), absl::Now() + absl::Seconds(1));
  EXPECT_GT(probe.start_time(), absl::Now() - absl::Hours(1));
}

TEST(ProcessUsageTest, SocketsOfUnixAreNoConnections) {
  const ProcessProbe probe;
  const int64_t before = probe.CountConnections();
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  EXPECT_EQ(probe.CountConnections(), before);
  close(fds[0]);
  close(fds[1]);
}

}  // namespace
}  // namespace upscaled::server

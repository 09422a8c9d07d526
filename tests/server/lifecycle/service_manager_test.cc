#include "server/lifecycle/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

TEST(ServiceManagerTest, HearsTheState) {
  const std::string path = testing::TempDir() + "notify." + std::to_string(getpid());
  const int listener = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(listener, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::memcpy(address.sun_path, path.data(), path.size());
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);

  unsetenv("NOTIFY_SOCKET");
  NotifyServiceManager("nobody");
  setenv("NOTIFY_SOCKET", "/no/such/socket", 1);
  NotifyServiceManager("nobody");
  setenv("NOTIFY_SOCKET", path.c_str(), 1);
  NotifyServiceManager("READY=1");
  unsetenv("NOTIFY_SOCKET");

  char buffer[64];
  const ssize_t count = recv(listener, buffer, sizeof buffer, MSG_DONTWAIT);
  EXPECT_EQ(std::string(buffer, static_cast<size_t>(std::max<ssize_t>(count, 0))), "READY=1");
  close(listener);
  unlink(path.c_str());
}

}  // namespace
}  // namespace upscaled::server

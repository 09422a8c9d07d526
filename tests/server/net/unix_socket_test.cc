#include "server/net/unix_socket.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "engine/base/unix_address.h"
#include "server/net/listener.h"
#include "tests/client/temp_folder.h"
#include "tests/server/net/test_socket.h"

namespace upscaled::server {
namespace {

using client::ReadText;
using client::TempFolder;
using client::WriteText;
using ::testing::AllOf;
using ::testing::HasSubstr;

class UnixSocketTest : public ::testing::Test {
 protected:
  static bool Exists(const std::string& path) { return std::filesystem::exists(path); }

  static UniqueFd Bind(const std::string& path, int type) {
    UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    const sockaddr_un address = UnixAddress(path);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }

  static TestSocket Connect(const std::string& path) {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = UnixAddress(path);
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      fd = UniqueFd();
    }
    return TestSocket(std::move(fd));
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen() {
    return Listener::Start({.address = "unix:" + path_,
                            .on_accepted =
                                [this](AcceptedConnection connection) {
                                  absl::MutexLock lock(&mutex_);
                                  accepted_.push_back(std::move(connection));
                                }},
                           thread_, table_);
  }

  TempFolder folder_;
  const std::string path_ = folder_ / "upscaled.sock";
  ConnectionTable table_{{}};
  absl::Mutex mutex_;
  std::vector<AcceptedConnection> accepted_;
  IoThread thread_;
};

TEST_F(UnixSocketTest, HandsConnectionsOver) {
  auto listener = Listen();
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_EQ((*listener)->own_endpoint().path, path_);
  EXPECT_EQ((*listener)->port(), 0);
  const TestSocket client = Connect(path_);
  absl::MutexLock lock(&mutex_);
  const auto one = [this] { return accepted_.size() == 1; };
  mutex_.Await(absl::Condition(&one));
  EXPECT_EQ(accepted_[0].peer.host, kOwnProcess);
  const TestSocket server(std::move(accepted_[0].socket));
  ASSERT_TRUE(server.Write("hello"));
  EXPECT_EQ(client.Read(5), "hello");
}

TEST_F(UnixSocketTest, RemovesItsFileWhenItStops) {
  auto listener = Listen();
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_TRUE(Exists(path_));
  (*listener)->Stop();
  EXPECT_FALSE(Exists(path_));
}

TEST_F(UnixSocketTest, LeavesAFileThatIsNotItsOwn) {
  auto listener = Listen();
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::filesystem::remove(path_);
  const UniqueFd other = Bind(path_, SOCK_STREAM);
  (*listener)->Stop();
  EXPECT_TRUE(Exists(path_));
}

TEST_F(UnixSocketTest, ReplacesTheSocketOfADeadServer) {
  { const UniqueFd dead = Bind(path_, SOCK_STREAM); }
  ASSERT_TRUE(Exists(path_));
  auto listener = Listen();
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_GE(Connect(path_).fd(), 0);
}

TEST_F(UnixSocketTest, RefusesTheSocketOfARunningServer) {
  auto running = Listen();
  ASSERT_TRUE(running.ok()) << running.status();
  EXPECT_THAT(std::string(Listen().status().message()),
              AllOf(HasSubstr("cannot listen on unix:" + path_), HasSubstr("a server that runs")));
  EXPECT_GE(Connect(path_).fd(), 0) << "the one that runs goes on";
}

TEST_F(UnixSocketTest, RefusesAServerWhoseQueueIsFull) {
  const UniqueFd busy = Bind(path_, SOCK_STREAM);
  ASSERT_EQ(listen(busy.get(), 0), 0);
  std::vector<TestSocket> waiting;
  while (true) {  // until the system takes no more
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_un address = UnixAddress(path_);
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) break;
    waiting.emplace_back(std::move(fd));
  }
  EXPECT_THAT(std::string(Listen().status().message()), HasSubstr("a server that runs"));
}

TEST_F(UnixSocketTest, RefusesWhatIsNoSocketOfAServer) {
  WriteText(path_, "text");
  EXPECT_THAT(std::string(Listen().status().message()), HasSubstr("is no socket"));
  EXPECT_EQ(ReadText(path_), "text");
  std::filesystem::remove(path_);
  const UniqueFd datagrams = Bind(path_, SOCK_DGRAM);
  EXPECT_THAT(std::string(Listen().status().message()), HasSubstr("another program's"));
  EXPECT_TRUE(Exists(path_));
}

TEST_F(UnixSocketTest, SaysWhyThereCannotBeASocket) {
  const absl::Status nowhere =
      Listener::Start({.address = "unix:" + path_ + "/no/such"}, thread_, table_).status();
  EXPECT_EQ(nowhere.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(nowhere.message()),
              HasSubstr("cannot listen on unix:" + path_ + "/no/such: "));
}

TEST_F(UnixSocketTest, TheUmaskSaysWhoMayConnect) {
  for (const mode_t mask : {mode_t{0077}, mode_t{0007}}) {
    const mode_t before = umask(mask);
    auto listener = Listen();
    umask(before);
    ASSERT_TRUE(listener.ok()) << listener.status();
    struct stat found = {};
    ASSERT_EQ(stat(path_.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0777 & ~mask);
  }
}

TEST_F(UnixSocketTest, OneOfManyThatStartAtOnceGetsAStaleSocket) {
  { const UniqueFd dead = Bind(path_, SOCK_STREAM); }
  constexpr int kServers = 8;
  std::vector<absl::StatusOr<ListeningUnixSocket>> servers(kServers);
  {
    std::vector<std::jthread> starts;
    for (auto& server : servers) {
      starts.emplace_back([&] { server = ListenOnUnixSocket(path_); });
    }
  }
  EXPECT_EQ(std::ranges::count_if(servers, [](const auto& server) { return server.ok(); }), 1);
  EXPECT_GE(Connect(path_).fd(), 0);
}

}  // namespace
}  // namespace upscaled::server

#include "server/net/listener.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/net/descriptors.h"
#include "tests/server/net/test_socket.h"
#include "tests/support/await.h"

namespace upscaled::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ListenerTest : public ::testing::Test {
 protected:
  void Start(ListenerOptions options = {}) {
    if (options.address.empty()) options.address = "127.0.0.1:0";
    options.on_accepted = [this](AcceptedConnection connection) {
      absl::MutexLock lock(&mutex_);
      accepted_.push_back(std::move(connection));
    };
    auto listener = Listener::Start(std::move(options), thread_, table_);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  void AwaitAccepted(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&] { return accepted_.size() >= count; };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(20)));
  }

  void DropAccepted() {
    absl::MutexLock lock(&mutex_);
    accepted_.clear();
  }

  int64_t Refused(Refusal refusal) const {
    return table_.counts().refused[static_cast<size_t>(refusal)];
  }

  TestSocket Connect() const { return TestSocket::Connect(listener_->port()); }

  ConnectionTable table_{{.max_connections = 2000, .max_connections_per_address = 1500}};
  absl::Mutex mutex_;
  std::vector<AcceptedConnection> accepted_;
  IoThread thread_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(ListenerTest, HandsConnectionsOver) {
  Start();
  const TestSocket client = Connect();
  AwaitAccepted(1);
  absl::MutexLock lock(&mutex_);
  EXPECT_THAT(accepted_[0].peer.name, HasSubstr("ipv4:127.0.0.1:"));
  EXPECT_EQ(accepted_[0].peer.host, "127.0.0.1");
  EXPECT_EQ(table_.counts().open, 1);
  const TestSocket server(std::move(accepted_[0].socket));
  ASSERT_TRUE(server.Write("hello"));
  EXPECT_EQ(client.Read(5), "hello");
}

TEST_F(ListenerTest, ListensOnAllAddressesOfAName) {
  Start({.address = "localhost:0"});
  EXPECT_GT(listener_->port(), 0);
  const TestSocket client = Connect();
  AwaitAccepted(1);
}

TEST_F(ListenerTest, TakesIpv4AndIpv6OnAnyAddress) {
  for (const char* address : {"0.0.0.0:0", "[::]:0"}) {
    Start({.address = address});
    const TestSocket client = Connect();
    AwaitAccepted(1);
    absl::MutexLock lock(&mutex_);
    EXPECT_EQ(accepted_[0].peer.host, "127.0.0.1");
    accepted_.clear();
  }
}

TEST_F(ListenerTest, KnowsTheAddressAtWhichItIsReached) {
  for (const auto& [address, own_host] : {std::pair("127.0.0.2:0", "127.0.0.2"),
                                          {"0.0.0.0:0", "127.0.0.1"},
                                          {"[::]:0", "127.0.0.1"}}) {
    Start({.address = address});
    EXPECT_EQ(listener_->own_endpoint().host, own_host) << address;
  }
  auto ipv6 = Listener::Start({.address = "[::1]:0"}, thread_, table_);
  if (!ipv6.ok()) GTEST_SKIP() << "no IPv6 here: " << ipv6.status();
  EXPECT_EQ((*ipv6)->own_endpoint().host, "::1");
}

TEST_F(ListenerTest, SaysWhatIsWrongWithAnAddress) {
  Start();
  const std::string taken = absl::StrCat("127.0.0.1:", listener_->port());
  EXPECT_THAT(std::string(Listener::Start({.address = taken}, thread_, table_).status().message()),
              AllOf(HasSubstr("cannot listen on " + taken), HasSubstr("taken")));
  for (const char* address : {"192.0.2.7:0", "no.such.host.invalid:0"}) {
    EXPECT_EQ(Listener::Start({.address = address}, thread_, table_).status().code(),
              absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(Listener::Start({.address = "127.0.0.1"}, thread_, table_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ListenerTest, ClosesItsPortWhenItStops) {
  Start();
  listener_->Stop();
  listener_->Stop();
  EXPECT_TRUE(Connect().Ends());
}

TEST_F(ListenerTest, ClosesConnectionsBeyondTheLimits) {
  ConnectionTable small({.max_connections = 3, .max_connections_per_address = 2});
  auto listener = Listener::Start({.address = "127.0.0.1:0",
                                   .on_accepted =
                                       [this](AcceptedConnection connection) {
                                         absl::MutexLock lock(&mutex_);
                                         accepted_.push_back(std::move(connection));
                                       }},
                                  thread_, small);
  ASSERT_TRUE(listener.ok());
  const TestSocket first = TestSocket::Connect((*listener)->port());
  const TestSocket second = TestSocket::Connect((*listener)->port());
  EXPECT_TRUE(TestSocket::Connect((*listener)->port()).Ends());
  AwaitAccepted(2);
  DropAccepted();
  const TestSocket third = TestSocket::Connect((*listener)->port());
  AwaitAccepted(1);
  const ConnectionCounts counts = small.counts();
  EXPECT_EQ(counts.refused[static_cast<size_t>(Refusal::kConnectionsOfAddress)], 1);
  EXPECT_EQ(counts.accepted, 3);
  (*listener)->Stop();
  DropAccepted();  // before their table
}

// With a soft limit of descriptors within reach of some connections.
class FewDescriptorsTest : public ListenerTest {
 protected:
  static constexpr int kConnections = 20;

  FewDescriptorsTest() { getrlimit(RLIMIT_NOFILE, &before_); }
  ~FewDescriptorsTest() override { setrlimit(RLIMIT_NOFILE, &before_); }

  // Leaves `more` descriptors above those in use.
  void Leave(int more) const {
    rlimit limit = before_;
    const UniqueFd next(dup(0));
    limit.rlim_cur = static_cast<rlim_t>(next.get() + more);
    setrlimit(RLIMIT_NOFILE, &limit);
  }

  rlimit before_ = {};
};

TEST_F(FewDescriptorsTest, LeavesTheReserveToOthers) {
  Start({.reserved_descriptors = 30});
  // Each takes one for the client, here, and one for the server.
  Leave(30 + 2 * kConnections);
  std::vector<TestSocket> clients;
  for (int i = 0; i < kConnections + 10; ++i) {
    clients.push_back(Connect());
    if (clients.back().Write("x") && Refused(Refusal::kDescriptors) > 0) break;
  }
  EXPECT_TRUE(clients.back().Ends());
  EXPECT_GT(Refused(Refusal::kDescriptors), 0);
  EXPECT_GE(UniqueFd(dup(0)).get(), 0) << "some are left";
  clients.clear();
  DropAccepted();
  const TestSocket next = Connect();
  AwaitAccepted(1);
}

TEST_F(FewDescriptorsTest, GoesOnWhenThereWereNoneLeft) {
  Start({.reserved_descriptors = 0});
  std::vector<UniqueFd> waiting;  // connected by the system before they are accepted
  for (int i = 0; i < kConnections; ++i) waiting.emplace_back(socket(AF_INET, SOCK_STREAM, 0));
  Leave(5);
  sockaddr_in address = {.sin_family = AF_INET,
                         .sin_port = htons(static_cast<uint16_t>(listener_->port()))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (const UniqueFd& socket : waiting) {
    ASSERT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
              0);
  }
  test::Await([&] { return Refused(Refusal::kDescriptors) >= kConnections - 5; });
  waiting.clear();
  DropAccepted();
  const TestSocket next = Connect();
  AwaitAccepted(1);
}

}  // namespace
}  // namespace upscaled::server

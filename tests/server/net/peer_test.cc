#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/unique_fd.h"
#include "engine/base/unix_address.h"
#include "server/net/peer_address.h"
#include "server/net/peer_names.h"
#include "server/net/unix_socket.h"
#include "tests/client/temp_folder.h"

namespace upscaled::server {
namespace {

PeerAddress Ipv6(const char* address) {
  sockaddr_in6 ipv6 = {.sin6_family = AF_INET6, .sin6_port = htons(1234)};
  inet_pton(AF_INET6, address, &ipv6.sin6_addr);
  return ToPeerAddress(reinterpret_cast<const sockaddr&>(ipv6));
}

TEST(PeerAddressTest, WritesIpv4) {
  sockaddr_in ipv4 = {.sin_family = AF_INET, .sin_port = htons(40312)};
  inet_pton(AF_INET, "127.0.0.1", &ipv4.sin_addr);
  const PeerAddress peer = ToPeerAddress(reinterpret_cast<const sockaddr&>(ipv4));
  EXPECT_EQ(peer.name, "ipv4:127.0.0.1:40312");
  EXPECT_EQ(peer.host, "127.0.0.1");
}

TEST(PeerAddressTest, CountsIpv6ByNetwork) {
  const PeerAddress peer = Ipv6("2001:db8:0:1:a:b:c:d");
  EXPECT_EQ(peer.name, "ipv6:[2001:db8:0:1:a:b:c:d]:1234");
  EXPECT_EQ(peer.host, "2001:db8:0:1::/64");
  EXPECT_EQ(Ipv6("2001:db8:0:1::7").host, peer.host);
  EXPECT_NE(Ipv6("2001:db8:0:2::7").host, peer.host);
}

TEST(PeerAddressTest, TakesMappedIpv4ForIpv4) {
  const PeerAddress peer = Ipv6("::ffff:10.0.0.7");
  EXPECT_EQ(peer.name, "ipv4:10.0.0.7:1234");
  EXPECT_EQ(peer.host, "10.0.0.7");
}

TEST(PeerAddressTest, LeavesOutTheScopeOfALinksAddress) {
  sockaddr_in6 ipv6 = {.sin6_family = AF_INET6, .sin6_port = htons(1), .sin6_scope_id = 2};
  inet_pton(AF_INET6, "fe80::1", &ipv6.sin6_addr);
  EXPECT_EQ(ToPeerAddress(reinterpret_cast<const sockaddr&>(ipv6)).host, "fe80::/64");
}

TEST(PeerAddressTest, CountsUnixSocketsByUser) {
  int fds[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  const UniqueFd ours(fds[0]), theirs(fds[1]);
  const sockaddr unnamed = {.sa_family = AF_UNIX};
  const PeerAddress own = PeerOf(ours.get(), unnamed);
  EXPECT_EQ(own.name, absl::StrCat("unix:", getuid(), ":", getpid()));
  EXPECT_EQ(own.host, kOwnProcess);

  // The peer is another process: its parent has made the pair: it connects by itself.
  client::TempFolder folder;
  const std::string path = folder / "socket";
  auto listening = ListenOnUnixSocket(path);
  ASSERT_TRUE(listening.ok()) << listening.status();
  const sockaddr_un address = UnixAddress(path);
  const pid_t child = fork();
  if (child == 0) {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    _exit(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)));
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const UniqueFd accepted(accept4(listening->socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(accepted.valid());
  EXPECT_EQ(PeerOf(accepted.get(), unnamed).host, absl::StrCat("unix:", getuid()));
}

UniqueFd NewSocket() { return UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

std::string NameOf(const UniqueFd& socket) { return absl::StrCat("fd:", socket.get()); }

TEST(PeerNamesTest, ACallThatBeginsLateIsNotTakenForTheNextClients) {
  PeerNames names;
  UniqueFd first = names.Add(NewSocket(), {"ipv4:10.0.0.7:1", "10.0.0.7"});
  const std::string name = NameOf(first);
  first = UniqueFd();  // the connection ends
  for (int i = 0; i < 1000; ++i) {
    const UniqueFd next = names.Add(NewSocket(), {"ipv4:10.0.0.8:2", "10.0.0.8"});
    ASSERT_TRUE(next.valid());
    EXPECT_EQ(names.Find(NameOf(next)).host, "10.0.0.8");
    ASSERT_EQ(fcntl(next.get(), F_GETFD), FD_CLOEXEC);
  }
  EXPECT_EQ(names.Find(name).name, "ipv4:10.0.0.7:1");
  EXPECT_EQ(names.Find(name).host, "10.0.0.7");
}

TEST(PeerNamesTest, NumbersGoRound) {
  PeerNames names;
  int most = 0;
  for (int i = 0; i < 3 * PeerNames::kNumbers; ++i) {
    const UniqueFd socket = names.Add(NewSocket(), {"ipv4:10.0.0.8:2", absl::StrCat(i)});
    ASSERT_TRUE(socket.valid());
    ASSERT_EQ(names.Find(NameOf(socket)).host, absl::StrCat(i));
    most = std::max(most, socket.get());
  }
  EXPECT_LT(most, PeerNames::kNumbers + 100);
}

// Runs with a lower limit of descriptors.
class LowDescriptorLimit {
 public:
  explicit LowDescriptorLimit(rlim_t descriptors) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit low{descriptors, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &low);
  }
  ~LowDescriptorLimit() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
};

TEST(PeerNamesTest, NumbersStayBelowTheReservedOnes) {
  const LowDescriptorLimit low(600);
  PeerNames names;
  std::vector<UniqueFd> open;
  for (int i = 0; i < 1000; ++i) {
    UniqueFd socket = names.Add(NewSocket(), {"ipv4:10.0.0.8:2", absl::StrCat(i)});
    ASSERT_TRUE(socket.valid());
    ASSERT_LT(socket.get(), 600 - kReservedDescriptors);
    ASSERT_EQ(names.Find(NameOf(socket)).host, absl::StrCat(i));
    if (i % 4 == 0 && open.size() < 200) open.push_back(std::move(socket));
  }
}

TEST(PeerNamesTest, LeavesOtherNamesAsTheyAre) {
  const PeerNames names;
  for (const char* unknown : {"fd:3", "fd:99", "fd:", "unix:/run/upscaled", ""}) {
    EXPECT_EQ(names.Find(unknown).name, unknown);
    EXPECT_EQ(names.Find(unknown).host, unknown);
  }
}

}  // namespace
}  // namespace upscaled::server

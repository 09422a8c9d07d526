// No client can stop the server: slow, many, silent, and a process without descriptors.
#include <fcntl.h>
#include <sys/resource.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/sanitized.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/http/http_server.h"
#include "server/http/operator_routes.h"
#include "tests/server/http/http_client.h"

namespace upscaled::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kLive[] = "/v2/health/live";
constexpr size_t kLargeBytes = size_t{32} << 20;

std::unique_ptr<HttpServer> StartServer(const HttpLimits& limits, ConnectionTable& table) {
  std::vector<HttpRoute> routes = HealthRoutes({[] { return ""; }, [] { return ""; }});
  routes.push_back({.method = "GET",
                    .path = "/large",
                    .description = "more than sockets hold",
                    .handler = [](const HttpRequest&, std::unique_ptr<HttpResponseWriter> writer) {
                      writer->Send(TextResponse(200, std::string(kLargeBytes, 'x')));
                    }});
  auto server = HttpServer::Start(
      {.address = "127.0.0.1:0", .title = "a test", .routes = std::move(routes), .limits = limits},
      table);
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

// Waits for at most 10 s.
void AwaitConnections(const ConnectionTable& table, int64_t open) {
  const absl::Time end = absl::Now() + absl::Seconds(10);
  while (table.counts().open != open && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_EQ(table.counts().open, open);
}

void RaiseDescriptorLimit() {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

absl::Duration CpuTime() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
}

TEST(HttpLimitsTest, ADrippingHeaderEndsAtTheDeadline) {
  ConnectionTable table{ConnectionLimits()};
  const auto server = StartServer({.header_timeout = absl::Milliseconds(300)}, table);
  Client client(server->port());
  client.Send("GET /v2/health/live HTTP/1.1\r\nHost: a\r\nX: ");
  const absl::Time begin = absl::Now();
  while (client.TrySend("x") && absl::Now() < begin + absl::Seconds(20)) {
    absl::SleepFor(absl::Milliseconds(10));
    if (table.counts().open == 0) break;
  }
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
  AwaitConnections(table, 0);
}

TEST(HttpLimitsTest, TheEndOfADripIsTold) {
  ConnectionTable table{ConnectionLimits()};
  const auto server = StartServer({.header_timeout = absl::Milliseconds(200)}, table);
  Client client(server->port());
  client.Send("GET / HTTP/1.1\r\n");
  EXPECT_THAT(client.ReadAll(), AllOf(StartsWith("HTTP/1.1 408 Request Timeout\r\n"),
                                      HasSubstr("no whole header after 200ms")));
  // Each request has a deadline, also a later one.
  Client later(server->port());
  later.Send("GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\nGET");
  EXPECT_THAT(later.ReadAll(), AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("HTTP/1.1 408 ")));
}

TEST(HttpLimitsTest, SilentConnectionsAreClosed) {
  ConnectionTable table{ConnectionLimits()};
  const auto server = StartServer(
      {.header_timeout = absl::Milliseconds(100), .idle_timeout = absl::Milliseconds(200)}, table);
  Client silent(server->port());
  EXPECT_EQ(silent.ReadAll(), "");
  Client idle(server->port());
  idle.Send("GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(idle.ReadUntil("ok\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(idle.ReadAll(), "");
  EXPECT_GE(table.counts().ended[static_cast<size_t>(Offence::kHandshakeTimeout)], 1);
}

TEST(HttpLimitsTest, AReaderThatTakesNothingIsClosed) {
  ConnectionTable table{ConnectionLimits()};
  const auto server = StartServer({.write_timeout = absl::Milliseconds(300)}, table);
  Client client(server->port());
  client.Send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
  AwaitConnections(table, 1);
  AwaitConnections(table, 0);
  EXPECT_LT(client.ReadAll().size(), kLargeBytes);
  EXPECT_EQ(table.counts().ended[static_cast<size_t>(Offence::kStalled)], 1);
}

TEST(HttpLimitsTest, AReaderThatDripsIsClosed) {
  ConnectionTable table{ConnectionLimits()};
  const auto server = StartServer({.write_timeout = absl::Milliseconds(300)}, table);
  Client client(server->port());
  client.Send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
  char bytes[1000];
  const absl::Time end = absl::Now() + absl::Seconds(10);
  while (absl::Now() < end && recv(client.fd(), bytes, sizeof(bytes), 0) > 0 &&
         table.counts().open > 0) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  AwaitConnections(table, 0);
}

TEST(HttpLimitsTest, AThousandIdleConnectionsDoNotStopHealth) {
  RaiseDescriptorLimit();
  for (const int max_connections : {100, 4096}) {
    ConnectionTable table({.max_connections = max_connections});
    const auto server = StartServer({}, table);
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 1000; ++i) {
      clients.push_back(std::make_unique<Client>(server->port()));
      if (i % 2 == 1) clients.back()->TrySend("GET / HTTP/1.1\r\nX: ");
    }
    for (int i = 0; i < 20; ++i) {
      EXPECT_THAT(Fetch(server->port(), "GET", kLive), StartsWith("HTTP/1.1 200 "));
    }
    EXPECT_LE(table.counts().open, max_connections);
  }
}

TEST(HttpLimitsTest, TheConnectionThatHasWaitedLongestGivesItsPlace) {
  ConnectionTable table({.max_connections = 2});
  const auto server = StartServer({}, table);
  Client first(server->port()), second(server->port());
  AwaitConnections(table, 2);
  // The first one has asked last.
  first.Send("GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(first.ReadUntil("ok\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Fetch(server->port(), "GET", kLive), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(second.ReadAll(), "");
  first.Send("GET /v2/health/live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(first.ReadAll(), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(table.counts().ended[static_cast<size_t>(Offence::kEvicted)], 1);
}

TEST(HttpLimitsTest, AConnectionWhoseRequestIsBeingAnsweredIsNotGivenAway) {
  ConnectionTable table({.max_connections = 1});
  std::unique_ptr<HttpResponseWriter> held;
  absl::Notification asked;
  auto server = HttpServer::Start({.address = "127.0.0.1:0",
                                   .title = "a test",
                                   .routes = {{.method = "GET",
                                               .path = "/held",
                                               .description = "",
                                               .handler =
                                                   [&](const HttpRequest&, auto writer) {
                                                     held = std::move(writer);
                                                     asked.Notify();
                                                   }}}},
                                  table);
  ASSERT_TRUE(server.ok()) << server.status();
  Client client((*server)->port());
  client.Send("GET /held HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  asked.WaitForNotification();
  EXPECT_EQ(Fetch((*server)->port(), "GET", "/"), "");
  EXPECT_EQ(table.counts().refused[static_cast<size_t>(Refusal::kConnections)], 1);
  held->Send(TextResponse(200, "held\n"));
  EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 200 "));
  server->reset();
}

// In a process of its own: connects while there is no descriptor left, then gives some back.
void RunWithoutDescriptors() {
  const rlimit limit = {.rlim_cur = 256, .rlim_max = 256};
  setrlimit(RLIMIT_NOFILE, &limit);
  ConnectionTable table{ConnectionLimits()};
  const auto server = StartServer({}, table);
  Client waiting(server->port());  // served, silent
  std::vector<UniqueFd> sockets, filler;
  for (int i = 0; i < 4; ++i) sockets.emplace_back(socket(AF_INET, SOCK_STREAM, 0));
  for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) filler.emplace_back(fd);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(server->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (const UniqueFd& socket : sockets) {
    connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
  }
  const absl::Duration before = CpuTime();
  absl::SleepFor(absl::Seconds(1));
  const absl::Duration spent = CpuTime() - before;
  filler.clear();
  std::string answer;
  for (int i = 0; i < 100 && !answer.starts_with("HTTP/1.1 200 "); ++i) {
    answer = Fetch(server->port(), "GET", kLive);
    absl::SleepFor(absl::Milliseconds(20));
  }
  if (spent > absl::Milliseconds(200)) {
    fprintf(stderr, "spent %s\n", absl::FormatDuration(spent).c_str());
    std::_Exit(1);
  }
  std::_Exit(answer.starts_with("HTTP/1.1 200 ") ? 0 : 2);
}

TEST(HttpLimitsDeathTest, WithoutDescriptorsItWaitsAndRecovers) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes a pipe to see whether it may read memory";
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(RunWithoutDescriptors(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace upscaled::server

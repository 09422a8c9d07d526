// A port over real sockets; the test is the server behind it.
#include "server/net/http2_port.h"

#include <gmock/gmock.h>

#include <memory>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/net/http2_connection.h"
#include "tests/server/net/http2_frames.h"
#include "tests/server/net/test_socket.h"
#include "tests/support/await.h"
#include "tests/support/thread_count.h"

namespace upscaled::server {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Http2PortTest : public ::testing::Test {
 protected:
  void Start(Http2PortOptions options = {}) {
    options.address = "127.0.0.1:0";
    Open(std::move(options));
  }
  void Open(Http2PortOptions options) {
    options.threads = 2;
    options.on_connection = [this](UniqueFd socket, const PeerAddress& peer) {
      absl::MutexLock lock(&mutex_);
      peers_.push_back(peer.name);
      served_.emplace_back(std::move(socket));
    };
    auto port = Http2Port::Start(std::move(options), table_);
    ASSERT_TRUE(port.ok()) << port.status();
    port_ = *std::move(port);
  }

  // Hands the port one end of a connection, and returns the other one.
  TestSocket HandOver() {
    int sockets[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
    port_->Take({.place = std::get<ConnectionTable::Place>(table_.Admit("192.0.2.1")),
                 .peer = {.name = "ipv4:192.0.2.1:5", .host = "192.0.2.1"},
                 .socket = UniqueFd(sockets[0])});
    return TestSocket(UniqueFd(sockets[1]));
  }

  TestSocket Connect() const { return TestSocket::Connect(port_->port()); }

  // The server's end of the next connection.
  TestSocket AwaitServed() {
    absl::MutexLock lock(&mutex_);
    const auto any = [this] { return !served_.empty(); };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&any), absl::Seconds(20)));
    if (served_.empty()) return TestSocket(UniqueFd());
    TestSocket socket = std::move(served_.front());
    served_.erase(served_.begin());
    return socket;
  }

  int64_t Ended(Offence offence) const {
    return table_.counts().ended[static_cast<size_t>(offence)];
  }

  void AwaitNoneOpen() const {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (table_.counts().open > 0 && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_EQ(table_.counts().open, 0);
  }

  ConnectionTable table_{{.max_connections = 8,
                          .max_connections_per_address = 8,
                          .resets_per_address = {.per_second = 1, .burst = 100}}};
  absl::Mutex mutex_;
  std::vector<std::string> peers_;
  std::vector<TestSocket> served_;
  std::unique_ptr<Http2Port> port_;
};

TEST_F(Http2PortTest, RelaysBothWays) {
  Start();
  const TestSocket client = Connect();
  const std::string call = Preface() + Frame(kHeadersFrame, kEndHeadersFlag, 40);
  ASSERT_TRUE(client.Write(call));
  const TestSocket server = AwaitServed();
  EXPECT_EQ(server.Read(call.size()), call);
  ASSERT_TRUE(server.Write("answer"));
  EXPECT_EQ(client.Read(6), "answer");
  EXPECT_THAT(peers_.at(0), HasSubstr("ipv4:127.0.0.1:"));
}

TEST_F(Http2PortTest, CarriesMuchBothWaysAtOnce) {
  Start();
  const TestSocket client = Connect();
  const size_t frame_bytes = (16 << 10) - 9;
  constexpr int kFrames = 1000;
  std::string frames;
  for (int i = 0; i < kFrames; ++i) frames += Frame(kDataFrame, 0, frame_bytes);
  std::thread sender([&] { EXPECT_TRUE(client.Write(Preface() + frames)); });
  const TestSocket server = AwaitServed();
  std::thread answerer([&] { EXPECT_TRUE(server.Write(frames)); });
  std::thread reader([&] { EXPECT_EQ(client.Read(frames.size()), frames); });
  EXPECT_EQ(server.Read(Http2Guard::kPreface.size() + frames.size()), Preface() + frames);
  sender.join();
  answerer.join();
  reader.join();
}

TEST_F(Http2PortTest, ReadsNoFurtherThanTheServer) {
  Start();
  const TestSocket client = Connect();
  ASSERT_TRUE(client.Write(Preface()));
  const TestSocket server = AwaitServed();
  const timeval brief = {.tv_usec = 200'000};
  setsockopt(client.fd(), SOL_SOCKET, SO_SNDTIMEO, &brief, sizeof(brief));
  const std::string frame = Frame(kDataFrame, 0, 16 << 10);
  int64_t sent = 0;
  constexpr int64_t kAll = int64_t{100} << 20;
  while (sent < kAll && client.Write(frame)) sent += static_cast<int64_t>(frame.size());
  EXPECT_LT(sent, int64_t{20} << 20) << "what systems buffer";
}

TEST_F(Http2PortTest, PassesTheEndOfEitherSide) {
  Start();
  const TestSocket client = Connect();
  ASSERT_TRUE(client.Write(Preface()));
  client.EndWrites();
  {
    const TestSocket server = AwaitServed();
    EXPECT_EQ(server.Read(100), Preface());  // and then the end
    ASSERT_TRUE(server.Write("last words"));
  }
  EXPECT_EQ(client.Read(100), "last words");
  AwaitNoneOpen();
}

TEST_F(Http2PortTest, BringsWhatTheServerSentBeforeItClosed) {
  Start();
  const TestSocket client = Connect();
  ASSERT_TRUE(client.Write(Preface()));
  const std::string answer(100'000, 'a');
  {
    const TestSocket server = AwaitServed();
    ASSERT_TRUE(server.Write(answer));
  }
  // Would reset the connection if it were closed already.
  ASSERT_TRUE(client.Write(Frame(kDataFrame, 0, 1000)));
  EXPECT_EQ(client.Read(answer.size() + 1), answer);
}

TEST_F(Http2PortTest, ClosesBothSidesWhenTheClientIsGone) {
  Start();
  {
    const TestSocket client = Connect();
    ASSERT_TRUE(client.Write(Preface()));
    const linger reset = {.l_onoff = 1, .l_linger = 0};
    setsockopt(client.fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  }
  AwaitNoneOpen();
}

TEST_F(Http2PortTest, EndsClientsThatSayNothing) {
  Start({.handshake_timeout = absl::Milliseconds(50)});
  const TestSocket silent = Connect();
  const TestSocket slow = Connect();
  ASSERT_TRUE(slow.Write("PRI * HT"));
  EXPECT_TRUE(silent.Ends());
  EXPECT_TRUE(slow.Ends());
  AwaitNoneOpen();
  EXPECT_EQ(Ended(Offence::kHandshakeTimeout), 2);
  EXPECT_TRUE(served_.empty());
}

TEST_F(Http2PortTest, EndsClientsOfOtherProtocols) {
  Start();
  const TestSocket client = Connect();
  ASSERT_TRUE(client.Write("GET / HTTP/1.1\r\nHost: example\r\n\r\n"));
  EXPECT_TRUE(client.Ends());
  AwaitNoneOpen();
  EXPECT_EQ(Ended(Offence::kHandshake), 1);
}

TEST_F(Http2PortTest, EndsAClientThatResetsTooMuch) {
  Start();
  const TestSocket client = Connect();
  const TestSocket other = Connect();
  std::string bytes = Preface();
  for (int i = 0; i < 150; ++i) {
    bytes += Frame(kHeadersFrame, kEndHeadersFlag, 10) + Frame(kResetFrame, 0, 4);
  }
  ASSERT_TRUE(client.Write(bytes));
  EXPECT_THAT(client.Read(1 << 20), EndsWith("\xbresets")) << "GOAWAY, and then the end";
  const TestSocket server = AwaitServed();
  EXPECT_THAT(server.Read(1 << 20), HasSubstr("PRI")) << "and then the end";
  ASSERT_TRUE(other.Write(Preface()));
  EXPECT_EQ(AwaitServed().Read(Preface().size()), Preface());
  port_->StopAccepting();
  port_->Close(absl::ZeroDuration());
  EXPECT_EQ(Ended(Offence::kResets), 1);
}

TEST_F(Http2PortTest, RefusedCallsEndNoConnectionOfAProxy) {
  constexpr int kCalls = 6000;  // beyond the burst of ConnectionLimits
  for (const bool is_proxy : {false, true}) {
    ConnectionTable table({.refused_calls_per_address = {.per_second = 0.001, .burst = 100}});
    auto taken = table.Admit("10.0.0.7");
    Http2Connection connection(std::get<ConnectionTable::Place>(std::move(taken)),
                               {"ipv4:10.0.0.7:1", "10.0.0.7"}, nullptr, {}, Clock::Real().Now(),
                               is_proxy);
    std::string client = Preface() + Frame(kSettingsFrame, 0, 0);
    std::string server = Frame(kSettingsFrame, 0, 0);
    constexpr uint8_t kWhole = kEndStreamFlag | kEndHeadersFlag;
    std::optional<Offence> offence;
    const auto bytes = [](const std::string& text) {
      return std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size());
    };
    for (uint32_t call = 1; call < 2 * kCalls && !offence; call += 2) {
      client += Frame(kHeadersFrame, kWhole, 1, call);
      server += Frame(kHeadersFrame, kWhole, 1, call);
      offence = connection.guard.OnReceived(bytes(client), Clock::Real().Now());
      if (!offence) offence = connection.guard.OnSent(bytes(server));
      client.clear(), server.clear();
    }
    EXPECT_EQ(offence.has_value(), !is_proxy);
    EXPECT_EQ(table.counts().faults[static_cast<size_t>(CallFault::kRefused)],
              is_proxy ? kCalls : 101);
  }
}

TEST_F(Http2PortTest, EndsAClientThatHasTheServerResetTooMuch) {
  Start();
  const TestSocket client = Connect();
  ASSERT_TRUE(client.Write(Preface()));
  const TestSocket server = AwaitServed();
  std::string answers;
  for (int i = 0; i < 150; ++i) answers += Frame(kResetFrame, 0, 4);
  ASSERT_TRUE(server.Write(answers));
  EXPECT_THAT(client.Read(1 << 20), AllOf(StartsWith(answers), EndsWith("\xbserver_resets")));
  EXPECT_EQ(Ended(Offence::kServerResets), 1);
}

TEST_F(Http2PortTest, SaysNothingWithinAFrameOfTheServer) {
  Start();
  const TestSocket client = Connect();
  ASSERT_TRUE(client.Write(Preface()));
  const TestSocket server = AwaitServed();
  const std::string part = Frame(kDataFrame, 0, 100).substr(0, 50);
  ASSERT_TRUE(server.Write(part));
  EXPECT_EQ(client.Read(part.size()), part);
  ASSERT_TRUE(client.Write(Frame(kContinuationFrame, 0, 1)));
  EXPECT_TRUE(client.Ends());
  EXPECT_EQ(Ended(Offence::kFrame), 1);
}

TEST_F(Http2PortTest, EndsAClientThatTakesNothing) {
  Start({.stall_timeout = absl::Milliseconds(100)});
  const TestSocket client = Connect();
  ASSERT_TRUE(client.Write(Preface()));
  const TestSocket server = AwaitServed();
  EXPECT_FALSE(server.Write(std::string(64 << 20, 'a'))) << "which it would wait for";
  AwaitNoneOpen();
  EXPECT_EQ(Ended(Offence::kStalled), 1);
}

TEST_F(Http2PortTest, HurriesThoseWhoTakeNothing) {
  Start();
  const TestSocket client = Connect();
  ASSERT_TRUE(client.Write(Preface()));
  const TestSocket server = AwaitServed();
  const timeval brief = {.tv_usec = 200'000};
  setsockopt(server.fd(), SOL_SOCKET, SO_SNDTIMEO, &brief, sizeof(brief));
  EXPECT_FALSE(server.Write(std::string(64 << 20, 'a')));
  EXPECT_EQ(table_.counts().open, 1);
  port_->StopAccepting();
  port_->Hurry(absl::Milliseconds(10));
  AwaitNoneOpen();
  EXPECT_EQ(Ended(Offence::kStalled), 1);
}

TEST_F(Http2PortTest, EndsAClientThatHasEndedItsHalfWhateverTheServerWaitsFor) {
  Start({.close_timeout = absl::Milliseconds(100)});
  const TestSocket client = Connect();
  ASSERT_TRUE(client.Write(Preface()));
  const TestSocket server = AwaitServed();  // and never closes
  client.EndWrites();
  EXPECT_EQ(server.Read(100), Preface());
  AwaitNoneOpen();
  EXPECT_EQ(Ended(Offence::kStalled), 1);
}

TEST_F(Http2PortTest, EndsAFloodingClientThatWasDismissed) {
  Start();
  const TestSocket client = Connect();
  ASSERT_TRUE(client.Write(Preface() + Frame(kContinuationFrame, 0, 1)));
  EXPECT_FALSE(client.Write(std::string(64 << 20, 'a')));
  AwaitNoneOpen();
}

TEST_F(Http2PortTest, MakesRoomForThoseWhoSpeak) {
  Start();
  std::vector<TestSocket> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(Connect());
  const TestSocket client = Connect();
  ASSERT_TRUE(client.Write(Preface()));
  EXPECT_EQ(AwaitServed().Read(Preface().size()), Preface());
  EXPECT_TRUE(silent.front().Ends()) << "the oldest goes first";
  EXPECT_EQ(Ended(Offence::kEvicted), 13);
}

TEST_F(Http2PortTest, RefusesWhoComesWhileAllPlacesAreServed) {
  Start();
  std::vector<TestSocket> clients;
  std::vector<TestSocket> servers;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(Connect());
    ASSERT_TRUE(clients.back().Write(Preface()));
    servers.push_back(AwaitServed());
  }
  EXPECT_TRUE(Connect().Ends());
  EXPECT_EQ(table_.counts().refused[static_cast<size_t>(Refusal::kConnections)], 1);
}

TEST_F(Http2PortTest, WithoutAnAddressItStartsWithItsFirstConnection) {
  Open({});
  EXPECT_TRUE(test::Comes([] { return test::CountThreads("http2") == 0; }));
  const TestSocket client = HandOver();
  ASSERT_TRUE(client.Write(Preface()));
  EXPECT_EQ(AwaitServed().Read(Preface().size()), Preface());
  EXPECT_GE(test::CountThreads("http2"), 1);
}

TEST_F(Http2PortTest, WithoutAnAddressItMayEndWithoutAConnection) {
  Open({});
  port_->StopAccepting();
  port_->Hurry(absl::Seconds(1));
  EXPECT_TRUE(HandOver().Ends());
  port_->Close(absl::Seconds(20));
  EXPECT_TRUE(test::Comes([] { return test::CountThreads("http2") == 0; }));
}

TEST_F(Http2PortTest, ClosesInTwoSteps) {
  Start();
  const TestSocket client = Connect();
  ASSERT_TRUE(client.Write(Preface()));
  auto server = std::make_unique<TestSocket>(AwaitServed());
  const TestSocket silent = Connect();
  port_->StopAccepting();
  EXPECT_TRUE(silent.Ends());
  EXPECT_TRUE(Connect().Ends());
  ASSERT_TRUE(server->Write("still here"));
  EXPECT_EQ(client.Read(10), "still here");
  ASSERT_TRUE(server->Write("goodbye"));
  server.reset();
  std::thread reader([&] { EXPECT_EQ(client.Read(100), "goodbye"); });
  port_->Close(absl::Seconds(20));
  reader.join();
  port_ = nullptr;
  EXPECT_EQ(table_.counts().open, 0);
}

TEST_F(Http2PortTest, ClosesWhatDoesNotEnd) {
  Start();
  const TestSocket client = Connect();
  ASSERT_TRUE(client.Write(Preface()));
  const TestSocket server = AwaitServed();
  port_->StopAccepting();
  port_->Close(absl::Milliseconds(10));
  EXPECT_TRUE(client.Ends());
  EXPECT_EQ(server.Read(100), Preface());
}

}  // namespace
}  // namespace upscaled::server

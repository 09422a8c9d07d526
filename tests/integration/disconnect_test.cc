// Clients lost in the middle of an upload.
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/client/process.h"
#include "tests/client/temp_folder.h"
#include "tests/integration/test_server.h"
#include "tests/support/await.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using ::testing::HasSubstr;

constexpr int kHeldBytes = 20'000;  // larger sources are computed as they come

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// How a connection ends without a word of HTTP/2: as the kernel closes a killed client's, or as a
// broken path resets it.
enum class End { kClose, kReset };

// A wire to the server, for cutting. Carries one connection, on a thread of its own.
class Wire {
 public:
  explicit Wire(int server_port) : server_port_(server_port) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof address;
    Check(bind(listener_, reinterpret_cast<sockaddr*>(&address), size));
    Check(listen(listener_, 1));
    Check(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size));
    port_ = ntohs(address.sin_port);
    Check(pipe(cut_pipe_));
    thread_ = std::thread([this] { Carry(); });
  }
  ~Wire() { Cut(End::kClose); }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  // Returns when both sockets are closed. Nothing connects a second time.
  void Cut(End end) {
    if (!thread_.joinable()) return;
    end_ = end;
    Check(static_cast<int>(write(cut_pipe_[1], "x", 1)));
    thread_.join();
    for (const int fd : cut_pipe_) close(fd);
  }

 private:
  static void Check(int result) {
    if (result >= 0) return;
    std::perror("Wire");
    std::abort();
  }

  // False when the wire was cut first.
  bool AwaitReadable(std::vector<pollfd>& fds) {
    for (pollfd& fd : fds) fd.events = POLLIN;
    Check(poll(fds.data(), fds.size(), -1));
    return fds.back().revents == 0;
  }

  void Carry() {
    std::vector<pollfd> fds = {{.fd = listener_}, {.fd = cut_pipe_[0]}};
    if (AwaitReadable(fds)) {
      const int client = accept(listener_, nullptr, nullptr);
      Check(client);
      const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_in address = Loopback(server_port_);
      Check(connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address));
      fds = {{.fd = client}, {.fd = server}, {.fd = cut_pipe_[0]}};
      while (AwaitReadable(fds)) {
        if (fds[0].revents != 0 && !Forward(client, server)) break;
        if (fds[1].revents != 0 && !Forward(server, client)) break;
      }
      for (const int fd : {client, server}) {
        const linger reset = {.l_onoff = end_ == End::kReset, .l_linger = 0};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fd);
      }
    }
    close(listener_);
  }

  // False when one of the two is gone.
  static bool Forward(int from, int to) {
    char buffer[65536];
    const ssize_t count = recv(from, buffer, sizeof buffer, 0);
    for (ssize_t sent = 0; sent < count;) {
      const ssize_t now = send(to, buffer + sent, static_cast<size_t>(count - sent), MSG_NOSIGNAL);
      if (now < 0) return false;
      sent += now;
    }
    return count > 0;
  }

  const int server_port_;
  const int listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int port_ = 0;
  int cut_pipe_[2];
  std::atomic<End> end_ = End::kClose;
  std::thread thread_;
};

class DisconnectTest : public ::testing::Test {
 protected:
  // Polls for a state; a failure, and the log, if it does not come.
  void Await(const std::string& what, const std::function<bool()>& there) {
    if (test::Comes(there)) return;
    // The server of this test will never be idle: its destructor would wait forever.
    std::fprintf(stderr, "%s: not within %s\n%s\n", what.c_str(),
                 absl::FormatDuration(test::kPatience).c_str(), server_.log().c_str());
    std::abort();
  }

  static ServerConfig OneSlot() {
    ServerConfig config = TestConfig();
    config.limits.max_concurrent_requests = 1;
    config.stall_timeout = absl::Hours(1);  // only the lost connection can end a call
    config.hold_source_bytes = kHeldBytes;
    return config;
  }

  // Noise: half of the file is about half of the image.
  std::string TallPng() {
    const Image noise = test::RandomImage({kTilePx, 20 * kTilePx, 3, SampleType::kU8}, random_);
    return *test::Encode(noise.view(), {.compression = 0});
  }

  static pb::UpscaleImageRequest Start() {
    pb::UpscaleOptions options;
    options.set_tile_px(kTilePx);
    return StartMessage(options);
  }

  // One in memory as a whole.
  std::string HeldPng() {
    const Image noise = test::RandomImage({kTilePx, kTilePx, 3, SampleType::kU8}, random_);
    std::string image = *test::Encode(noise.view(), {.compression = 0});
    EXPECT_LT(image.size(), kHeldBytes);
    return image;
  }

  // Sends half of the image, and cuts the connection once the server has memory for it.
  void CutWithinImage(std::string_view image, End end, Outcome& outcome) {
    Wire wire(server_.server().grpc_port());
    const auto stub = pb::UpscaleService::NewStub(
        grpc::CreateChannel(wire.address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    const auto stream = stub->UpscaleImage(&context);
    ASSERT_TRUE(stream->Write(Start()));
    ASSERT_TRUE(stream->Write(ChunkMessage(image.substr(0, image.size() / 2))));
    Await("it has memory", [&] { return server_.server().admission_state().memory_bytes > 0; });
    wire.Cut(end);
    ReadToEnd(context, *stream, outcome);
  }

  void AwaitFreed() {
    Await("slot, memory and queue are free", [&] {
      const AdmissionState state = server_.server().admission_state();
      const TileLoad load = server_.server().tile_load();
      return state.requests == 0 && state.memory_bytes == 0 && state.queue_cost == 0 &&
             load.queued_tiles == 0 && load.running_tiles == 0;
    });
  }

  // Slot, reservation and queue are free, and the next client is served.
  void ExpectFreed() {
    AwaitFreed();
    const Image image = test::PhotoImage({40, 30, 3, SampleType::kU8}, random_);
    const Outcome next =
        UpscaleImage(server_.stub(), pb::UpscaleOptions(), *test::Encode(image.view(), {}));
    EXPECT_TRUE(next.status.ok()) << next.status.error_message();
  }

  std::mt19937 random_ = test::FreshRandom();
  TestServer server_{OneSlot()};
};

// Before the image, within its header, and with half of it sent.
TEST_F(DisconnectTest, WhileTheServerWaitsForMore) {
  const std::string image = TallPng();
  for (const End end : {End::kClose, End::kReset}) {
    for (const size_t sent : {size_t{0}, size_t{10}, image.size() / 2}) {
      SCOPED_TRACE(absl::StrCat(sent, " bytes, ", end == End::kReset ? "reset" : "closed"));
      Wire wire(server_.server().grpc_port());
      const auto stub = pb::UpscaleService::NewStub(
          grpc::CreateChannel(wire.address(), grpc::InsecureChannelCredentials()));
      grpc::ClientContext context;
      const auto stream = stub->UpscaleImage(&context);
      ASSERT_TRUE(stream->Write(Start()));
      ASSERT_TRUE(stream->Write(ChunkMessage(std::string_view(image).substr(0, sent))));
      Await("the call has a slot",
            [&] { return server_.server().admission_state().requests == 1; });
      Outcome outcome;
      if (sent > 10) {
        pb::UpscaleImageResponse response;
        ASSERT_TRUE(stream->Read(&response));
        outcome.header = response.header();
        EXPECT_GT(server_.server().admission_state().memory_bytes, 0);
      }
      wire.Cut(end);
      ReadToEnd(context, *stream, outcome);
      EXPECT_EQ(outcome.status.error_code(), grpc::StatusCode::UNAVAILABLE)
          << outcome.status.error_message();
      EXPECT_FALSE(outcome.summary.has_value());
      ExpectFreed();
    }
  }
  EXPECT_THAT(server_.log(), HasSubstr("CANCELLED"));
}

TEST_F(DisconnectTest, WhileItsSourceIsHeld) {
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(CutWithinImage(HeldPng(), End::kReset, outcome));
  EXPECT_EQ(outcome.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(outcome.header.has_value());
  ExpectFreed();
}

// However the end of its messages and the news of its end follow each other.
TEST_F(DisconnectTest, AClientThatGoesIsNotToldOffForHalfAnImage) {
  constexpr int kClients = 60;
  const std::string image = HeldPng();
  for (int i = 0; i < kClients; ++i) {
    Outcome outcome;
    ASSERT_NO_FATAL_FAILURE(CutWithinImage(image, i % 2 == 0 ? End::kClose : End::kReset, outcome));
    AwaitFreed();  // all of it: the next client waits for memory of its own
  }
  // An image complete for its client, and broken.
  const Outcome broken =
      UpscaleImage(server_.stub(), pb::UpscaleOptions(), image.substr(0, image.size() / 2));
  EXPECT_EQ(broken.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  server_.AwaitIdle();
  const auto count = [](const std::string& log, std::string_view text) {
    int found = 0;
    for (size_t at = log.find(text); at != log.npos; at = log.find(text, at + 1)) ++found;
    return found;
  };
  // A call gives its slot back before its record is written.
  Await("all are recorded", [&] { return count(server_.log(), "code=") == kClients + 1; });
  const std::string log = server_.log();
  EXPECT_EQ(count(log, "code=CANCELLED"), kClients) << log;
  EXPECT_EQ(count(log, "code=INVALID_ARGUMENT"), 1) << log;
}

TEST_F(DisconnectTest, WhileItsTilesAreQueued) {
  const std::string image = TallPng();
  Wire wire(server_.server().grpc_port());
  const auto stub = pb::UpscaleService::NewStub(
      grpc::CreateChannel(wire.address(), grpc::InsecureChannelCredentials()));
  server_.gate().Close();
  grpc::ClientContext context;
  const auto stream = stub->UpscaleImage(&context);
  ASSERT_TRUE(stream->Write(Start()));
  ASSERT_TRUE(stream->Write(ChunkMessage(std::string_view(image).substr(0, image.size() / 2))));
  server_.gate().AwaitWaiting(2);
  Await("tiles are queued", [&] { return server_.server().tile_load().queued_tiles > 0; });
  wire.Cut(End::kReset);
  Await("the queue is empty", [&] { return server_.server().tile_load().queued_tiles == 0; });
  EXPECT_EQ(server_.gate().tiles_passed(), kWarmUpTiles);
  server_.gate().Open();
  Outcome outcome;
  ReadToEnd(context, *stream, outcome);
  EXPECT_EQ(outcome.status.error_code(), grpc::StatusCode::UNAVAILABLE)
      << outcome.status.error_message();
  ExpectFreed();
}

// The real command, with most of its 18 MB still to be sent.
TEST_F(DisconnectTest, AKilledClient) {
  const Image noise = test::RandomImage({1000, 6000, 3, SampleType::kU8}, random_);
  client::TempFolder folder;
  const std::filesystem::path source = folder.path() / "in.png";
  client::WriteText(source, *test::Encode(noise.view(), {.compression = 0}));
  server_.gate().Close();
  client::Process command({UPSCALE_BINARY, "image", "-i", source, "-o", folder.path() / "out.png",
                           "--server", absl::StrCat("127.0.0.1:", server_.server().grpc_port())});
  server_.gate().AwaitWaiting(2);
  command.Signal(SIGKILL);
  EXPECT_EQ(command.Wait().exit_code, 128 + SIGKILL);
  Await("the queue is empty", [&] { return server_.server().tile_load().queued_tiles == 0; });
  server_.gate().Open();
  ExpectFreed();
  EXPECT_THAT(server_.log(), HasSubstr("CANCELLED"));
}

}  // namespace
}  // namespace upscaled::server

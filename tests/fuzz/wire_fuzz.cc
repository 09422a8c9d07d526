// Any bytes on a connection of a whole server, over loopback.
//
// The first byte chooses what the others are: HTTP/2 frames after a proper beginning, bytes from
// the very first one, or the messages of one call, whose method the second byte chooses, each after
// its length in two bytes. The connection must end in time, and nothing of it may be left.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/lifecycle/server.h"

namespace upscaled::server {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr std::string_view kMethods[] = {
    "/upscale.v1.UpscaleService/UpscaleImage", "/upscale.v1.UpscaleService/UpscaleTiles",
    "/upscale.v1.UpscaleService/Upscale",      "/upscale.v1.UpscaleService/GetModel",
    "/upscale.v1.UpscaleService/ListModels",   "/grpc.health.v1.Health/Check"};

constexpr size_t kFrameBytes = 16384;
constexpr char kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kGoAway = 7;
constexpr char kEndStream = 1, kEndHeaders = 4;

// How long a call may take to answer, after which its client leaves, and how long a connection that
// its client has left may take to go.
constexpr absl::Duration kAnswer = absl::Seconds(1);
constexpr absl::Duration kEnd = absl::Seconds(20);  // more than handshakes and farewells may take

void Require(bool condition) {
  if (!condition) std::abort();
}

// The smaller model and small images: kernels without vectors, and without optimization, are slow.
ServerConfig FuzzConfig() {
  ServerConfig config;
  config.listen = "127.0.0.1:0";
  config.http.clear();
  config.admin.clear();
  config.model_repositories = {UPSCALED_BUNDLED_MODELS};
  config.default_model = "fast-2x";
  config.devices = {"cpu"};
  config.threads = 1;
  config.memory_budget_bytes = int64_t{256} << 20;
  config.limits = {.max_source_pixels = 1 << 8,
                   .max_result_pixels = 1 << 10,
                   .max_source_bytes = 1 << 16,
                   .max_unary_bytes = 1 << 14,
                   .max_tile_pixels = 1 << 8,
                   .max_concurrent_requests = 4,
                   .max_queue_pixels = 1 << 16};
  config.stall_timeout = absl::Seconds(2);
  config.decode_sandbox = SandboxMode::kOff;
  return config;
}

// Once, for all inputs.
class Service {
 public:
  static Service& Get() {
    static Service* const service = new Service;
    return *service;
  }
  int port() const { return server_->grpc_port(); }

  void RequireIdle() {
    const absl::Time deadline = absl::Now() + kEnd;
    while (!Idle()) {
      Require(absl::Now() < deadline);
      absl::SleepFor(absl::Microseconds(100));
    }
  }

 private:
  Service() {
    auto server = Server::Start(FuzzConfig(), logger_);
    Require(server.ok());
    server_ = *std::move(server);
    Require(server_->WarmUp().ok());
  }
  bool Idle() const {
    const AdmissionState state = server_->admission_state();
    const TileLoad load = server_->tile_load();
    return state.requests == 0 && state.queue_cost == 0 && state.memory_bytes == 0 &&
           load.queued_tiles == 0 && load.running_tiles == 0 && server_->health_watches() == 0;
  }

  Logger logger_{LogFormat::kText, LogLevel::kError};
  std::unique_ptr<Server> server_;
};

void AppendFrame(char kind, char flags, uint32_t stream, std::string_view payload,
                 std::string& bytes) {
  const auto size = static_cast<uint32_t>(payload.size());
  for (const int shift : {16, 8, 0}) bytes += static_cast<char>(size >> shift);
  bytes += kind;
  bytes += flags;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(stream >> shift);
  bytes += payload;
}

// Without indexing; neither part longer than 126 bytes.
void AppendField(std::string_view name, std::string_view value, std::string& block) {
  block += '\0';
  for (const std::string_view text : {name, value}) {
    block += static_cast<char>(text.size());
    block += text;
  }
}

// The frames of one call on stream 1.
std::string CallFrames(std::string_view method, std::string_view messages) {
  std::string block;
  AppendField(":method", "POST", block);
  AppendField(":scheme", "http", block);
  AppendField(":path", method, block);
  AppendField(":authority", "fuzz", block);
  AppendField("te", "trailers", block);
  AppendField("content-type", "application/grpc", block);
  std::string data;
  while (messages.size() >= 2) {
    const size_t length = static_cast<uint8_t>(messages[0]) | static_cast<uint8_t>(messages[1])
                                                                  << 8;
    const std::string_view message = messages.substr(2, length);
    messages.remove_prefix(2 + message.size());
    data += "\0\0\0"sv;
    data += static_cast<char>(message.size() >> 8);
    data += static_cast<char>(message.size());
    data += message;
  }
  std::string frames;
  AppendFrame(kHeaders, kEndHeaders, 1, block, frames);
  for (std::string_view rest = data; !rest.empty();) {
    const std::string_view part = rest.substr(0, kFrameBytes);
    rest.remove_prefix(part.size());
    AppendFrame(kData, 0, 1, part, frames);
  }
  AppendFrame(kData, kEndStream, 1, "", frames);
  return frames;
}

class Connection {
 public:
  Connection() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {.sin_family = AF_INET,
                           .sin_port = htons(static_cast<uint16_t>(Service::Get().port())),
                           .sin_addr = {htonl(INADDR_LOOPBACK)}};
    // libFuzzer's timer interrupts what waits; a connection begun is made nevertheless.
    Require(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 ||
            errno == EINTR);
  }
  ~Connection() { close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Bytes that the server no longer takes are lost.
  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent =
          TEMP_FAILURE_RETRY(send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void EndSending() { shutdown(socket_, SHUT_WR); }

  // Reads until `done` says so of all that came, or the end: true. false after `timeout`.
  template <typename Done>
  bool ReadUntil(const Done& done, absl::Duration timeout) {
    const absl::Time deadline = absl::Now() + timeout;
    while (!done(received_)) {
      pollfd readable = {.fd = socket_, .events = POLLIN};
      const auto left_ms = absl::ToInt64Milliseconds(deadline - absl::Now());
      if (left_ms <= 0) return false;
      if (TEMP_FAILURE_RETRY(poll(&readable, 1, static_cast<int>(left_ms))) <= 0) return false;
      std::array<char, 1 << 16> part;
      const ssize_t size = TEMP_FAILURE_RETRY(recv(socket_, part.data(), part.size(), 0));
      if (size <= 0) return true;
      received_.append(part.data(), static_cast<size_t>(size));
    }
    return true;
  }

 private:
  const int socket_;
  std::string received_;
};

// Whether stream 1, or the connection, has ended by these frames.
bool Ended(std::string_view frames) {
  while (frames.size() >= 9) {
    const size_t size = static_cast<size_t>(static_cast<uint8_t>(frames[0])) << 16 |
                        static_cast<size_t>(static_cast<uint8_t>(frames[1])) << 8 |
                        static_cast<uint8_t>(frames[2]);
    const char kind = frames[3];
    const bool last = (kind == kData || kind == kHeaders) && (frames[4] & kEndStream) != 0;
    if (last || kind == kReset || kind == kGoAway) return true;
    if (frames.size() < 9 + size) return false;
    frames.remove_prefix(9 + size);
  }
  return false;
}

void Run(uint8_t kind, std::string_view rest) {
  std::string bytes;
  const bool call = kind % 3 == 0 && !rest.empty();
  if (kind % 3 != 1) {
    bytes = kPreface;
    AppendFrame(kSettings, 0, 0, "", bytes);
  }
  if (call) {
    bytes +=
        CallFrames(kMethods[static_cast<uint8_t>(rest[0]) % std::size(kMethods)], rest.substr(1));
  } else {
    bytes += rest;
  }
  Connection connection;
  connection.Send(bytes);
  if (call) connection.ReadUntil(Ended, kAnswer);
  connection.EndSending();
  Require(connection.ReadUntil([](std::string_view) { return false; }, kEnd));
}

}  // namespace
}  // namespace upscaled::server

// No input's time has the start of the service in it.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  upscaled::server::Service::Get();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace upscaled::server;  // NOLINT
  if (size == 0) return 0;
  Run(data[0], std::string_view(reinterpret_cast<const char*>(data) + 1, size - 1));
  Service::Get().RequireIdle();
  return 0;
}

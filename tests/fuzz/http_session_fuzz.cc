// A whole connection of HTTP/1.1: parser, router, bodies and exchanges over a socket. The first
// byte says how many bytes come at a time, whether the client then ends its half, and whether it
// goes then without waiting for all answers. Answers must be whole, except that the last one may be
// cut, and nothing may stay behind: a client that goes ends its requests at once, on a port that is
// patient with clients that stay.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "server/http/http_host.h"
#include "server/http/http_session.h"
#include "server/net/io_thread.h"

namespace upscaled::server {
namespace {

constexpr uint64_t kMaxBodyBytes = 1000;
constexpr absl::Duration kPatience = absl::Milliseconds(20);
constexpr int kLastLookMs = 5;  // of a client that goes

// Answers as the query says.
void Work(HttpExchange& exchange) {
  const std::string_view query = exchange.request().query;
  const auto asks = [&](char c) { return query.find(c) != std::string_view::npos; };
  std::vector<uint8_t> bytes(100);
  uint64_t body_bytes = 0;
  while (!asks('n')) {
    const absl::StatusOr<size_t> count = exchange.Read(bytes);
    body_bytes += count.value_or(0);
    if (count.value_or(0) == 0) break;
  }
  UPSCALED_CHECK(body_bytes <= kMaxBodyBytes);
  if (asks('d')) return;
  if (asks('s')) return exchange.Send(TextResponse(200, "whole"));
  if (asks('c')) exchange.Cancel(absl::CancelledError("enough"));
  HttpResponse response;
  if (asks('l')) response.length = 150;
  if (!exchange.Begin(std::move(response), {"X-Last"}).ok()) return;
  (void)exchange.Write(bytes);
  (void)exchange.Write(std::span(bytes).first(50));
  (void)exchange.Settle();
  if (!asks('u')) exchange.Finish({{"X-Last", "1"}});
}

// A port without its listener.
class Port {
 public:
  explicit Port(absl::Duration stall_timeout)
      : host_{{.max_header_bytes = 2000,
               .header_timeout = kPatience,
               .idle_timeout = kPatience,
               .drain_timeout = kPatience,
               .stall_timeout = stall_timeout},
              "a fuzzed port",
              Routes(),
              /*guard=*/nullptr,
              FaultText,
              table_} {
    host_.link = std::make_shared<IoThreadLink>(thread_);
    host_.bodies = std::make_shared<BodyBudget>(BodyBudgetOptions());
  }

  void Serve(UniqueFd socket) {
    thread_.RunAndWait([&] {
      AcceptedConnection connection{
          std::get<ConnectionTable::Place>(table_.Admit("a")), {"a:1", "a"}, std::move(socket)};
      StartHttpSession(host_, thread_.context(), std::move(connection), nullptr);
    });
  }
  // After the connection's end.
  void AwaitEnd() {
    while (table_.counts().open > 0) std::this_thread::yield();
    thread_.RunAndWait([] {});  // no worker begins any more
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
  }

 private:
  std::vector<HttpRoute> Routes() {
    const HttpStreamHandler stream = [this](std::unique_ptr<HttpExchange> exchange) {
      workers_.emplace_back([exchange = std::move(exchange)] { Work(*exchange); });
    };
    const HttpHandler plain = [](const HttpRequest&, std::unique_ptr<HttpResponseWriter> writer) {
      writer->Send(TextResponse(200, "plain"));
    };
    return {{.method = "GET", .path = "/p/{name}", .handler = plain},
            {.method = "GET", .path = "/s", .stream = stream, .max_body_bytes = kMaxBodyBytes},
            {.method = "POST", .path = "/s", .stream = stream, .max_body_bytes = kMaxBodyBytes}};
  }

  std::vector<std::thread> workers_;  // added on the thread, joined when nothing is served
  ConnectionTable table_{{}};
  HttpHost host_;
  IoThread thread_;
};

// All that comes back for `bytes`, sent in pieces.
std::string Exchange(Port& port, std::string_view bytes, size_t piece_bytes, bool ends, bool goes) {
  int ends_of_pair[2];
  UPSCALED_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends_of_pair) ==
                 0);
  const UniqueFd client(ends_of_pair[0]);
  port.Serve(UniqueFd(ends_of_pair[1]));
  std::string answers;
  while (true) {
    const size_t wanted = std::min(piece_bytes, bytes.size());
    const ssize_t sent = send(client.get(), bytes.data(), wanted, MSG_NOSIGNAL);
    bytes = sent < 0 && errno != EAGAIN
                ? ""
                : bytes.substr(static_cast<size_t>(std::max<ssize_t>(sent, 0)));
    if (bytes.empty() && std::exchange(ends, false)) shutdown(client.get(), SHUT_WR);
    pollfd readable{client.get(), POLLIN, 0};
    const int wait_ms = !bytes.empty() ? 0 : goes ? kLastLookMs : -1;
    if (poll(&readable, 1, wait_ms) == 0) {
      if (wait_ms == kLastLookMs) return answers;
      continue;
    }
    char buffer[4096];
    const ssize_t count = recv(client.get(), buffer, sizeof buffer, 0);
    if (count == 0 || (count < 0 && errno != EAGAIN)) return answers;
    answers.append(buffer, static_cast<size_t>(std::max<ssize_t>(count, 0)));
  }
}

// Takes `text` up to and with `end`; "" and all of it without `end`.
std::string_view TakeUntil(std::string_view& text, std::string_view end) {
  const size_t found = text.find(end);
  const std::string_view taken = text.substr(0, found == text.npos ? 0 : found + end.size());
  text.remove_prefix(found == text.npos ? text.size() : taken.size());
  return taken;
}

void TakeChunks(std::string_view& text) {
  while (true) {
    const std::string_view line = TakeUntil(text, "\r\n");
    if (line.empty()) return;
    size_t size = 0;
    const auto parsed = std::from_chars(line.data(), line.data() + line.size() - 2, size, 16);
    UPSCALED_CHECK(parsed.ec == std::errc() && parsed.ptr == line.data() + line.size() - 2);
    if (size == 0) {
      TakeUntil(text, text.starts_with("\r\n") ? "\r\n" : "\r\n\r\n");
      return;
    }
    text.remove_prefix(std::min(size, text.size()));
    UPSCALED_CHECK(text.size() < 2 || text.starts_with("\r\n"));
    text.remove_prefix(std::min<size_t>(2, text.size()));
  }
}

// The next answer of `text`. No body of ours looks like an answer's begin, which tells those to
// HEAD.
void TakeAnswer(std::string_view& text) {
  UPSCALED_CHECK(std::string_view("HTTP/1.").starts_with(text.substr(0, 7)));
  const std::string_view header = TakeUntil(text, "\r\n\r\n");
  if (header.empty() || header.starts_with("HTTP/1.1 100 ") || text.starts_with("HTTP/1.")) return;
  const size_t length = header.find("\r\nContent-Length: ");
  if (length != header.npos) {
    size_t bytes = 0;
    std::from_chars(header.data() + length + 18, header.data() + header.size(), bytes);
    text.remove_prefix(std::min(bytes, text.size()));
  } else if (header.find("\r\nTransfer-Encoding: chunked") != header.npos) {
    TakeChunks(text);
  } else {
    text = "";  // until the connection's end
  }
}

}  // namespace
}  // namespace upscaled::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace upscaled::server;  // NOLINT
  // Their threads outlive the process's statics.
  static Port& impatient = *new Port(kPatience);
  static Port& patient = *new Port(absl::Hours(1));
  if (size == 0) return 0;
  const bool goes = data[0] % 4 > 1;
  Port& port = goes ? patient : impatient;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t piece_bytes = data[0] < 128 ? bytes.size() + 1 : 1 + data[0] % 16 * 7;
  const std::string answers = Exchange(port, bytes, piece_bytes, /*ends=*/data[0] % 2 == 1, goes);
  port.AwaitEnd();
  for (std::string_view left = answers; !left.empty();) TakeAnswer(left);
  return 0;
}

#include "server/telemetry/fd_sink.h"

#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace upscaled::server {
namespace {

// How soon an Abandon is noticed.
constexpr absl::Duration kSlice = absl::Milliseconds(50);

// Waits for room for at most `timeout` and writes the part with room: the count of bytes, 0 when
// there is no room, -1 when there never will be.
ssize_t WriteWhatFits(int fd, std::string_view text, absl::Duration timeout) {
  pollfd wait = {.fd = fd, .events = POLLOUT, .revents = 0};
  const int ready = poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
  if (ready == 0 || (ready < 0 && errno == EINTR)) return 0;
  if (ready < 0 || (wait.revents & (POLLERR | POLLNVAL)) != 0) return -1;
  ssize_t count = send(fd, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  // A ready pipe has room for this much: the write does not wait.
  if (count < 0 && errno == ENOTSOCK) {
    count = write(fd, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
  }
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return 0;
  return count;
}

// Calls `go_on` between the waits.
template <typename GoOn>
bool WriteWhile(int fd, std::string_view text, const GoOn& go_on) {
  while (!text.empty()) {
    const ssize_t count = WriteWhatFits(fd, text, kSlice);
    if (count < 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
    if (!text.empty() && !go_on()) return false;
  }
  return true;
}

}  // namespace

bool WriteWithin(int fd, std::string_view text, absl::Duration timeout) {
  const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  return WriteWhile(fd, text, [end] { return std::chrono::steady_clock::now() < end; });
}

bool FdSink::AwaitHandled(const std::function<bool(int64_t)>& enough, absl::Duration timeout) {
  absl::MutexLock lock(&handled_mutex_);
  return handled_changed_.Await(
      handled_mutex_, timeout,
      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(handled_mutex_) { return enough(handled_); });
}

void FdSink::sink_it_(const spdlog::details::log_msg& message) {
  spdlog::memory_buf_t line;
  formatter_->format(message, line);
  if (abandoned_ || !WriteWhile(fd_, {line.data(), line.size()}, [this] { return !abandoned_; })) {
    ++lost_;
  }
  {
    absl::MutexLock lock(&handled_mutex_);
    ++handled_;
  }
  handled_changed_.NotifyAll();
}

}  // namespace upscaled::server

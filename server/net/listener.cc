#include "server/net/listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <exception>
#include <list>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/net/descriptors.h"
#include "server/net/listening_sockets.h"

namespace upscaled::server {
namespace {

namespace asio = boost::asio;

constexpr int kAcceptsAtATime = 32;  // until others of the thread have their turn
// Without descriptors or memory for a connection there is nothing to do but to wait.
constexpr std::chrono::milliseconds kPause{50};

bool LacksResources(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

// The lowest free number, if it is lower than its own.
UniqueFd Renumber(UniqueFd fd) {
  UniqueFd other(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  return other.valid() && other.get() < fd.get() ? std::move(other) : std::move(fd);
}

UniqueFd OpenSpare() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

// Invalid, with errno, if no connection waits or the system lacks something.
UniqueFd Accept(int listening_socket, sockaddr_storage& address) {
  socklen_t bytes = sizeof(address);
  return UniqueFd(accept4(listening_socket, reinterpret_cast<sockaddr*>(&address), &bytes,
                          SOCK_NONBLOCK | SOCK_CLOEXEC));
}

}  // namespace

struct Listener::Acceptor {
  Acceptor(asio::io_context& context, int fd) : socket(context, fd), pause(context) {}
  asio::posix::stream_descriptor socket;
  asio::steady_timer pause;
};

absl::StatusOr<std::unique_ptr<Listener>> Listener::Start(ListenerOptions options, IoThread& thread,
                                                          ConnectionTable& table) {
  ASSIGN_OR_RETURN(ListeningSockets sockets, Listen(options.address));
  try {
    return std::unique_ptr<Listener>(
        new Listener(std::move(options), std::move(sockets), thread, table));
  } catch (const boost::system::system_error& error) {
    return absl::UnavailableError(absl::StrCat("cannot wait for connections: ", error.what()));
  }
}

Listener::Listener(ListenerOptions options, ListeningSockets sockets, IoThread& thread,
                   ConnectionTable& table)
    : options_(std::move(options)),
      own_endpoint_(std::move(sockets.own)),
      file_(std::move(sockets.file)),
      thread_(thread),
      table_(table),
      spare_(OpenSpare()) {
  for (UniqueFd& socket : sockets.sockets) {
    acceptors_.emplace_back(thread.context(), socket.Release());
  }
  thread_.Post([this] {
    for (Acceptor& acceptor : acceptors_) Await(acceptor);
  });
}

Listener::~Listener() { Stop(); }

void Listener::Stop() {
  if (std::exchange(stopped_, true)) return;
  file_.reset();  // while the socket is open
  thread_.RunAndWait([this] {
    closed_ = true;
    acceptors_.clear();
  });
  thread_.RunAndWait([] {});  // what was called back meanwhile has returned
}

void Listener::Await(Acceptor& acceptor) {
  acceptor.socket.async_wait(asio::posix::stream_descriptor::wait_read,
                             [this, &acceptor](boost::system::error_code error) {
                               if (!error && !closed_) AcceptSome(acceptor);
                             });
}

void Listener::Pause(Acceptor& acceptor) {
  acceptor.pause.expires_after(kPause);
  acceptor.pause.async_wait([this, &acceptor](boost::system::error_code error) {
    if (!error && !closed_) Await(acceptor);
  });
}

void Listener::AcceptSome(Acceptor& acceptor) try {
  for (int i = 0; i < kAcceptsAtATime; ++i) {
    sockaddr_storage address = {};
    UniqueFd socket = Accept(acceptor.socket.native_handle(), address);
    if (socket.valid()) {
      PeerAddress peer = PeerOf(socket.get(), reinterpret_cast<const sockaddr&>(address));
      Admit(std::move(socket), std::move(peer));
    } else if (LacksResources(errno)) {
      DropOne(acceptor);
      return Pause(acceptor);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    }  // others are errors of that connection
  }
  Await(acceptor);
} catch (const std::exception&) {  // no memory for that connection; the port goes on
  Pause(acceptor);
}

void Listener::DropOne(Acceptor& acceptor) {
  spare_ = UniqueFd();
  sockaddr_storage address = {};
  if (Accept(acceptor.socket.native_handle(), address).valid())
    table_.OnRefused(Refusal::kDescriptors);
  spare_ = OpenSpare();
}

void Listener::Admit(UniqueFd socket, PeerAddress peer) {
  if (IsReserved(socket.get(), options_.reserved_descriptors)) {
    // That connection's descriptor is taken at once: the next free number tells the rest.
    if (MakeRoom(Refusal::kDescriptors, peer.host)) socket = Renumber(std::move(socket));
    if (IsReserved(socket.get(), options_.reserved_descriptors)) {
      return table_.OnRefused(Refusal::kDescriptors);
    }
  }
  auto place = table_.Admit(peer.host);
  if (const Refusal* refusal = std::get_if<Refusal>(&place);
      refusal != nullptr && MakeRoom(*refusal, peer.host)) {
    place = table_.Admit(peer.host);
  }
  if (const Refusal* refusal = std::get_if<Refusal>(&place)) return table_.OnRefused(*refusal);
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  options_.on_accepted({.place = std::get<ConnectionTable::Place>(std::move(place)),
                        .peer = std::move(peer),
                        .socket = std::move(socket)});
}

bool Listener::MakeRoom(Refusal refusal, const std::string& host) {
  return options_.make_room && options_.make_room(refusal, host);
}

}  // namespace upscaled::server

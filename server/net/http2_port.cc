#include "server/net/http2_port.h"

#include <sys/socket.h>

#include <algorithm>
#include <exception>
#include <list>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/base/steady_wait.h"
#include "server/net/descriptors.h"
#include "server/net/handshake.h"
#include "server/net/listener.h"
#include "server/net/relay.h"

namespace upscaled::server {
namespace {

constexpr size_t kBufferBytes = size_t{128} << 10;

}  // namespace

struct Http2Port::Worker {
  IoThread thread{"http2"};
  std::vector<uint8_t> buffer = std::vector<uint8_t>(kBufferBytes);
  std::unordered_map<Relay*, std::shared_ptr<Relay>> relays;  // used on the thread only
};

struct Http2Port::SocketPair {
  // Non-blocking and closed on exec; invalid if there is no descriptor.
  static SocketPair Make() {
    int sockets[2] = {-1, -1};
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets);
    return {UniqueFd(sockets[0]), UniqueFd(sockets[1])};
  }

  UniqueFd ours;
  UniqueFd theirs;
};

absl::StatusOr<std::unique_ptr<Http2Port>> Http2Port::Start(Http2PortOptions options,
                                                            ConnectionTable& table) {
  std::unique_ptr<Http2Port> port(new Http2Port(std::move(options), table));
  RETURN_IF_ERROR(port->Listen());
  return port;
}

Http2Port::Http2Port(Http2PortOptions options, ConnectionTable& table)
    : options_(std::move(options)), table_(table) {}

void Http2Port::StartWorkers() {
  std::call_once(started_, [this] {
    std::vector<std::unique_ptr<Worker>> workers(std::max(options_.threads, 1));
    for (auto& worker : workers) worker = std::make_unique<Worker>();
    workers_ = std::move(workers);
  });
}

Http2Port::~Http2Port() {
  StopAccepting();
  Close(absl::ZeroDuration());
}

absl::Status Http2Port::Listen() {
  if (options_.address.empty()) return absl::OkStatus();
  StartWorkers();
  ASSIGN_OR_RETURN(
      listener_,
      Listener::Start(
          {.address = options_.address,
           .reserved_descriptors = options_.reserved_descriptors,
           .on_accepted = [this](AcceptedConnection c) { OnAccepted(std::move(c)); },
           .make_room = [this](Refusal refusal,
                               const std::string& host) { return Evict(refusal, host); }},
          front().thread, table_));
  return absl::OkStatus();
}

Endpoint Http2Port::own_endpoint() const {
  return listener_ == nullptr ? Endpoint() : listener_->own_endpoint();
}

void Http2Port::Take(AcceptedConnection connection) {
  try {
    StartWorkers();
  } catch (const std::exception&) {  // no thread: the next connection tries again
    return table_.OnRefused(Refusal::kConnections);
  }
  if (workers_.empty()) return;  // it has stopped accepting
  front().thread.Post([this, taken = std::make_shared<AcceptedConnection>(std::move(connection))] {
    if (!stopped_) OnAccepted(std::move(*taken));
  });
}

void Http2Port::StopAccepting() {
  if (!std::exchange(accepting_, false)) return;
  if (listener_ != nullptr) listener_->Stop();
  std::call_once(started_, [] {});  // no worker starts from now on
  if (workers_.empty()) return;
  front().thread.RunAndWait([this] {
    stopped_ = true;
    for (const auto& handshake : std::exchange(handshakes_, {})) handshake->Cancel();
  });
}

void Http2Port::Hurry(absl::Duration stall_timeout) {
  for (const auto& worker : workers_) {
    worker->thread.RunAndWait([&worker, stall_timeout] {
      for (const auto& [key, relay] : worker->relays) relay->SetStallTimeout(stall_timeout);
    });
  }
}

void Http2Port::Close(absl::Duration timeout) {
  if (std::exchange(closed_, true)) return;
  {
    absl::MutexLock lock(&mutex_);
    ended_.Await(mutex_, timeout,
                 [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return relays_ == 0; });
  }
  for (const auto& worker : workers_) {
    worker->thread.RunAndWait([&worker] {
      for (const auto& [key, relay] : std::exchange(worker->relays, {})) relay->Cancel();
    });
    // Until cancelled relays have let go of their connections. The thread's own tasks may come
    // after new ones given meanwhile, so once is not enough.
    for (int i = 0; i < 2; ++i) worker->thread.RunAndWait([] {});
    worker->thread.Stop();
  }
}

Http2Port::Worker& Http2Port::front() { return *workers_.front(); }

void Http2Port::OnAccepted(AcceptedConnection accepted) {
  auto stream = options_.tls == nullptr
                    ? MakePlainStream(std::move(accepted.socket))
                    : MakeTlsStream(std::move(accepted.socket),
                                    options_.tls->context(TlsProtocol::kHttp2).get());
  if (stream == nullptr) return;
  const bool is_proxy = options_.is_proxy && options_.is_proxy(accepted.peer);
  const auto place = handshakes_.emplace(handshakes_.end());
  absl::Cleanup forget = [&] { handshakes_.erase(place); };
  std::shared_ptr<Handshake> started = Handshake::Start(
      front().thread,
      std::make_shared<Http2Connection>(std::move(accepted.place), std::move(accepted.peer),
                                        std::move(stream), options_.limits, Clock::Real().Now(),
                                        is_proxy),
      options_.handshake_timeout,
      [this, place](std::shared_ptr<Http2Connection> connection, std::optional<Offence> offence) {
        handshakes_.erase(place);
        if (offence.has_value()) return OnOffence(*connection, *offence);
        HandOver(std::move(connection));
      },
      options_.tls == nullptr ? nullptr : options_.handshakes);
  std::move(forget).Cancel();
  *place = std::move(started);
}

bool Http2Port::Evict(Refusal refusal, const std::string& host) {
  const auto it = std::ranges::find_if(handshakes_, [&](const auto& handshake) {
    return refusal != Refusal::kConnectionsOfAddress || handshake->connection().peer.host == host;
  });
  if (it == handshakes_.end()) return false;
  const std::shared_ptr<Handshake> handshake = *it;
  handshakes_.erase(it);
  OnOffence(handshake->connection(), Offence::kEvicted);
  handshake->Cancel();
  return true;
}

void Http2Port::HandOver(std::shared_ptr<Http2Connection> connection) {
  auto sockets = std::make_shared<SocketPair>(SocketPair::Make());
  while (!Allowed(*sockets) && Evict(Refusal::kDescriptors, connection->peer.host)) {
    *sockets = SocketPair();  // before others take the numbers that are free
    *sockets = SocketPair::Make();
  }
  if (!Allowed(*sockets)) return table_.OnRefused(Refusal::kDescriptors);
  Worker& worker = *workers_[next_worker_++ % workers_.size()];
  {
    absl::MutexLock lock(&mutex_);
    ++relays_;
  }
  worker.thread.Post([this, &worker, sockets, connection = std::move(connection)] {
    StartRelay(worker, connection, std::move(*sockets));
  });
}

bool Http2Port::Allowed(const SocketPair& sockets) const {
  const int highest = std::max(sockets.ours.get(), sockets.theirs.get());
  return sockets.theirs.valid() && !IsReserved(highest, options_.reserved_descriptors);
}

void Http2Port::StartRelay(Worker& worker, std::shared_ptr<Http2Connection> connection,
                           SocketPair sockets) {
  PeerAddress peer = connection->peer;
  peer.certificate_names = connection->stream->CertificateNames();
  auto relay = Relay::Start(
      worker.thread, std::move(connection), std::move(sockets.ours), worker.buffer,
      {.stall_timeout = options_.stall_timeout,
       .close_timeout = options_.close_timeout,
       .on_offence = [this](Relay& relay,
                            Offence offence) { OnOffence(relay.connection(), offence); },
       .on_end =
           [this, &worker](Relay& ended) {
             worker.relays.erase(&ended);
             OnEnded();
           }});
  worker.relays.emplace(relay.get(), relay);
  options_.on_connection(std::move(sockets.theirs), peer);
}

void Http2Port::OnEnded() {
  absl::MutexLock lock(&mutex_);
  if (--relays_ == 0) ended_.NotifyAll();
}

void Http2Port::OnOffence(const Http2Connection& connection, Offence offence) {
  table_.OnEnded(offence);
  if (options_.on_offence) options_.on_offence(connection.peer, offence);
}

}  // namespace upscaled::server

#include "server/net/peer_names.h"

#include <fcntl.h>

#include <cstddef>
#include <utility>

#include "absl/strings/numbers.h"
#include "engine/base/string_view.h"

namespace upscaled::server {

UniqueFd PeerNames::MoveTo(int first, const UniqueFd& socket) const {
  UniqueFd moved(fcntl(socket.get(), F_DUPFD_CLOEXEC, first));
  if (moved.valid() && IsReserved(moved.get(), reserved_descriptors_)) moved = UniqueFd();
  return moved;
}

UniqueFd PeerNames::Add(UniqueFd socket, PeerAddress client) {
  absl::MutexLock lock(&mutex_);
  UniqueFd moved = MoveTo(next_, socket);
  if (!moved.valid()) moved = MoveTo(0, socket);
  if (!moved.valid()) moved = std::move(socket);
  next_ = (moved.get() + 1) % kNumbers;
  const auto index = static_cast<size_t>(moved.get());
  if (index >= clients_.size()) clients_.resize(index + 1);
  clients_[index] = std::move(client);
  return moved;
}

PeerAddress PeerNames::Find(std::string_view peer) const {
  constexpr std::string_view kPrefix = "fd:";
  size_t index = 0;
  if (peer.starts_with(kPrefix) && absl::SimpleAtoi(ToAbsl(peer.substr(kPrefix.size())), &index)) {
    absl::MutexLock lock(&mutex_);
    if (index < clients_.size() && !clients_[index].name.empty()) return clients_[index];
  }
  return {.name = std::string(peer), .host = std::string(peer)};
}

}  // namespace upscaled::server

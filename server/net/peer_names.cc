#include "server/net/peer_names.h"

#include <cstddef>
#include <utility>

#include "absl/strings/numbers.h"
#include "engine/base/string_view.h"

namespace upscaled::server {

void PeerNames::Set(int fd, PeerAddress client) {
  const auto index = static_cast<size_t>(fd);
  absl::MutexLock lock(&mutex_);
  if (index >= clients_.size()) clients_.resize(index + 1);
  clients_[index] = std::move(client);
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

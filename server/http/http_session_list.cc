#include "server/http/http_session_list.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace upscaled::server {

HttpSessionList::Place HttpSessionList::Add(std::shared_ptr<HttpSession> session,
                                            std::string host) {
  return sessions_.insert(sessions_.end(), {std::move(session), std::move(host), /*waits=*/true});
}

void HttpSessionList::SetWaiting(Place place, bool waits) {
  place->waits = waits;
  sessions_.splice(sessions_.end(), sessions_, place);
}

void HttpSessionList::Remove(Place place) {
  const std::shared_ptr<HttpSession> session = std::move(place->session);  // may be the last
  sessions_.erase(place);
  if (sessions_.empty() && on_empty_) std::exchange(on_empty_, nullptr)();
}

bool HttpSessionList::CloseLongestWaiting(std::optional<std::string_view> host) {
  const auto found = std::find_if(sessions_.begin(), sessions_.end(), [&](const Entry& entry) {
    return entry.waits && (!host || entry.host == *host);
  });
  if (found == sessions_.end()) return false;
  found->session->Close(/*evicted=*/true);
  return true;
}

void HttpSessionList::CloseAll() {
  while (!sessions_.empty()) sessions_.front().session->Close(/*evicted=*/false);
}

void HttpSessionList::CloseIdle(std::function<void()> on_empty) {
  std::vector<std::shared_ptr<HttpSession>> all;  // each may leave the list
  for (const Entry& entry : sessions_) all.push_back(entry.session);
  for (const std::shared_ptr<HttpSession>& session : all) session->CloseIdle();
  if (sessions_.empty()) return on_empty();
  on_empty_ = std::move(on_empty);
}

}  // namespace upscaled::server

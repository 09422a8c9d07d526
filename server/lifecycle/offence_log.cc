#include "server/lifecycle/offence_log.h"

#include <utility>

namespace upscaled::server {
namespace {

constexpr Rate kLines = {.per_second = 0.2, .burst = 10};

}  // namespace

OffenceLog::OffenceLog(Logger& logger, const Clock& clock)
    : logger_(logger), clock_(clock), lines_(kLines, clock.Now()) {}

void OffenceLog::OnOffence(std::string_view peer, std::string_view reason) {
  int64_t unlogged = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (!lines_.Take(clock_.Now())) {
      ++unlogged_;
      return;
    }
    unlogged = std::exchange(unlogged_, 0);
  }
  const LogField fields[] = {{"peer", peer}, {"reason", reason}, {"not_logged", unlogged}};
  logger_.Log(LogLevel::kWarning, "ended a connection", fields);
}

}  // namespace upscaled::server

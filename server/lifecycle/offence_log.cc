#include "server/lifecycle/offence_log.h"

#include <utility>

namespace upscaled::server {
namespace {

constexpr Rate kLines = {.per_second = 0.2, .burst = 10};

}  // namespace

OffenceLog::OffenceLog(Logger& logger, const Clock& clock, std::string_view message)
    : logger_(logger), clock_(clock), message_(message), lines_(kLines, clock.Now()) {}

void OffenceLog::OnOffence(std::vector<LogField> fields) {
  int64_t unlogged = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (!lines_.Take(clock_.Now())) {
      ++unlogged_;
      return;
    }
    unlogged = std::exchange(unlogged_, 0);
  }
  fields.push_back({"not_logged", unlogged});
  logger_.Log(LogLevel::kWarning, message_, fields);
}

}  // namespace upscaled::server

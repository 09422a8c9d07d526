// Knows every built-in queue.
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/jobs/sqlite_queue.h"
#ifdef UPSCALED_NATS
#include "server/jobs/nats_queue.h"
#endif
#ifdef UPSCALED_POSTGRES
#include "server/jobs/postgres_queue.h"
#endif
#ifdef UPSCALED_REDIS
#include "server/jobs/redis_queue.h"
#endif

namespace upscaled::server {
namespace {

std::filesystem::path FromEnvironment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

absl::StatusOr<std::filesystem::path> DefaultQueueFolder() {
  if (const auto state = FromEnvironment("XDG_STATE_HOME"); state.is_absolute()) {
    return state / "upscale";
  }
  if (const auto home = FromEnvironment("HOME"); home.is_absolute()) {
    return home / ".local" / "state" / "upscale";
  }
  return absl::FailedPreconditionError("HOME is not set; say with --queue where the jobs are");
}

absl::StatusOr<std::unique_ptr<JobQueue>> OpenQueue(const std::string& address, SystemClock clock,
                                                    IfAbsent if_absent) {
  if (!absl::StrContains(address, "://")) {
    return SqliteQueue::Open(address, std::move(clock), if_absent);
  }
  std::string known = "a folder";
#ifdef UPSCALED_REDIS
  if (absl::StartsWith(address, "redis://")) return RedisQueue::Open(address, if_absent);
  known += ", redis://HOST";
#endif
#ifdef UPSCALED_NATS
  if (absl::StartsWith(address, "nats://") || absl::StartsWith(address, "tls://")) {
    return NatsQueue::Open(address, if_absent);
  }
  known += ", nats://HOST, tls://HOST (NATS with TLS)";
#endif
#ifdef UPSCALED_POSTGRES
  if (absl::StartsWith(address, "postgresql://")) return PostgresQueue::Open(address, if_absent);
  known += ", postgresql://HOST/DATABASE";
#endif
  // The rest may hold a password.
  const std::string scheme = address.substr(0, address.find("://"));
  return absl::InvalidArgumentError(
      absl::StrCat("the queue ", scheme, "://... is not built in; these are: ", known));
}

}  // namespace upscaled::server

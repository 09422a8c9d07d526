// Tells a URL about the end of a job, as the Standard Webhooks specification has it.
#pragma once

#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/worker/allowed_places.h"
#include "server/jobs/job_message.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/task.h"

namespace upscaled::client {

// The bytes of "whsec_" and Base64. INVALID_ARGUMENT, without the secret, for another text or one
// of fewer than 24 bytes, the least of the specification.
absl::StatusOr<std::string> ParseWebhookSecret(const std::string& text);

// The field webhook-signature: "v1," and the Base64 of an HMAC-SHA256 over "ID.SECONDS.BODY".
std::string WebhookSignature(const std::string& secret, const std::string& id, int64_t unix_s,
                             const std::string& body);

// The message about the end of a job in `state`: done, failed or cancelled.
//   {"type": "upscale.job.STATE", "timestamp": ..., "data": {"job": ID, "state": STATE,
//    "reference": ..., "source": ..., "output": ..., "size": {...}, "warnings": [...],
//    "report": {...}}}
// A reference, an output, the size and the warnings of a result are there if they are known. No URL
// tells its user, password or query.
std::string WebhookBody(const server::EndedJob& ended, const server::Task& task, absl::Time now);

struct WebhookTry {
  server::Telling telling;  // of this one try
  // Whether another one may fare better. None does after the answer 410, which says that the place
  // is gone, or if this worker's lists refuse the place.
  bool may_pass = false;
};

// POSTs WebhookBody to the task's webhook, signed unless `secret` is empty. The message's id, by
// which a receiver knows a repetition, is the job's. Any answer but 2xx is an error, and no
// redirection is followed.
WebhookTry SendWebhook(const std::string& secret, const server::EndedJob& ended,
                       const server::Task& task, absl::Time now, const AllowedPlaces& allowed,
                       std::stop_token stop);

// Tries of a message after the first one of the job's own worker, and the waits between them: as
// long as a restart or a night takes, and within a server's --job-retention of 24 h.
inline constexpr absl::Duration kWebhookWaits[] = {absl::Seconds(5),  absl::Minutes(5),
                                                   absl::Minutes(30), absl::Hours(2),
                                                   absl::Hours(5),    absl::Hours(10)};

}  // namespace upscaled::client

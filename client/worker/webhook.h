// Tells a URL that a job has ended, as the Standard Webhooks specification has it.
#pragma once

#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/worker/allowed_places.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/task.h"

namespace upscaled::client {

// The bytes that "whsec_" and Base64 stand for. INVALID_ARGUMENT, without the secret, for another
// text or one of fewer than 24 bytes, of which the specification allows none.
absl::StatusOr<std::string> ParseWebhookSecret(const std::string& text);

// The field webhook-signature: "v1," and the Base64 of an HMAC-SHA256 over "ID.SECONDS.BODY".
std::string WebhookSignature(const std::string& secret, const std::string& id, int64_t unix_s,
                             const std::string& body);

// The message that a job has ended in `state`, which is done, failed or cancelled:
//   {"type": "upscale.job.STATE", "timestamp": ..., "data": {"job": ID, "state": STATE,
//    "reference": ..., "source": ..., "output": ..., "size": {...}, "report": {...}}}
// A reference, an output and the size of a result are there if they are known. No URL tells its
// user, password or query.
std::string WebhookBody(const std::string& job, const server::Task& task, server::JobState state,
                        const std::string& report, absl::Time now);

// POSTs WebhookBody to the task's webhook, signed unless `secret` is empty. The message's id, by
// which a receiver knows a repetition, is the job's. Errors as Upload's (url_file.h).
absl::Status SendWebhook(const std::string& secret, const std::string& job,
                         const server::Task& task, server::JobState state,
                         const std::string& report, absl::Time now, const AllowedPlaces& allowed,
                         std::stop_token stop);

}  // namespace upscaled::client

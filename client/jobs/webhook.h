// Telling somebody that a job has ended, as the Standard Webhooks specification has it.
#pragma once

#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/jobs/allowed_places.h"
#include "client/jobs/job_queue.h"

namespace upscaled::client {

// The bytes that "whsec_" and Base64 stand for. INVALID_ARGUMENT, without the secret, for another
// text or one of fewer than 24 bytes, of which the specification allows none.
absl::StatusOr<std::string> ParseWebhookSecret(const std::string& text);

// The field webhook-signature: "v1," and the Base64 of an HMAC-SHA256 over "ID.SECONDS.BODY".
std::string WebhookSignature(const std::string& secret, const std::string& id, int64_t unix_s,
                             const std::string& body);

// POSTs {"type": "upscale.job.done" or ".failed", "timestamp": ..., "data": {"job": ID, "report":
// ...}} to `url`, signed unless `secret` is empty. The id, by which a receiver knows what it has
// heard before, is the job's. Errors as Upload's (url_file.h).
absl::Status SendWebhook(const std::string& url, const std::string& secret, const std::string& job,
                         JobState state, const std::string& report, absl::Time now,
                         const AllowedPlaces& allowed, std::stop_token stop);

}  // namespace upscaled::client

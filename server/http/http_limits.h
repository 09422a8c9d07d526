// The bounds of a client's use of HTTP.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace upscaled::server {

struct HttpLimits {
  size_t max_header_bytes = 16 * 1024;    // request line and fields
  size_t output_queue_bytes = 64 * 1024;  // of a streamed answer in memory, and as much in flight
  // Hard ends, however slowly or steadily bytes drip.
  absl::Duration header_timeout = absl::Seconds(5);  // for a handshake and a request's header
  absl::Duration write_timeout = absl::Seconds(5);   // for an answer that is whole at once
  absl::Duration idle_timeout = absl::Seconds(30);   // between an answer and the next request
  // For the rest of a body when the answer has been sent.
  absl::Duration drain_timeout = absl::Seconds(30);
  // Bodies and streamed answers have no time limit, but in every `stall_timeout` of the server's
  // wait for the client, this many bytes must move. A client need not take an answer while it
  // sends.
  absl::Duration stall_timeout = absl::Seconds(60);
  int64_t min_progress_bytes = 16 * 1024;
};

}  // namespace upscaled::server

// A call as spans of its trace: itself, within it the queue, decoding, computing and encoding, and
// within computing its tiles.
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "opentelemetry/otlp_trace.pb.h"
#include "server/base/request_record.h"

namespace upscaled::server {

// Returns the call's span, then its stages as children. Tile spans are children of `infer`.
//  - A stage's span lasts from its first activity to its last. Stages take turns, so its active
//    time is less: `busy_ms`. For queue and infer it is summed over tiles.
//  - `tiles_without_span` on infer counts the tiles without a span.
//  - Stages without activity are omitted. So are all stages of stored or shared results.
// `end` is the call's end by the system clock.
std::vector<opentelemetry::proto::Span> SpansOf(const RequestRecord& record, absl::Time end);

}  // namespace upscaled::server

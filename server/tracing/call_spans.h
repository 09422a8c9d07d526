// A call as spans of its trace: itself, within it the queue, decoding, computing and encoding, and
// within computing its tiles.
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "opentelemetry/otlp_trace.pb.h"
#include "server/base/request_record.h"

namespace upscaled::server {

// The call's own span first; its stages are its children, tiles those of infer, which counts tiles
// that have none as its attribute tiles_without_span. Stages take turns, bit by bit: a stage's
// span is from its first bit to its last, its attribute busy_ms the time that it took of them,
// which for queue and infer is summed over tiles. Stages that there were not are left out, and so
// are all of a result that was stored or that another call had computed. `end` is the call's end by
// the system's clock.
std::vector<opentelemetry::proto::Span> SpansOf(const RequestRecord& record, absl::Time end);

}  // namespace upscaled::server

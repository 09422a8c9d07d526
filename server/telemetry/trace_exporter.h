// Sends the spans of calls to a collector, as OTLP over HTTP.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "opentelemetry/otlp_trace.pb.h"
#include "server/base/request_record.h"
#include "server/base/timer.h"
#include "server/telemetry/collector_client.h"

namespace upscaled::server {

struct TraceExporterOptions {
  std::string url;      // spans are POSTed there; without a path: to /v1/traces
  std::string version;  // of the service
  // Called on a helper of the timer if the collector did not take spans.
  std::function<void(int64_t spans, const absl::Status& reason)> on_failure;
};

// Since the start; all spans but the waiting ones.
struct SpanCounts {
  int64_t exported = 0;
  int64_t dropped = 0;  // found no room, as the collector was slow
  int64_t failed = 0;   // the collector did not take them
};

// Thread safe. Lossy: calls put spans into a bounded list and go on; a task of the timer sends it
// every kSendInterval, or when it is half full, and tries nothing twice.
class TraceExporter {
 public:
  static constexpr absl::Duration kSendInterval = absl::Seconds(1);
  static constexpr absl::Duration kTimeout = absl::Seconds(5);    // of one message
  static constexpr absl::Duration kLastFlush = absl::Seconds(1);  // at the end, for what there is
  static constexpr size_t kMaxWaiting = 4096;                     // spans

  // `timer` must outlive it.
  TraceExporter(Timer& timer, TraceExporterOptions options);
  // Sends the waiting spans, for kLastFlush at most.
  ~TraceExporter();

  // A call with its end at `now`, by the system's clock; nothing if it is not sampled.
  void Add(const RequestRecord& record, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  SpanCounts counts() const { return {exported_, dropped_, failed_}; }

 private:
  void Send() ABSL_LOCKS_EXCLUDED(mutex_);
  // How many of the spans the collector refused.
  absl::StatusOr<int64_t> Export(std::vector<opentelemetry::proto::Span> spans)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const TraceExporterOptions options_;
  const Clock& clock_;
  std::atomic<int64_t> exported_ = 0, dropped_ = 0, failed_ = 0;
  CollectorClient collector_;  // of whoever sends
  absl::Mutex mutex_;
  std::vector<opentelemetry::proto::Span> waiting_ ABSL_GUARDED_BY(mutex_);
  absl::Time end_by_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  Timer::Task sender_;  // last: it uses what is above
};

}  // namespace upscaled::server

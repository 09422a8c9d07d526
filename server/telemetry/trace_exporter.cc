#include "server/telemetry/trace_exporter.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/telemetry/call_spans.h"

namespace upscaled::server {
namespace {

namespace otlp = opentelemetry::proto;

constexpr char kServiceName[] = "upscaled";

// As OpenTelemetry's OTEL_EXPORTER_OTLP_ENDPOINT, if the URL has only a host.
std::string WholeUrl(const std::string& url) {
  const size_t path = url.find('/', url.find("://") + 3);
  if (path == std::string::npos) return url + "/v1/traces";
  return path + 1 == url.size() ? url + "v1/traces" : url;
}

void AddText(const char* key, const std::string& text, otlp::Resource& resource) {
  otlp::KeyValue& attribute = *resource.add_attributes();
  attribute.set_key(key);
  attribute.mutable_value()->set_string_value(text);
}

}  // namespace

TraceExporter::TraceExporter(Timer& timer, TraceExporterOptions options)
    : options_(std::move(options)),
      clock_(Clock::Real()),
      collector_(WholeUrl(options_.url)),
      sender_(
          timer, Timer::Length::kMayBlock, [this] { Send(); }, kSendInterval) {}

TraceExporter::~TraceExporter() {
  {
    absl::MutexLock lock(&mutex_);
    end_by_ = clock_.Now() + kLastFlush;
  }
  sender_.Stop();
  Send();
}

void TraceExporter::Add(const RequestRecord& record, absl::Time now) {
  if (!record.trace.sampled) return;
  std::vector<otlp::Span> spans = SpansOf(record, now);
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_.size() + spans.size() > kMaxWaiting) {
      dropped_ += std::ssize(spans);
      return;
    }
    std::ranges::move(spans, std::back_inserter(waiting_));
    if (waiting_.size() < kMaxWaiting / 2) return;
  }
  sender_.Request();
}

void TraceExporter::Send() {
  std::vector<otlp::Span> spans;
  {
    absl::MutexLock lock(&mutex_);
    spans.swap(waiting_);
  }
  if (spans.empty()) return;
  const int64_t count = std::ssize(spans);
  const absl::StatusOr<int64_t> refused = Export(std::move(spans));
  const int64_t failed = refused.ok() ? std::clamp<int64_t>(*refused, 0, count) : count;
  exported_ += count - failed;
  failed_ += failed;
  if (failed == 0) return;
  options_.on_failure(failed, refused.ok() ? absl::UnavailableError("the collector refused them")
                                           : refused.status());
}

absl::StatusOr<int64_t> TraceExporter::Export(std::vector<otlp::Span> spans) {
  otlp::ExportTraceServiceRequest request;
  otlp::ResourceSpans& resource_spans = *request.add_resource_spans();
  AddText("service.name", kServiceName, *resource_spans.mutable_resource());
  AddText("service.version", options_.version, *resource_spans.mutable_resource());
  otlp::ScopeSpans& scope_spans = *resource_spans.add_scope_spans();
  scope_spans.mutable_scope()->set_name(kServiceName);
  for (otlp::Span& span : spans) *scope_spans.add_spans() = std::move(span);
  const absl::Time give_up = clock_.Now() + kTimeout;
  const auto go_on = [&] {
    absl::MutexLock lock(&mutex_);
    return clock_.Now() < std::min(give_up, end_by_);
  };
  ASSIGN_OR_RETURN(const std::string answer, collector_.Post(request.SerializeAsString(), go_on));
  otlp::ExportTraceServiceResponse response;
  if (!response.ParseFromString(answer)) return 0;  // of another format, but it said 2xx
  return response.partial_success().rejected_spans();
}

}  // namespace upscaled::server

#include "server/metrics/metrics.h"

#include <unistd.h>

#include <fstream>
#include <sstream>

#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"

namespace upscaled::server {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;

const Histogram::BucketBoundaries kSeconds = {.001, .0025, .005, .01, .025, .05, .1,  .25, .5,
                                              1,    2.5,   5,    10,  30,   60,  120, 300};
const Histogram::BucketBoundaries kTiles = {1, 2, 4, 8, 16, 32, 64, 128};

Family<Counter>& CounterFamily(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

Family<Histogram>& HistogramFamily(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

Counter& AddCounter(Registry& registry, const char* name, const char* help) {
  return CounterFamily(registry, name, help).Add({});
}

Gauge& AddGauge(Registry& registry, const char* name, const char* help,
                const prometheus::Labels& labels = {}) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
}

Histogram& AddHistogram(Registry& registry, const char* name, const char* help,
                        const Histogram::BucketBoundaries& buckets) {
  return HistogramFamily(registry, name, help).Add({}, buckets);
}

// 0 where /proc is not mounted.
double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size_pages = 0, resident_pages = 0;
  statm >> size_pages >> resident_pages;
  return static_cast<double>(resident_pages) * sysconf(_SC_PAGESIZE);
}

}  // namespace

struct ServerMetrics::Families {
  Registry registry;

  Family<Counter>& requests = CounterFamily(registry, "upscaled_requests_total",
                                            "Finished calls, by method and gRPC code.");
  Family<Counter>& request_failures = CounterFamily(registry, "upscaled_request_failures_total",
                                                    "Failed calls, by reason (ErrorReason).");
  Family<Histogram>& request_duration =
      HistogramFamily(registry, "upscaled_request_duration_seconds",
                      "Time of a call from its start to its end, by method.");

  Histogram& queue_duration =
      AddHistogram(registry, "upscaled_queue_duration_seconds",
                   "Time that a tile waited for a stream of a device.", kSeconds);
  Histogram& decode_duration =
      AddHistogram(registry, "upscaled_decode_duration_seconds",
                   "Time spent on decoding the source of a call.", kSeconds);
  Histogram& infer_duration = AddHistogram(registry, "upscaled_infer_duration_seconds",
                                           "Time that a batch of tiles ran.", kSeconds);
  Histogram& encode_duration =
      AddHistogram(registry, "upscaled_encode_duration_seconds",
                   "Time spent on encoding the result of a call.", kSeconds);

  Histogram& batch_tiles =
      AddHistogram(registry, "upscaled_batch_tiles", "Tiles in a batch.", kTiles);
  Counter& batch_failures = AddCounter(registry, "upscaled_batch_failures_total",
                                       "Batches that the device failed to run.");
  Counter& tiles =
      AddCounter(registry, "upscaled_tiles_total", "Tiles that ran, those of failed batches too.");
  Counter& tile_pixels = AddCounter(registry, "upscaled_tile_pixels_total",
                                    "Source pixels of the computed tiles, over all passes.");
  Counter& dropped_tiles = AddCounter(registry, "upscaled_dropped_tiles_total",
                                      "Queued tiles dropped because their call was cancelled.");
  Counter& moved_tiles =
      AddCounter(registry, "upscaled_moved_tiles_total",
                 "Tiles that ran once more on another device after theirs had failed.");
  Family<Counter>& device_failures =
      CounterFamily(registry, "upscaled_device_failures_total", "Failures that took a device out.");
  Family<Gauge>& device_up = prometheus::BuildGauge()
                                 .Name("upscaled_device_up")
                                 .Help("1 while the device takes work, 0 while it is rebuilt.")
                                 .Register(registry);
  Counter& source_pixels =
      AddCounter(registry, "upscaled_source_pixels_total", "Pixels of the admitted sources.");
  Counter& result_pixels =
      AddCounter(registry, "upscaled_result_pixels_total", "Pixels of the computed results.");
  Counter& received_bytes =
      AddCounter(registry, "upscaled_received_bytes_total", "Bytes of images and tiles received.");
  Counter& sent_bytes =
      AddCounter(registry, "upscaled_sent_bytes_total", "Bytes of images and tiles sent.");

  Gauge& requests_in_flight =
      AddGauge(registry, "upscaled_requests_in_flight", "Calls that hold a slot.");
  Gauge& queue_pixels =
      AddGauge(registry, "upscaled_queue_pixels", "Source pixels admitted and not yet computed.");
  Gauge& queue_tiles =
      AddGauge(registry, "upscaled_queue_tiles", "Tiles waiting for a stream of a device.");
  Gauge& memory_reserved =
      AddGauge(registry, "upscaled_memory_reserved_bytes", "Memory reserved by admitted calls.");
  Gauge& memory_budget =
      AddGauge(registry, "upscaled_memory_budget_bytes", "Memory that calls may reserve in all.");
  Gauge& models_loaded =
      AddGauge(registry, "upscaled_models_loaded", "Networks compiled and ready.");
  Gauge& resident_memory =
      AddGauge(registry, "process_resident_memory_bytes", "Resident memory of the process.");
};

ServerMetrics::ServerMetrics(const BuildInfo& build, absl::Time start_time)
    : families_(std::make_unique<Families>()) {
  AddGauge(families_->registry, "upscaled_build_info", "Always 1; the labels say what runs.",
           {{"version", build.version}, {"device", build.device}})
      .Set(1);
  AddGauge(families_->registry, "process_start_time_seconds",
           "Start of the process, in seconds since the Unix epoch.")
      .Set(absl::ToDoubleSeconds(start_time - absl::UnixEpoch()));
}

ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::OnRequest(const RequestRecord& record) {
  Families& f = *families_;
  f.requests.Add({{"method", record.method}, {"code", absl::StatusCodeToString(record.code)}})
      .Increment();
  if (record.code != absl::StatusCode::kOk)
    f.request_failures.Add({{"reason", record.reason}}).Increment();
  f.request_duration.Add({{"method", record.method}}, kSeconds)
      .Observe(absl::ToDoubleSeconds(record.total));
  if (record.decode > absl::ZeroDuration())
    f.decode_duration.Observe(absl::ToDoubleSeconds(record.decode));
  if (record.encode > absl::ZeroDuration())
    f.encode_duration.Observe(absl::ToDoubleSeconds(record.encode));
  f.source_pixels.Increment(record.source_pixels);
  f.result_pixels.Increment(record.result_pixels);
  f.received_bytes.Increment(record.received_bytes);
  f.sent_bytes.Increment(record.sent_bytes);
}

void ServerMetrics::OnBatch(const BatchReport& batch) {
  Families& f = *families_;
  for (const absl::Duration queue : batch.queue)
    f.queue_duration.Observe(absl::ToDoubleSeconds(queue));
  f.infer_duration.Observe(absl::ToDoubleSeconds(batch.infer));
  f.batch_tiles.Observe(batch.queue.size());
  f.tiles.Increment(batch.queue.size());
  f.tile_pixels.Increment(batch.source_pixels);
  if (!batch.status.ok()) f.batch_failures.Increment();
}

void ServerMetrics::OnDropped(int64_t tiles) { families_->dropped_tiles.Increment(tiles); }

void ServerMetrics::OnMoved(int64_t tiles) { families_->moved_tiles.Increment(tiles); }

void ServerMetrics::OnDeviceFailed(const std::string& device) {
  families_->device_failures.Add({{"device", device}}).Increment();
}

std::string ServerMetrics::Render(const GaugeReadings& readings) const {
  Families& f = *families_;
  f.requests_in_flight.Set(readings.requests_in_flight);
  f.queue_pixels.Set(readings.queue_pixels);
  f.queue_tiles.Set(readings.queue_tiles);
  f.memory_reserved.Set(readings.memory_reserved_bytes);
  f.memory_budget.Set(readings.memory_budget_bytes);
  f.models_loaded.Set(readings.models_loaded);
  for (const DeviceReading& device : readings.devices) {
    f.device_up.Add({{"device", device.name}}).Set(device.up);
  }
  f.resident_memory.Set(ResidentBytes());
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, f.registry.Collect());
  return text.str();
}

}  // namespace upscaled::server

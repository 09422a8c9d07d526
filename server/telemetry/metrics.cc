#include "server/telemetry/metrics.h"

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

Family<Gauge>& GaugeFamily(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

// Raises a counter to a count kept elsewhere.
void Raise(Counter& counter, double value) {
  if (value > counter.Value()) counter.Increment(value - counter.Value());
}

}  // namespace

struct ServerMetrics::Families {
  Registry registry;

  Family<Counter>& requests = CounterFamily(registry, "upscaled_requests_total",
                                            "Finished calls, by transport, method and gRPC code.");
  Family<Counter>& request_failures = CounterFamily(registry, "upscaled_request_failures_total",
                                                    "Failed calls, by reason (ErrorReason).");
  Family<Counter>& refused = CounterFamily(
      registry, "upscaled_refused_total",
      "Calls refused or ended because they passed a limit, by the limit's flag or name.");
  Family<Counter>& denied_callers =
      CounterFamily(registry, "upscaled_denied_callers_total",
                    "Callers that were refused for their keys or roles, by reason.");
  Family<Counter>& tenant_calls = CounterFamily(registry, "upscaled_tenant_calls_total",
                                                "Finished calls of a tenant with limits, by code.");
  Family<Counter>& tenant_refused = CounterFamily(
      registry, "upscaled_tenant_refused_total",
      "Calls refused or ended because they passed a limit, by tenant with limits and limit.");
  Family<Counter>& tenant_cost =
      CounterFamily(registry, "upscaled_tenant_cost_total",
                    "Multiply-adds computed for the calls of a tenant with limits.");
  Family<Counter>& tenant_received_bytes =
      CounterFamily(registry, "upscaled_tenant_received_bytes_total",
                    "Bytes of images and tiles received from a tenant with limits.");
  Family<Counter>& tenant_sent_bytes =
      CounterFamily(registry, "upscaled_tenant_sent_bytes_total",
                    "Bytes of images and tiles sent to a tenant with limits.");
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
      AddCounter(registry, "upscaled_tiles_total", "Tiles that ran, also in failed batches.");
  Counter& tile_pixels = AddCounter(registry, "upscaled_tile_pixels_total",
                                    "Source pixels of the computed tiles, over all passes.");
  Counter& spared_pixels =
      AddCounter(registry, "upscaled_spared_pixels_total",
                 "Source pixels of flat areas, over all passes, copied instead of computed.");
  Counter& dropped_tiles = AddCounter(registry, "upscaled_dropped_tiles_total",
                                      "Queued tiles dropped because their call was cancelled.");
  Counter& moved_tiles =
      AddCounter(registry, "upscaled_moved_tiles_total",
                 "Tiles that ran once more on another device after theirs had failed.");
  Family<Counter>& device_failures =
      CounterFamily(registry, "upscaled_device_failures_total", "Failures that took a device out.");
  Family<Gauge>& device_up = GaugeFamily(registry, "upscaled_device_up",
                                         "1 while the device takes work, 0 while it is rebuilt.");
  Family<Counter>& device_busy =
      CounterFamily(registry, "upscaled_device_busy_seconds_total",
                    "Time that the device's streams have computed, summed over streams.");
  Family<Gauge>& device_streams =
      GaugeFamily(registry, "upscaled_device_streams", "Streams of the device: threads on a CPU.");
  Family<Gauge>& device_weights =
      GaugeFamily(registry, "upscaled_device_weight_bytes",
                  "Memory of the weights of the device's loaded networks; 0 while it is rebuilt.");
  Family<Gauge>& gpu_memory_used = GaugeFamily(registry, "upscaled_gpu_memory_used_bytes",
                                               "Memory of the GPU that all processes use.");
  Family<Gauge>& gpu_memory =
      GaugeFamily(registry, "upscaled_gpu_memory_bytes", "Memory of the GPU.");
  Family<Gauge>& gpu_utilization =
      GaugeFamily(registry, "upscaled_gpu_utilization_ratio",
                  "Share of the driver's last sample in which a kernel of any process ran.");
  Family<Counter>& model_requests =
      CounterFamily(registry, "upscaled_model_requests_total",
                    "Calls that a model has computed for; \"several\" for chains of models.");
  Family<Counter>& model_cost =
      CounterFamily(registry, "upscaled_model_cost_total",
                    "Multiply-adds computed, by model; \"several\" for chains of models.");
  Family<Counter>& model_infer =
      CounterFamily(registry, "upscaled_model_infer_seconds_total",
                    "Time of all threads that computed, by model; \"several\" for chains.");
  Counter& source_pixels =
      AddCounter(registry, "upscaled_source_pixels_total", "Pixels of the admitted sources.");
  Counter& result_pixels =
      AddCounter(registry, "upscaled_result_pixels_total", "Pixels of the computed results.");
  Counter& received_bytes =
      AddCounter(registry, "upscaled_received_bytes_total", "Bytes of images and tiles received.");
  Counter& fetched_sources =
      AddCounter(registry, "upscaled_fetched_sources_total",
                 "Calls whose source the server was to fetch from a URL, failed ones too.");
  Counter& sent_bytes =
      AddCounter(registry, "upscaled_sent_bytes_total", "Bytes of images and tiles sent.");

  Gauge& requests_in_flight = AddGauge(registry, "upscaled_requests_in_flight",
                                       "Calls that hold a slot (--max-concurrent-requests).");
  Gauge& queue_pixels =
      AddGauge(registry, "upscaled_queue_pixels",
               "Work admitted and not yet computed, in source pixels of general-2x.");
  Gauge& queue_cost = AddGauge(registry, "upscaled_queue_cost",
                               "Work admitted and not yet computed, in multiply-adds.");
  Gauge& queue_seconds =
      AddGauge(registry, "upscaled_queue_seconds",
               "Time until all admitted work is done, at the recent speed; 0 until one is known.");
  Family<Gauge>& backlog_seconds = GaugeFamily(
      registry, "upscaled_backlog_seconds",
      "Time of a device class for its admitted work, at its recent speed; 0 until one is known.");
  Gauge& queue_tiles =
      AddGauge(registry, "upscaled_queue_tiles", "Tiles waiting for a stream of a device.");
  Gauge& memory_reserved = AddGauge(registry, "upscaled_memory_reserved_bytes",
                                    "Memory that running calls have reserved; 0 without calls.");
  Gauge& memory_scratch = AddGauge(registry, "upscaled_memory_scratch_bytes",
                                   "Memory reserved for the scratch of the devices' streams.");
  Gauge& memory_budget =
      AddGauge(registry, "upscaled_memory_budget_bytes", "Memory that calls may reserve in all.");
  Gauge& models_loaded = AddGauge(registry, "upscaled_models_loaded",
                                  "Networks compiled and ready, summed over the working devices.");
  Gauge& models_refused =
      AddGauge(registry, "upscaled_models_refused",
               "Models in the repository that cannot be served, as the log says.");

  Family<Gauge>& connections =
      GaugeFamily(registry, "upscaled_connections", "Open connections, by port.");
  Family<Counter>& connections_accepted = CounterFamily(
      registry, "upscaled_connections_accepted_total", "Connections accepted, by port.");
  Family<Counter>& connections_refused =
      CounterFamily(registry, "upscaled_connections_refused_total",
                    "Connections closed as they came, by port and the limit they met.");
  Family<Counter>& connections_ended =
      CounterFamily(registry, "upscaled_connections_ended_total",
                    "Connections ended for what their clients did, by port and reason.");
  Family<Counter>& resets = CounterFamily(registry, "upscaled_resets_total",
                                          "Calls that clients aborted (RST_STREAM), by port.");
  Family<Counter>& server_resets =
      CounterFamily(registry, "upscaled_server_resets_total",
                    "Calls that the server aborted (RST_STREAM), by port.");

  Family<Counter>& results = CounterFamily(
      registry, "upscaled_results_total",
      "Images by where their results came from: computed, shared, stored, unmodified.");
  Gauge& cache_results =
      AddGauge(registry, "upscaled_result_cache_results", "Results that are stored.");
  Gauge& cache_bytes =
      AddGauge(registry, "upscaled_result_cache_bytes", "Bytes of the results that are stored.");
  Counter& cache_evictions = AddCounter(registry, "upscaled_result_cache_evictions_total",
                                        "Stored results that were removed to make room.");
  Counter& cache_errors = AddCounter(registry, "upscaled_result_cache_errors_total",
                                     "Results that could not be stored or were found damaged.");

  Gauge& ready = AddGauge(registry, "upscaled_ready",
                          "1 while the server takes calls, as /v2/health/ready says.");
  Counter& decode_crashes = AddCounter(registry, "upscaled_decode_crashes_total",
                                       "Images whose decoder crashed in its sandbox.");
  Gauge& spool_bytes =
      AddGauge(registry, "upscaled_http_spool_bytes",
               "Disk space of HTTP bodies that the server has not read yet (--spool-bytes).");
  Family<Counter>& dropped_log_lines =
      CounterFamily(registry, "upscaled_log_lines_dropped_total",
                    "Lines that the log lacks: too many of a kind, or not read in time.");
  Family<Counter>& spans =
      CounterFamily(registry, "upscaled_trace_spans_total",
                    "Spans of traces by their outcome: exported, dropped, failed.");
  Counter& lost_audit_lines =
      AddCounter(registry, "upscaled_audit_lines_lost_total",
                 "Lines that the audit log lacks: the file did not take them.");

  Gauge& resident_memory =
      AddGauge(registry, "process_resident_memory_bytes", "Resident memory of the process.");
  Gauge& virtual_memory =
      AddGauge(registry, "process_virtual_memory_bytes", "Virtual memory of the process.");
  Gauge& max_memory = AddGauge(registry, "upscaled_memory_limit_bytes",
                               "Memory that the control groups let the process have; 0: no limit.");
  Gauge& open_fds = AddGauge(registry, "process_open_fds", "Open file descriptors.");
  Gauge& max_fds =
      AddGauge(registry, "process_max_fds", "Maximum of open file descriptors (RLIMIT_NOFILE).");
  Gauge& threads = AddGauge(registry, "process_threads", "Threads of the process.");
  Gauge& max_threads = AddGauge(registry, "upscaled_threads_limit",
                                "Threads that the process may have; 0: no limit.");
  Counter& cpu_seconds = AddCounter(registry, "process_cpu_seconds_total",
                                    "CPU time of all threads, user and system.");

  void SetPort(const PortReading& port) {
    const ConnectionCounts& counts = port.connections;
    connections.Add({{"port", port.name}}).Set(static_cast<double>(counts.open));
    Raise(connections_accepted.Add({{"port", port.name}}), static_cast<double>(counts.accepted));
    Raise(resets.Add({{"port", port.name}}),
          static_cast<double>(counts.faults[static_cast<size_t>(CallFault::kReset)]));
    Raise(server_resets.Add({{"port", port.name}}),
          static_cast<double>(counts.faults[static_cast<size_t>(CallFault::kServerReset)]));
    for (int i = 0; i < kRefusals; ++i) {
      const std::string reason(RefusalName(static_cast<Refusal>(i)));
      Raise(connections_refused.Add({{"port", port.name}, {"reason", reason}}),
            static_cast<double>(counts.refused[i]));
    }
    for (int i = 0; i < kOffences; ++i) {
      const std::string reason(OffenceName(static_cast<Offence>(i)));
      Raise(connections_ended.Add({{"port", port.name}, {"reason", reason}}),
            static_cast<double>(counts.ended[i]));
    }
  }
  void CountForTenant(const RequestRecord& record) {
    const prometheus::Labels tenant = {{"tenant", record.tenant}};
    tenant_calls.Add({{"tenant", record.tenant}, {"code", absl::StatusCodeToString(record.code)}})
        .Increment();
    if (!record.limit.empty()) {
      tenant_refused.Add({{"tenant", record.tenant}, {"limit", record.limit}}).Increment();
    }
    tenant_cost.Add(tenant).Increment(static_cast<double>(record.cost));
    tenant_received_bytes.Add(tenant).Increment(static_cast<double>(record.received_bytes));
    tenant_sent_bytes.Add(tenant).Increment(static_cast<double>(record.sent_bytes));
  }
  void CountForModel(const RequestRecord& record) {
    // A name of the catalogue: no other one computes. Chains are as clients put them together.
    const bool chain = record.model.find(',') != std::string::npos;
    const prometheus::Labels model = {{"model", chain ? "several" : record.model}};
    model_requests.Add(model).Increment();
    model_cost.Add(model).Increment(static_cast<double>(record.cost));
    model_infer.Add(model).Increment(absl::ToDoubleSeconds(record.infer));
  }
  // Sets the device's gauge, or removes it if there is nothing to tell.
  template <typename Value>
  static void SetIfKnown(Family<Gauge>& gauges, const std::string& device,
                         const std::optional<Value>& value) {
    Gauge& gauge = gauges.Add({{"device", device}});
    if (value.has_value()) {
      gauge.Set(static_cast<double>(*value));
    } else {
      gauges.Remove(&gauge);
    }
  }
  void SetDevice(const DeviceReading& device) {
    device_up.Add({{"device", device.name}}).Set(device.up);
    device_streams.Add({{"device", device.name}}).Set(device.streams);
    device_weights.Add({{"device", device.name}}).Set(static_cast<double>(device.weight_bytes));
    device_busy.Add({{"device", device.name}});  // 0 for one that has not computed yet
    SetIfKnown(gpu_memory_used, device.name, device.gpu.memory_used_bytes);
    SetIfKnown(gpu_memory, device.name, device.gpu.memory_bytes);
    SetIfKnown(gpu_utilization, device.name, device.gpu.utilization);
  }
  void SetResults(const ResultReading& reading) {
    Raise(results.Add({{"from", "computed"}}), static_cast<double>(reading.computed));
    Raise(results.Add({{"from", "shared"}}), static_cast<double>(reading.shared));
    Raise(results.Add({{"from", "stored"}}), static_cast<double>(reading.stored));
    Raise(results.Add({{"from", "unmodified"}}), static_cast<double>(reading.unmodified));
    cache_results.Set(static_cast<double>(reading.cache_results));
    cache_bytes.Set(static_cast<double>(reading.cache_bytes));
    Raise(cache_evictions, static_cast<double>(reading.cache_evictions));
    Raise(cache_errors, static_cast<double>(reading.cache_errors));
  }
  void SetProcess(const ProcessUsage& usage) {
    resident_memory.Set(static_cast<double>(usage.resident_bytes));
    virtual_memory.Set(static_cast<double>(usage.virtual_bytes));
    max_memory.Set(static_cast<double>(usage.max_memory_bytes));
    open_fds.Set(static_cast<double>(usage.open_fds));
    max_fds.Set(static_cast<double>(usage.max_fds));
    threads.Set(static_cast<double>(usage.threads));
    max_threads.Set(static_cast<double>(usage.max_threads));
    Raise(cpu_seconds, usage.cpu_seconds);
  }
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
  f.requests
      .Add({{"transport", record.transport},
            {"method", record.method},
            {"code", absl::StatusCodeToString(record.code)}})
      .Increment();
  if (record.code != absl::StatusCode::kOk)
    f.request_failures.Add({{"reason", record.reason}}).Increment();
  if (record.tenant_has_limits) f.CountForTenant(record);
  if (record.cost > 0) f.CountForModel(record);
  if (!record.limit.empty()) f.refused.Add({{"limit", record.limit}}).Increment();
  f.request_duration.Add({{"method", record.method}}, kSeconds)
      .Observe(absl::ToDoubleSeconds(record.total));
  if (record.decode > absl::ZeroDuration())
    f.decode_duration.Observe(absl::ToDoubleSeconds(record.decode));
  if (record.encode > absl::ZeroDuration())
    f.encode_duration.Observe(absl::ToDoubleSeconds(record.encode));
  if (!record.fetched_from.empty()) f.fetched_sources.Increment();
  f.source_pixels.Increment(record.source_pixels);
  f.result_pixels.Increment(record.result_pixels);
  f.spared_pixels.Increment(record.spared_pixels);
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
  f.device_busy.Add({{"device", std::string(batch.device)}})
      .Increment(absl::ToDoubleSeconds(batch.busy));
  if (!batch.status.ok()) f.batch_failures.Increment();
}

void ServerMetrics::OnDropped(int64_t tiles) { families_->dropped_tiles.Increment(tiles); }

void ServerMetrics::OnMoved(int64_t tiles) { families_->moved_tiles.Increment(tiles); }

void ServerMetrics::OnDeviceFailed(const std::string& device) {
  families_->device_failures.Add({{"device", device}}).Increment();
}

void ServerMetrics::OnCallerDenied(const std::string& reason) {
  families_->denied_callers.Add({{"reason", reason}}).Increment();
}

std::string ServerMetrics::Render(const GaugeReadings& readings) const {
  Families& f = *families_;
  f.requests_in_flight.Set(readings.requests_in_flight);
  f.queue_pixels.Set(readings.queue_pixels);
  f.queue_cost.Set(static_cast<double>(readings.queue_cost));
  f.queue_seconds.Set(absl::ToDoubleSeconds(readings.queue_time));
  f.queue_tiles.Set(readings.queue_tiles);
  f.memory_reserved.Set(readings.memory_reserved_bytes);
  f.memory_scratch.Set(readings.memory_scratch_bytes);
  f.memory_budget.Set(readings.memory_budget_bytes);
  f.models_loaded.Set(readings.models_loaded);
  f.models_refused.Set(readings.models_refused);
  for (const DeviceReading& device : readings.devices) f.SetDevice(device);
  for (const DeviceClassReading& device_class : readings.device_classes) {
    f.backlog_seconds.Add({{"devices", device_class.devices}})
        .Set(absl::ToDoubleSeconds(device_class.backlog));
  }
  for (const PortReading& port : readings.ports) f.SetPort(port);
  f.SetResults(readings.results);
  f.ready.Set(readings.ready);
  f.SetProcess(readings.process);
  Raise(f.dropped_log_lines.Add({{"cause", "limit"}}),
        static_cast<double>(readings.log_lines_limited));
  Raise(f.dropped_log_lines.Add({{"cause", "lost"}}), static_cast<double>(readings.log_lines_lost));
  Raise(f.spans.Add({{"outcome", "exported"}}), static_cast<double>(readings.spans.exported));
  Raise(f.spans.Add({{"outcome", "dropped"}}), static_cast<double>(readings.spans.dropped));
  Raise(f.spans.Add({{"outcome", "failed"}}), static_cast<double>(readings.spans.failed));
  Raise(f.lost_audit_lines, static_cast<double>(readings.audit_lines_lost));
  Raise(f.decode_crashes, static_cast<double>(readings.decode_crashes));
  f.spool_bytes.Set(static_cast<double>(readings.spool_bytes));
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, f.registry.Collect());
  return text.str();
}

}  // namespace upscaled::server

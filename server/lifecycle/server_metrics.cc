// Reads the server's gauges from its parts at each scrape.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/lifecycle/server.h"

namespace upscaled::server {
namespace {

ResultReading ReadResults(ResultSharing& sharing) {
  const ResultCounts& counts = sharing.counts();
  ResultReading reading{.computed = counts.computed,
                        .shared = counts.shared,
                        .stored = counts.stored,
                        .unmodified = counts.unmodified};
  if (sharing.store() != nullptr) {
    const ResultStoreCounts store = sharing.store()->counts();
    reading.cache_results = store.results;
    reading.cache_bytes = store.bytes;
    reading.cache_evictions = store.evictions;
    reading.cache_errors = store.errors;
  }
  return reading;
}

SpanReading ReadSpans(const TraceExporter& traces) {
  const SpanCounts counts = traces.counts();
  return {.exported = counts.exported, .dropped = counts.dropped, .failed = counts.failed};
}

}  // namespace

std::vector<DeviceClassReading> Server::ReadDeviceClasses(const AdmissionState& state) const {
  const std::vector<DeviceClassWork> work = scheduler_.work();
  std::vector<DeviceClassReading> readings;
  for (size_t i = 0; i < work.size(); ++i) {
    const int64_t cost = i < state.class_queue_costs.size() ? state.class_queue_costs[i] : 0;
    readings.push_back({device_classes_[i], work[i].speed.TimeFor(cost)});
  }
  return readings;
}

std::string Server::RenderMetrics() {
  const AdmissionState state = admission_.state();
  int models = 0;
  std::map<std::string, int64_t> weight_bytes;  // by device
  for (const std::shared_ptr<Device>& device : quarantine_.working()) {
    models += device->models().loaded_count();
    weight_bytes[device->name()] = device->models().weight_bytes();
  }
  const LogDrops drops = logger_.drops();
  std::vector<DeviceReading> devices;
  for (const DeviceState& device : supervisor_.states()) {
    devices.push_back({.name = device.name,
                       .up = device.up,
                       .streams = device.streams,
                       .weight_bytes = weight_bytes[device.name],
                       .gpu = gpus_.Read(device.name)});
  }
  return metrics_.Render(
      {.requests_in_flight = state.requests,
       .queue_pixels = QueuePixels(state.queue_cost),
       .queue_cost = state.queue_cost,
       .queue_time = state.queue_time,
       .queue_tiles = scheduler_.load().queued_tiles,
       .memory_reserved_bytes = state.memory_bytes,
       .memory_scratch_bytes = state.scratch_bytes,
       .memory_budget_bytes = admission_.memory_budget_bytes(),
       .models_loaded = models,
       .models_refused = static_cast<int64_t>(catalog_.refused().size()),
       .devices = std::move(devices),
       .device_classes = ReadDeviceClasses(state),
       .ports = {{"grpc", grpc_connections_.counts()},
                 {"http", http_connections_.counts()},
                 {"admin", admin_connections_.counts()}},
       .results = ReadResults(*sharing_),
       .ready = grpc_->health().serving(),
       .process = probe_.Read(),
       .log_lines_limited = drops.limited,
       .log_lines_lost = drops.lost,
       .spans = traces_ == nullptr ? SpanReading() : ReadSpans(*traces_),
       .audit_lines_lost = audit_ == nullptr ? 0 : audit_->lost(),
       .decode_crashes = sandbox_ == nullptr ? 0 : sandbox_->crashes(),
       .spool_bytes = spool_.has_value() ? spool_->budget()->spool_bytes_in_use() : 0});
}

}  // namespace upscaled::server

// The server's metrics in Prometheus' text format. metrics.md lists them, with Triton's names.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/base/process_usage.h"
#include "server/base/request_record.h"
#include "server/batching/tile_observer.h"
#include "server/net/connection_table.h"
#include "server/telemetry/gpu_probe.h"

namespace upscaled::server {

struct DeviceReading {
  std::string name;
  bool up = true;
  int streams = 0;
  int64_t weight_bytes = 0;  // that its networks take as it packs them
  GpuReading gpu;            // empty for devices that are no GPUs of NVIDIA
};

// Equal devices with shared work.
struct DeviceClassReading {
  std::string devices;     // their names, separated by commas
  absl::Duration backlog;  // until what is admitted for them is computed
};

struct PortReading {
  std::string name;  // "grpc"
  ConnectionCounts connections;
};

// Images counted by the origin of their result, and the state of the result store.
struct ResultReading {
  int64_t computed = 0;    // for the request itself
  int64_t shared = 0;      // by another one's computation
  int64_t stored = 0;      // found in the store
  int64_t unmodified = 0;  // the client's already
  int64_t cache_results = 0, cache_bytes = 0, cache_evictions = 0, cache_errors = 0;
};

// Spans of traces since the start.
struct SpanReading {
  int64_t exported = 0, dropped = 0, failed = 0;
};

// Values of others, read when the metrics are asked for.
struct GaugeReadings {
  int64_t requests_in_flight = 0;
  int64_t queue_pixels = 0;           // the same work as queue_cost, in source pixels of general-2x
  int64_t queue_cost = 0;             // multiply-adds admitted and not yet computed
  absl::Duration queue_time;          // until that is computed
  int64_t queue_tiles = 0;            // tiles waiting for a stream
  int64_t memory_reserved_bytes = 0;  // the calls'
  int64_t memory_scratch_bytes = 0;   // the streams', which they keep
  int64_t memory_budget_bytes = 0;
  int64_t models_loaded = 0;
  int64_t models_refused = 0;
  std::vector<DeviceReading> devices;
  std::vector<DeviceClassReading> device_classes;
  std::vector<PortReading> ports;
  ResultReading results;
  bool ready = false;
  ProcessUsage process;
  int64_t log_lines_limited = 0;  // left out of the log since the start, as they came too often
  int64_t log_lines_lost = 0;     // as nobody read them in time
  SpanReading spans;
  int64_t audit_lines_lost = 0;  // not written, or found no room
  int64_t decode_crashes = 0;    // images that brought their decoder down
  int64_t spool_bytes = 0;       // of disk that bodies of HTTP take
};

struct BuildInfo {
  std::string version;
  std::string device;  // "cpu"; several are separated by commas
};

// Thread safe.
class ServerMetrics final : public TileObserver {
 public:
  ServerMetrics(const BuildInfo& build, absl::Time start_time);
  ~ServerMetrics() override;

  // Once per finished call, refused ones included.
  void OnRequest(const RequestRecord& record);

  void OnBatch(const BatchReport& batch) override;
  void OnDropped(int64_t tiles) override;
  void OnMoved(int64_t tiles) override;
  void OnDeviceFailed(const std::string& device);
  void OnCallerDenied(const std::string& reason);

  // The exposition, with these gauges.
  std::string Render(const GaugeReadings& readings) const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace upscaled::server

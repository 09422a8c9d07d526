// The server's metrics in Prometheus' text format. README.md lists them, with Triton's names.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/base/request_record.h"
#include "server/batching/tile_observer.h"

namespace upscaled::server {

struct DeviceReading {
  std::string name;
  bool up = true;
};

// Values that others own and that are read when the metrics are asked for.
struct GaugeReadings {
  int64_t requests_in_flight = 0;
  int64_t queue_pixels = 0;  // source pixels admitted and not yet computed
  int64_t queue_tiles = 0;   // tiles waiting for a stream
  int64_t memory_reserved_bytes = 0;
  int64_t memory_budget_bytes = 0;
  int64_t models_loaded = 0;
  std::vector<DeviceReading> devices;
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

  // The exposition, with these gauges.
  std::string Render(const GaugeReadings& readings) const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace upscaled::server

// The whole server: what there is, who owns whom, and the order of its beginning and its end.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backends/backend.h"
#include "engine/backends/backend_list.h"
#include "engine/base/clock.h"
#include "server/admission/admission.h"
#include "server/batching/tile_scheduler.h"
#include "server/config/config.h"
#include "server/devices/device.h"
#include "server/devices/device_chooser.h"
#include "server/devices/device_quarantine.h"
#include "server/devices/device_supervisor.h"
#include "server/http/http_server.h"
#include "server/logging/logger.h"
#include "server/metrics/metrics.h"
#include "server/models/model_catalog.h"
#include "server/rpc/grpc_server.h"

namespace upscaled::server {

// As CreateBackend, but never for "auto"; tests put a device of their own in its place.
using DeviceFactory = std::function<absl::StatusOr<std::unique_ptr<Backend>>(
    std::string_view device, const BackendOptions& options)>;

class Server {
 public:
  // Opens devices, models and ports; the server then answers, but is not ready: see WarmUp.
  // `logger` must outlive it. Errors name the setting that is at fault.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerConfig& config, Logger& logger,
                                                       const DeviceFactory& create = CreateBackend);
  // Drains, with no patience for calls that are running.
  ~Server();

  // Runs the default model once on every device, so that the first client does not pay for it, and
  // reports ready.
  absl::Status WarmUp();

  // Takes no more calls, waits for those there are for at most `timeout`, cancels the others, and
  // closes the ports. Returns whether all calls could finish. May run beside WarmUp, for which it
  // does not wait, and which then does not report ready any more.
  bool Drain(absl::Duration timeout);

  int grpc_port() const { return grpc_->port(); }
  int http_port() const { return http_ == nullptr ? 0 : http_->port(); }

  // For tests that look at what is left behind.
  AdmissionState admission_state() const { return admission_.state(); }
  TileLoad tile_load() const { return scheduler_.load(); }
  size_t health_watches() const { return grpc_->health().watch_count(); }

 private:
  Server(const ServerConfig& config, Logger& logger, ModelCatalog catalog,
         const DeviceList& devices, BackendFactory create);
  absl::Status WarmUpDevices();
  // `fault` is OK when it works again.
  void OnDeviceChanged(const Device& device, const absl::Status& fault);
  absl::Status OpenPorts();
  void OnFinished(const RequestRecord& record);
  std::string RenderMetrics();

  const ServerConfig config_;
  Logger& logger_;
  const Clock& clock_;
  ModelCatalog catalog_;
  ServerMetrics metrics_;
  AdmissionController admission_;
  DeviceSupervisor supervisor_;
  DeviceQuarantine quarantine_;
  DeviceChooser chooser_;
  TileScheduler scheduler_;
  RequestWorkers workers_;
  CallRegistry registry_;
  HandlerEnvironment handlers_;
  CallEnvironment calls_;
  std::unique_ptr<GrpcServer> grpc_;
  std::unique_ptr<HttpServer> http_;
  bool drained_ = false;
};

}  // namespace upscaled::server

// The whole server: its parts, their owners, and the order of start and stop.
#pragma once

#include <atomic>
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
#include "server/base/process_usage.h"
#include "server/base/timer.h"
#include "server/batching/tile_scheduler.h"
#include "server/config/config.h"
#include "server/devices/device.h"
#include "server/devices/device_chooser.h"
#include "server/devices/device_quarantine.h"
#include "server/devices/device_supervisor.h"
#include "server/handlers/result_sharing.h"
#include "server/http/http_server.h"
#include "server/http/operator_routes.h"
#include "server/identity/authenticator.h"
#include "server/identity/url_keys.h"
#include "server/jobs/async_jobs.h"
#include "server/lifecycle/idle_trim.h"
#include "server/lifecycle/offence_log.h"
#include "server/lifecycle/readiness.h"
#include "server/lifecycle/resource_watch.h"
#include "server/models/model_catalog.h"
#include "server/net/connection_table.h"
#include "server/net/http2_port.h"
#include "server/net/peer_names.h"
#include "server/net/tls_context.h"
#include "server/net/trusted_proxies.h"
#include "server/rest/rest_service.h"
#include "server/rpc/admin_server.h"
#include "server/rpc/grpc_server.h"
#include "server/sandbox/decode_sandbox.h"
#include "server/spool/body_budget.h"
#include "server/spool/spool.h"
#include "server/telemetry/audit_log.h"
#include "server/telemetry/logger.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/trace_exporter.h"
#include "server/telemetry/usage_ledger.h"

namespace upscaled::server {

// As CreateBackend, but never for "auto"; tests put a device of their own in its place.
using DeviceFactory = std::function<absl::StatusOr<std::unique_ptr<Backend>>(
    std::string_view device, const BackendOptions& options)>;

class Server {
 public:
  // Opens devices, models and ports; the server then answers, but is not ready: see WarmUp.
  // `logger` must outlive it. Errors name the faulty setting. `on_hopeless` as in
  // DeviceSupervisor::Hooks; also called when a call to a device does not return.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerConfig& config, Logger& logger,
                                                       const DeviceFactory& create = CreateBackend,
                                                       std::function<void()> on_hopeless = nullptr);
  // Drains, with no patience for running calls.
  ~Server();

  // Runs the default model once on every device, so the first client does not pay for it, and
  // reports ready.
  absl::Status WarmUp();

  // Runs recurring work. Outlives the ports.
  Timer& timer() { return timer_; }

  // Reloads models, certificates and keys, and reopens the audit log. Successes and failures are
  // logged. One at a time.
  void Reload();

  // Health and readiness say no from now on; calls are still taken.
  void StartLameDuck();

  // Takes no more calls, waits for those there are for at most `timeout`, cancels the others, and
  // closes the ports. Returns whether all calls could finish. May run during WarmUp: does not wait
  // for it, and WarmUp then no longer reports ready.
  bool Drain(absl::Duration timeout);
  // Its two halves, for a caller with an interest in the end of the calls' time.
  bool FinishCalls(absl::Duration timeout);
  void Close();

  int grpc_port() const { return grpc_port_->port(); }
  int http_port() const { return http_ == nullptr ? 0 : http_->port(); }
  int admin_port() const { return admin_ == nullptr ? 0 : admin_->port(); }

  // For tests of leftovers.
  AdmissionState admission_state() const { return admission_.state(); }
  TileLoad tile_load() const { return scheduler_.load(); }
  const ResultCounts& result_counts() const { return sharing_->counts(); }
  size_t health_watches() const { return grpc_->health().watch_count(); }

 private:
  Server(const ServerConfig& config, Logger& logger, ModelCatalog catalog,
         const DeviceList& devices, BackendFactory create, std::function<void()> on_hopeless);
  absl::Status WarmUpDevices();
  // "" when it is.
  std::string WhyNotLive() const;
  std::string WhyNotReady() const;
  // As ModelCache::DropUnused, of all devices; the log tells.
  void DropUnusedWeights(bool all);
  // `fault` is OK when it works again.
  void OnDeviceChanged(const Device& device, const absl::Status& fault);
  absl::Status OpenSandbox();
  // `tuning` as in ResultSharingOptions.
  void OpenResults(std::function<std::string()> tuning);
  absl::Status OpenIdentity();
  absl::Status OpenAuthenticator();
  // The audit log, the usage and the traces.
  absl::Status OpenRecords();
  absl::Status OpenJobs();
  absl::Status OpenTls();
  absl::Status OpenPorts();
  absl::Status OpenGrpcPort();
  absl::Status OpenHttpPort();
  // Where bodies of HTTP wait; without disk where the system's own folder takes no files.
  absl::StatusOr<BodyBudgetOptions> FindBodyBudget();
  absl::Status OpenAdminPort();
  HealthSource HealthTexts();
  void ReopenAuditLog();
  // Tells scheduler and models how long their calls to devices have been going on.
  void WatchDevices();
  void ReloadTls();
  void ReloadKeysIfChanged();
  void ReloadKeys();
  void TellKeys(absl::string_view name, size_t count, const absl::Status& reloaded);
  void TellKeys(const absl::Status& reloaded);
  void TellUrlKeys(const absl::Status& reloaded);
  void OnDenied(const DeniedCaller& caller);
  void OnFinished(const RequestRecord& record);
  std::vector<DeviceClassReading> ReadDeviceClasses(const AdmissionState& state) const;
  std::string RenderMetrics();
  void ReleaseSpareMemory();

  const ServerConfig config_;
  Logger& logger_;
  Timer timer_;
  const Clock& clock_;
  ModelCatalog catalog_;
  const std::vector<std::string> device_classes_;  // the names of each one's devices
  ServerMetrics metrics_;
  std::unique_ptr<AuditLog> audit_;     // null: off
  std::unique_ptr<UsageLedger> usage_;  // null: off
  OffenceLog trace_failures_;
  std::unique_ptr<TraceExporter> traces_;  // null: off
  AdmissionController admission_;
  const std::function<void()> on_hopeless_;  // may be null
  DeviceSupervisor supervisor_;
  DeviceQuarantine quarantine_;
  DeviceChooser chooser_;
  TileScheduler scheduler_;
  std::unique_ptr<DecodeSandbox> sandbox_;  // null: off, or not to be had
  std::string unsandboxed_;                 // why it is not to be had; "": nobody expects it
  CallRegistry registry_;
  Watchdog watchdog_;
  ConnectionTable grpc_connections_, http_connections_, admin_connections_;
  const TrustedProxies proxies_;
  PeerNames peers_;
  OffenceLog offences_, denials_, job_troubles_;
  std::unique_ptr<Authenticator> authenticator_;  // null: anybody may call
  std::unique_ptr<UrlKeys> url_keys_;             // null: no signed URLs
  HandlerEnvironment handlers_;
  CallEnvironment calls_;
  std::unique_ptr<ResultSharing> sharing_;     // never null after Start
  std::unique_ptr<TlsContext> tls_;            // null: no TLS
  std::unique_ptr<HandshakeCrew> handshakes_;  // null: no TLS
  std::unique_ptr<AsyncJobs> jobs_;            // null: none are kept
  // After all parts of its jobs: its end waits for them.
  ThreadPool workers_;
  std::optional<Spool> spool_;  // since OpenPorts
  const ProcessProbe probe_;
  const GpuProbe gpus_;
  ResourceWatch resources_;
  const std::unique_ptr<GrpcServer> grpc_;  // never null
  std::unique_ptr<Http2Port> grpc_port_;
  std::unique_ptr<AdminServer> admin_grpc_;
  std::unique_ptr<Http2Port> admin_grpc_port_;  // takes what admin_ hands over
  std::unique_ptr<RestService> rest_;           // null: no HTTP port
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<HttpServer> admin_;
  IdleTrim idle_trim_;
  // From here on last: they use everything above.
  absl::Time devices_watched_;  // used by device_watch_, and so is:
  bool device_is_stuck_ = false;
  Timer::Task device_watch_, idle_look_;
  std::optional<Timer::Task> tls_reload_, keys_reload_;  // empty: there is nothing to reload
  Readiness readiness_;
  absl::Time drain_end_ = absl::InfinitePast();
  bool calls_finished_ = false, finished_in_time_ = true, closed_ = false;
};

}  // namespace upscaled::server

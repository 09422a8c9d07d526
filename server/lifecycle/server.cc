#include "server/lifecycle/server.h"

#include <malloc.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "engine/base/build_id.h"
#include "engine/base/cpu_info.h"
#include "engine/base/status_macros.h"
#include "server/base/error.h"
#include "server/config/version.h"
#include "server/handlers/info_handlers.h"
#include "server/lifecycle/open_devices.h"
#include "server/lifecycle/part_options.h"
#include "server/lifecycle/self_call.h"
#include "server/lifecycle/service_manager.h"
#include "server/lifecycle/try.h"
#include "server/lifecycle/warm_up.h"
#include "server/net/descriptors.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kFileWatchInterval = absl::Seconds(2);
constexpr int kMaxHandshakers = 8;
constexpr absl::Duration kIdleLookInterval = absl::Seconds(5);
// For calls without a slot: each for a moment.
constexpr int kThreadsWithoutSlot = 4;
// Time for clients to read the last bytes.
constexpr absl::Duration kFarewell = absl::Milliseconds(500);
constexpr absl::Duration kSelfCallTimeout = absl::Seconds(3);
// For a model on a device, or the rebuilding of a device: both take seconds, with a tuner a minute.
constexpr absl::Duration kMaxLoad = absl::Minutes(10);

absl::Status Draining() {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kDraining,
                   "the server is shutting down");
}

// The settings have been checked.
TrustedProxies ProxiesOf(const ServerConfig& config) {
  std::vector<AddressPrefix> prefixes;
  for (const std::string& text : config.trusted_proxies) {
    if (const auto prefix = ParseAddressPrefix(text); prefix.ok()) prefixes.push_back(*prefix);
  }
  return TrustedProxies(std::move(prefixes));
}

absl::Status CheckDescriptors(int64_t limit) {
  if (limit >= kMinDescriptors) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the process may have ", limit,
                   " file descriptors, and the server needs at least ", kMinDescriptors,
                   ": raise the hard limit (ulimit -Hn, LimitNOFILE of systemd, --ulimit "
                   "nofile of containers)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerConfig& config, Logger& logger,
                                                      const DeviceFactory& create,
                                                      std::function<void()> on_hopeless) {
  // Before connections are counted against it.
  RETURN_IF_ERROR(CheckDescriptors(RaiseDescriptorLimit()));
  ASSIGN_OR_RETURN(const std::shared_ptr<Tuner> tuner, OpenTuner(config, logger));
  const BackendOptions options{.threads = config.threads,
                               .cpu_isa = config.cpu_isa,
                               .chooser = tuner,
                               .cache_folder = config.cache_folder.string()};
  const std::shared_ptr<KernelProofs> proofs = OpenKernelProofs(config, logger);
  const BackendFactory create_device = [create, options, proofs](const std::string& name) {
    BackendOptions own = options;
    own.proven_kernels = ProvenKernels(*proofs, name);
    return create(name, own);
  };
  ASSIGN_OR_RETURN(const DeviceList devices, OpenDevices(config, create_device, logger));
  ASSIGN_OR_RETURN(ModelCatalog catalog, OpenModels(config, devices, logger));
  std::unique_ptr<Server> server(new Server(config, logger, std::move(catalog), devices,
                                            create_device, std::move(on_hopeless)));
  server->handlers_.proofs = proofs;
  RETURN_IF_ERROR(server->OpenSandbox());
  if (config.model_repositories.size() > (config.bundled_models_last ? 1u : 0u)) {
    server->handlers_.model_folder = config.model_repositories.front();
  }
  server->OpenResults(tuner == nullptr ? std::function<std::string()>()
                                       : [tuner] { return tuner->table().Choices(); });
  if (!config.trusted_proxies.empty()) {
    server->calls_.client_of = [&proxies = server->proxies_](auto&&... arguments) {
      return proxies.ClientOf(arguments...);
    };
  }
  RETURN_IF_ERROR(server->OpenIdentity());
  RETURN_IF_ERROR(server->OpenRecords());
  RETURN_IF_ERROR(server->OpenJobs());
  RETURN_IF_ERROR(server->OpenTls());
  RETURN_IF_ERROR(server->OpenPorts());
  return server;
}

Server::Server(const ServerConfig& config, Logger& logger, ModelCatalog catalog,
               const DeviceList& devices, BackendFactory create, std::function<void()> on_hopeless)
    : config_(config),
      logger_(logger),
      clock_(Clock::Real()),
      catalog_(std::move(catalog)),
      device_classes_(ClassNames(devices)),
      metrics_({.version = kVersion, .device = DeviceNames(devices)}, ProcessProbe().start_time()),
      trace_failures_(logger_, clock_, "could not hand over spans of traces"),
      admission_(config_.limits, config_.memory_budget_bytes, clock_),
      on_hopeless_(std::move(on_hopeless)),
      supervisor_(devices, clock_, timer_, logger_,
                  {.create = std::move(create),
                   .probe = [this](Device& device) -> absl::Status {
                     ASSIGN_OR_RETURN(const auto model, catalog_.Find(""));
                     return WarmUpDevice(device, *model);
                   },
                   .restore = [this](auto device) { quarantine_.Restore(std::move(device)); },
                   .on_change = [this] { grpc_->health().Refresh(); },
                   .on_hopeless = on_hopeless_}),
      quarantine_(devices, [this](const Device& device,
                                  const absl::Status& fault) { OnDeviceChanged(device, fault); }),
      chooser_(quarantine_, [this] { return scheduler_.work(); }),
      scheduler_(quarantine_, clock_, {}, &metrics_),
      watchdog_(timer_),
      grpc_connections_(ConnectionLimitsOf(config_)),
      http_connections_(ConnectionLimitsOf(config_)),
      admin_connections_(ConnectionLimitsOf(config_)),
      proxies_(ProxiesOf(config_)),
      offences_(logger_, clock_, "ended a connection"),
      denials_(logger_, clock_, "refused a caller"),
      job_troubles_(logger_, clock_, "trouble with the queue of jobs or their store"),
      handlers_{.catalog = catalog_,
                .admission = admission_,
                .chooser = chooser_,
                .scheduler = scheduler_,
                .quarantine = quarantine_,
                .devices = supervisor_,
                .clock = clock_,
                .version = kVersion},
      calls_{.admission = admission_,
             .workers = workers_,
             .timer = timer_,
             .watchdog = watchdog_,
             .registry = registry_,
             .clock = clock_,
             .on_finished = [this](const RequestRecord& record) { OnFinished(record); },
             .start_timeout = config_.start_timeout,
             .stall_timeout = config_.stall_timeout,
             .min_progress_bytes = MinProgressBytes(config_),
             .peer = [this](const std::string& name) { return peers_.Find(name); }},
      workers_(config_.limits.max_concurrent_requests + kThreadsWithoutSlot),
      gpus_(timer_, absl::StrSplit(DeviceNames(devices), ','), clock_),
      grpc_(std::make_unique<GrpcServer>(
          GrpcServerOptions{.max_connection_age = config_.max_connection_age,
                            .idle_timeout = config_.idle_timeout,
                            .transport_bytes = config_.transport_memory_bytes,
                            .output_queue_bytes = config_.output_ring_bytes,
                            .limits = config_.limits},
          handlers_, calls_)),
      idle_trim_(admission_, [this] { ReleaseSpareMemory(); }),
      devices_watched_(clock_.Now()),
      device_watch_(
          timer_, Timer::Length::kQuick, [this] { WatchDevices(); }, TileScheduler::kRunCheck),
      idle_look_(
          timer_, Timer::Length::kMayBlock, [this] { idle_trim_.Look(); }, kIdleLookInterval),
      readiness_(
          timer_,
          {.self_call =
               [this] { return CallSelf(SelfTarget(config_, *grpc_port_), kSelfCallTimeout); },
           .resources =
               [this] {
                 const ProcessUsage usage = probe_.Read();
                 DropUnusedWeights(/*all=*/ResourceWatch::IsMemoryPressed(usage));
                 return resources_.Check(usage);
               }},
          {.on_change = [this](bool ready) { grpc_->health().SetReady(ready); },
           .on_served =
               [this] {
                 if (WhyNotLive().empty()) NotifyServiceManager("WATCHDOG=1");
               }},
          logger_) {}

Server::~Server() {
  readiness_.Stop();
  Drain(absl::ZeroDuration());
  // Before its callees are destroyed: a thread may still report a device after another thread ended
  // its tiles.
  scheduler_.Stop(Draining());
  supervisor_.Stop();
}

absl::Status Server::OpenSandbox() {
  if (config_.decode_sandbox == SandboxMode::kOff) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<DecodeSandbox>> sandbox =
      DecodeSandbox::Start(DecodeWorkerProgram());
  if (!sandbox.ok()) {
    if (config_.decode_sandbox == SandboxMode::kOn) return sandbox.status();
    const std::string reason(sandbox.status().message());
    const LogField fields[] = {{"reason", reason}};
    logger_.Log(LogLevel::kWarning, "images are decoded in the server's own process", fields);
    unsandboxed_ = absl::StrCat(
        "warning: images are decoded in the server's own process (decode-sandbox=auto): ", reason);
    return absl::OkStatus();
  }
  sandbox_ = *std::move(sandbox);
  handlers_.open_image = [this](const ImageHeader& header, ByteSource& source,
                                const DecodeLimits& limits, Cancellation* cancellation,
                                const DecodeAccount& account) {
    return sandbox_->Open(header, source, limits, cancellation, account);
  };
  return absl::OkStatus();
}

void Server::OpenResults(std::function<std::string()> tuning) {
  // Builds of one version may compute differently: another compiler is enough.
  ResultSharingOptions options{.software = absl::StrCat(kVersion, " ", BuildId()),
                               .tuning = std::move(tuning),
                               .max_held_bytes = config_.hold_source_bytes,
                               .max_computations = config_.limits.max_concurrent_requests};
  if (!config_.result_cache.empty()) {
    auto store =
        ResultStore::Open({.directory = config_.result_cache,
                           .max_bytes = config_.result_cache_bytes,
                           .warn = [this](const std::string& reason) {
                             const LogField fields[] = {{"reason", reason}};
                             logger_.Log(LogLevel::kWarning, "trouble with stored results", fields);
                           }});
    if (store.ok()) {
      options.store = *std::move(store);
    } else {
      const std::string reason(store.status().message());
      const LogField fields[] = {{"reason", reason}};
      logger_.Log(LogLevel::kError, "results are not stored", fields);
    }
  }
  sharing_ = std::make_unique<ResultSharing>(std::move(options));
  handlers_.sharing = sharing_.get();
}

absl::Status Server::OpenIdentity() {
  if (!config_.url_keys.empty()) {
    ASSIGN_OR_RETURN(url_keys_, UrlKeys::Load(config_.url_keys));
  }
  if (!config_.auth_keys.empty()) RETURN_IF_ERROR(OpenAuthenticator());
  if (url_keys_ != nullptr || authenticator_ != nullptr) {
    keys_reload_.emplace(
        timer_, Timer::Length::kMayBlock, [this] { ReloadKeysIfChanged(); }, kFileWatchInterval);
  }
  return absl::OkStatus();
}

absl::Status Server::OpenAuthenticator() {
  ASSIGN_OR_RETURN(authenticator_,
                   Authenticator::Load(config_.auth_keys, clock_, timer_,
                                       [this](const DeniedCaller& caller) { OnDenied(caller); }));
  calls_.authenticator = authenticator_.get();
  const LogField fields[] = {{"keys", static_cast<int64_t>(authenticator_->key_count())}};
  logger_.Log(LogLevel::kInfo, "callers need keys", fields);
  return absl::OkStatus();
}

absl::Status Server::OpenRecords() {
  if (!config_.audit_log.empty()) {
    const auto on_lost = [this](int64_t lines, std::string_view reason) {
      const LogField fields[] = {{"lines", lines}, {"reason", reason}};
      logger_.Log(LogLevel::kError, "lost lines of the audit log", fields);
    };
    ASSIGN_OR_RETURN(audit_, AuditLog::Open(timer_, config_.audit_log, on_lost));
  }
  if (!config_.usage_db.empty()) {
    const auto on_failure = [this](const absl::Status& failure) {
      const std::string reason(failure.message());
      const LogField fields[] = {{"reason", reason}};
      logger_.Log(LogLevel::kError, "usage could not be written", fields);
    };
    ASSIGN_OR_RETURN(usage_, UsageLedger::Open(timer_, config_.usage_db, on_failure));
    handlers_.usage = usage_.get();
  }
  if (!config_.trace_endpoint.empty()) {
    const auto on_failure = [this](int64_t spans, const absl::Status& reason) {
      const std::string text(reason.message());
      trace_failures_.OnOffence({{"spans", spans}, {"reason", text}});
    };
    traces_ = std::make_unique<TraceExporter>(
        timer_, TraceExporterOptions{
                    .url = config_.trace_endpoint, .version = kVersion, .on_failure = on_failure});
    calls_.trace_ratio = config_.trace_ratio;
  }
  return absl::OkStatus();
}

absl::Status Server::OpenJobs() {
  if (config_.job_queue.empty()) return absl::OkStatus();
  const auto warn = [this](const absl::Status& trouble) {
    const std::string reason(trouble.message());
    job_troubles_.OnOffence({{"reason", reason}});
  };
  absl::StatusOr<std::unique_ptr<AsyncJobs>> jobs =
      AsyncJobs::Open(timer_, {.queue = config_.job_queue,
                               .store = config_.job_store,
                               .max_bytes = config_.job_store_bytes,
                               .retention = config_.job_retention,
                               .warn = warn});
  if (!jobs.ok()) {
    return absl::Status(jobs.status().code(),
                        absl::StrCat("--job-queue, --job-store: ", jobs.status().message()));
  }
  jobs_ = *std::move(jobs);
  return absl::OkStatus();
}

absl::Status Server::OpenTls() {
  if (!config_.tls.enabled()) return absl::OkStatus();
  ASSIGN_OR_RETURN(tls_, TlsContext::Load({.cert = config_.tls.cert,
                                           .key = config_.tls.key,
                                           .client_ca = config_.tls.client_ca}));
  handshakes_ =
      std::make_unique<HandshakeCrew>(std::clamp(AvailableCpuCount(), 1, kMaxHandshakers));
  tls_reload_.emplace(
      timer_, Timer::Length::kMayBlock, [this] { ReloadTls(); }, kFileWatchInterval);
  return absl::OkStatus();
}

void Server::ReopenAuditLog() {
  const absl::Status reopened = audit_->Reopen();
  if (reopened.ok()) return logger_.Info("opened the audit log again");
  const std::string error(reopened.message());
  const LogField fields[] = {{"error", error}};
  logger_.Log(LogLevel::kError, "the audit log stays the file that it was", fields);
}

// A step longer than two intervals counts as two: the process was stopped meanwhile.
void Server::WatchDevices() {
  const absl::Time now = clock_.Now();
  const absl::Duration passed =
      std::min(now - std::exchange(devices_watched_, now), 2 * TileScheduler::kRunCheck);
  bool stuck = scheduler_.WatchRuns(passed);
  stuck |= supervisor_.RebuildingFor(passed) >= kMaxLoad;
  for (const std::shared_ptr<Device>& device : quarantine_.working()) {
    const absl::Duration taken = device->models().CompilingFor(passed);
    if (taken < kMaxLoad) continue;
    stuck = true;
    quarantine_.Report(
        *device, absl::DeadlineExceededError(absl::StrCat(
                     device->name(), ": no model is loaded after ", absl::FormatDuration(taken))));
    device->backend().GiveUp();
  }
  if (!stuck || std::exchange(device_is_stuck_, true)) return;
  logger_.Log(LogLevel::kError, "a call to a device does not return; only a restart ends it", {});
  if (on_hopeless_) on_hopeless_();
}

void Server::ReloadTls() {
  const absl::StatusOr<bool> reloaded = tls_->ReloadIfChanged();
  if (reloaded.ok() && *reloaded) logger_.Info("the TLS files have changed and are in use");
  if (reloaded.ok()) return;
  const std::string reason(reloaded.status().message());
  const LogField fields[] = {{"reason", reason}};
  logger_.Log(LogLevel::kError, "the TLS files have changed and cannot be used; the old ones are",
              fields);
}

void Server::ReloadKeysIfChanged() {
  if (authenticator_ != nullptr) {
    const absl::StatusOr<bool> reloaded = authenticator_->ReloadIfChanged();
    if (!reloaded.ok() || *reloaded) TellKeys(reloaded.status());
  }
  if (url_keys_ == nullptr) return;
  const absl::StatusOr<bool> reloaded = url_keys_->ReloadIfChanged();
  if (!reloaded.ok() || *reloaded) TellUrlKeys(reloaded.status());
}

void Server::ReloadKeys() {
  if (authenticator_ != nullptr) TellKeys(Try([this] { return authenticator_->Reload(); }));
  if (url_keys_ != nullptr) TellUrlKeys(Try([this] { return url_keys_->Reload(); }));
}

void Server::TellKeys(absl::string_view name, size_t count, const absl::Status& reloaded) {
  const std::string error(reloaded.message());
  const LogField failed[] = {{"error", error}};
  const LogField read[] = {{"keys", static_cast<int64_t>(count)}};
  if (reloaded.ok()) return logger_.Log(LogLevel::kInfo, absl::StrCat("reloaded ", name), read);
  logger_.Log(LogLevel::kError, absl::StrCat(name, " stay as they were"), failed);
}

void Server::TellKeys(const absl::Status& reloaded) {
  TellKeys("the keys", authenticator_->key_count(), reloaded);
}

void Server::TellUrlKeys(const absl::Status& reloaded) {
  TellKeys("the keys of signed URLs", url_keys_->get()->size(), reloaded);
}

void Server::OnDenied(const DeniedCaller& caller) {
  metrics_.OnCallerDenied(std::string(DenialName(caller.denial)));
  // A caller without a key yet, such as the page before its user types one, does nothing wrong.
  if (caller.denial == Denial::kNoKey) return;
  std::vector<LogField> fields = {{"peer", caller.address}, {"reason", DenialName(caller.denial)}};
  if (caller.principal != nullptr) fields.push_back({"key", caller.principal->name});
  if (!caller.why.empty()) fields.push_back({"why", caller.why});
  denials_.OnOffence(std::move(fields));
}

HealthSource Server::HealthTexts() {
  return {.why_not_live = [this] { return WhyNotLive(); },
          .why_not_ready = [this] { return WhyNotReady(); }};
}

absl::Status Server::WarmUp() {
  RETURN_IF_ERROR(WarmUpDevices());
  supervisor_.Start();
  grpc_->health().SetServing();
  readiness_.Start();
  if (!grpc_->health().serving()) return absl::OkStatus();  // a drain or a failure came first
  for (const DeviceState& device : supervisor_.states()) {
    const LogField fields[] = {
        {"device", device.name}, {"description", device.description}, {"streams", device.streams}};
    logger_.Log(LogLevel::kInfo, "computes on", fields);
  }
  const std::string model = catalog_.default_model();
  const LogField fields[] = {{"model", model},
                             {"models", static_cast<int64_t>(catalog_.entries().size())},
                             {"refused", static_cast<int64_t>(catalog_.refused().size())}};
  logger_.Log(LogLevel::kInfo, "ready", fields);
  return absl::OkStatus();
}

absl::Status Server::WarmUpDevices() {
  ASSIGN_OR_RETURN(const std::shared_ptr<const CatalogEntry> model, catalog_.Find(""));
  for (const std::shared_ptr<Device>& device : quarantine_.working()) {
    RETURN_IF_ERROR(WarmUpDevice(*device, *model));
  }
  const ModelPass warm{model->card, &WarmVariant(*model->card)};
  ASSIGN_OR_RETURN(const DeviceChooser::Choice choice,
                   chooser_.Load({&warm, 1}, model->default_precision, /*pixels=*/0));
  // Every server needs at least this much.
  const DeviceExecutable& executable = *choice.executables.front();
  const size_t scratch_bytes = executable.ScratchBytes(executable.PreferredTile());
  return admission_.Reserve({.scratch_bytes = static_cast<int64_t>(scratch_bytes)}).status();
}

void Server::DropUnusedWeights(bool all) {
  for (const std::shared_ptr<Device>& device : quarantine_.working()) {
    const int64_t bytes = device->models().DropUnused(all);
    if (bytes == 0) continue;
    const LogField fields[] = {{"device", device->name()}, {"bytes", bytes}};
    logger_.Log(LogLevel::kInfo,
                all ? "memory is short: dropped unused weights"
                    : "weights beyond --weight-memory were dropped",
                fields);
  }
}

void Server::ReleaseSpareMemory() {
  for (const std::shared_ptr<Device>& device : quarantine_.working()) {
    device->backend().ReleaseSpareMemory();
  }
  malloc_trim(0);  // each thread's arena keeps what calls have freed
}

void Server::OnDeviceChanged(const Device& device, const absl::Status& fault) {
  if (!fault.ok()) {
    metrics_.OnDeviceFailed(device.name());
    supervisor_.OnFailed(device, fault);
  }
  scheduler_.OnDeviceChanged(device);
}

void Server::Reload() {
  if (audit_ != nullptr) ReopenAuditLog();  // first: the others may take long
  RequestRecord record;
  upscale::v1::ReloadModelsResponse report;
  const absl::Status models = Try([&] { return ReloadModels(handlers_, record, report); });
  if (models.ok()) {
    const LogField fields[] = {{"added", int64_t{report.added_size()}},
                               {"changed", int64_t{report.changed_size()}},
                               {"removed", int64_t{report.removed_size()}},
                               {"unchanged", int64_t{report.unchanged_size()}},
                               {"refused", int64_t{report.refused_size()}}};
    logger_.Log(LogLevel::kInfo, "reloaded the models", fields);
  } else {
    const std::string error =
        record.message.empty() ? std::string(models.message()) : record.message;
    const LogField fields[] = {{"error", error}};
    logger_.Log(LogLevel::kError, "the models stay as they were", fields);
  }
  ReloadKeys();
  if (tls_ == nullptr) return;
  if (const absl::Status certificates = Try([this] { return tls_->Reload(); });
      !certificates.ok()) {
    const std::string error(certificates.message());
    const LogField fields[] = {{"error", error}};
    logger_.Log(LogLevel::kError, "the certificates stay as they were", fields);
  } else {
    logger_.Info("reloaded the certificates");
  }
}

// By then the device has been tried ten times. Only a new process may help.
std::string Server::WhyNotLive() const {
  constexpr absl::Duration kHopeless = absl::Minutes(5);
  if (supervisor_.all_down_for() < kHopeless) return "";
  return absl::StrCat("no device has worked for ", absl::FormatDuration(kHopeless));
}

std::string Server::WhyNotReady() const {
  if (const absl::Status state = readiness_.state(); !state.ok()) {
    return std::string(state.message());
  }
  if (quarantine_.working().empty()) return "no device works";
  if (grpc_->health().serving()) return "";
  return grpc_->health().stopped() ? "draining: running calls finish, new ones are refused"
                                   : "starting: the default model is not warm on every device yet";
}

void Server::StartLameDuck() {
  readiness_.Stop();
  grpc_->health().Stop();
}

bool Server::Drain(absl::Duration timeout) {
  const bool finished = FinishCalls(timeout);
  Close();
  return finished;
}

bool Server::FinishCalls(absl::Duration timeout) {
  if (std::exchange(calls_finished_, true)) return finished_in_time_;
  drain_end_ = clock_.Now() + timeout;
  StartLameDuck();
  admission_.StartDraining();
  if (http_ != nullptr) http_->StartDraining();
  finished_in_time_ = admission_.AwaitIdle(timeout);
  if (!finished_in_time_) registry_.CancelAll(Draining());
  if (http_ == nullptr) return finished_in_time_;
  rest_->EndStreams();
  // HTTP calls have ended, and slow readers may still read their results.
  const absl::Duration left = std::clamp(drain_end_ - clock_.Now(), kFarewell, absl::Hours(24));
  finished_in_time_ = http_->AwaitAnswers(left) && finished_in_time_;
  return finished_in_time_;
}

void Server::Close() {
  if (std::exchange(closed_, true)) return;
  admin_.reset();
  for (Http2Port* port : {admin_grpc_port_.get(), grpc_port_.get()}) {
    if (port != nullptr) port->StopAccepting();
  }
  // Running tiles still end. Should one not, the process does: see ForcedExit.
  admission_.AwaitIdle(absl::InfiniteDuration());
  for (Http2Port* port : {admin_grpc_port_.get(), grpc_port_.get()}) {
    if (port != nullptr) port->Hurry(kFarewell);
  }
  // First, because gRPC's end cancels all calls, and HTTP calls may send an error yet.
  if (http_ != nullptr) http_->Close(kFarewell);
  if (admin_grpc_ != nullptr) admin_grpc_->Shutdown();
  grpc_->Shutdown(Draining());
  for (Http2Port* port : {admin_grpc_port_.get(), grpc_port_.get()}) {
    if (port != nullptr) port->Close(kFarewell);
  }
}

void Server::OnFinished(const RequestRecord& record) {
  metrics_.OnRequest(record);
  logger_.LogRequest(record);
  const absl::Time now = absl::Now();
  if (audit_ != nullptr) audit_->Add(record, now);
  if (usage_ != nullptr) usage_->Add(record, now);
  if (traces_ != nullptr) traces_->Add(record, now);
}

}  // namespace upscaled::server

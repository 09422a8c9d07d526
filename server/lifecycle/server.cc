#include "server/lifecycle/server.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "engine/base/cpu_info.h"
#include "engine/base/status_macros.h"
#include "server/base/endpoint.h"
#include "server/base/error.h"
#include "server/config/version.h"
#include "server/fetch/fetch_options.h"
#include "server/handlers/info_handlers.h"
#include "server/http/operator_routes.h"
#include "server/lifecycle/build_id.h"
#include "server/lifecycle/open_devices.h"
#include "server/lifecycle/service_manager.h"
#include "server/lifecycle/warm_up.h"
#include "server/net/descriptors.h"
#include "server/readiness/self_call.h"
#include "server/rest/http_guard.h"
#include "server/rest/usage_route.h"

namespace upscaled::server {
namespace {

constexpr char kHttpTitle[] = "upscaled: image upscaling.";
constexpr char kAdminTitle[] = "upscaled: the operators' port.";
constexpr absl::Duration kFileWatchInterval = absl::Seconds(2);
// For clients to take what they have been sent last.
constexpr absl::Duration kFarewell = absl::Milliseconds(500);
constexpr absl::Duration kSelfCallTimeout = absl::Seconds(3);

absl::Status Draining() {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kDraining,
                   "the server is shutting down");
}

// Third parties' exceptions as a Status.
absl::Status Try(const std::function<absl::Status()>& action) try {
  return action();
} catch (const std::exception& error) {
  return absl::InternalError(error.what());
}

// `address` with the port that it got.
std::string WithPort(const std::string& address, int port) {
  Endpoint endpoint = *ParseEndpoint(address);
  endpoint.port = port;
  return FormatEndpoint(endpoint);
}

// Threads that relay gRPC connections: each moves gigabytes a second.
int RelayThreads() {
  constexpr int kCoresPerThread = 8, kMaxThreads = 8;
  return std::clamp(AvailableCpuCount() / kCoresPerThread, 1, kMaxThreads);
}

SelfCallTarget SelfTarget(const ServerConfig& config, const Http2Port& port) {
  return {.endpoint = port.own_endpoint(),
          .tls = config.tls.enabled(),
          .client_certificates = !config.tls.client_ca.empty(),
          .cert = config.tls.cert,
          .key = config.tls.key};
}

// A port's, but no more connections than there are descriptors for, and of one address no more than
// leave some to others.
ConnectionLimits ConnectionLimitsOf(const ServerConfig& config) {
  constexpr int64_t kDescriptorsEach = 3;  // the client's socket and a pair behind it
  const int64_t room =
      std::max<int64_t>((DescriptorLimit() - kReservedDescriptors) / kDescriptorsEach, 4);
  const auto all = static_cast<int>(std::min<int64_t>(config.max_connections, room));
  const bool calls_itself_over_unix = ParseEndpoint(config.listen)->is_unix();
  const bool by_default =
      config.max_connections_per_address == ServerConfig().max_connections_per_address;
  return {.max_connections = all,
          .max_connections_per_address =
              by_default ? std::min(config.max_connections_per_address, std::max(all * 3 / 4, 1))
                         : config.max_connections_per_address,
          .exempt_host = calls_itself_over_unix ? kOwnProcess : kSelfCallHost};
}

// Gives connections to gRPC, which knows them by their descriptors alone.
std::function<void(UniqueFd, const PeerAddress&)> HandTo(ConnectionIntake& grpc, PeerNames& peers) {
  return [&grpc, &peers](UniqueFd socket, const PeerAddress& peer) {
    grpc.Add(peers.Add(std::move(socket), peer));
  };
}

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

absl::StatusOr<FetchOptions> ToFetchOptions(const ServerConfig& config) {
  FetchOptions options{.timeout = config.fetch_timeout,
                       .stall_timeout = config.fetch_stall_timeout,
                       .ca = config.fetch_ca};
  ASSIGN_OR_RETURN(options.allowed, ParseUrlPrefixes(config.fetch_allow));
  ASSIGN_OR_RETURN(options.allowed_private, ParseUrlPrefixes(config.fetch_allow_private));
  return options;
}

std::string DeviceNames(const DeviceList& devices) {
  return absl::StrJoin(devices, ",", [](std::string* out, const std::shared_ptr<Device>& device) {
    out->append(device->name());
  });
}

std::vector<std::string> ClassNames(const DeviceList& devices) {
  std::vector<DeviceList> classes;
  for (const std::shared_ptr<Device>& device : devices) {
    classes.resize(std::max<size_t>(classes.size(), device->device_class() + 1));
    classes[device->device_class()].push_back(device);
  }
  std::vector<std::string> names;
  for (const DeviceList& device_class : classes) names.push_back(DeviceNames(device_class));
  return names;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerConfig& config, Logger& logger,
                                                      const DeviceFactory& create) {
  RaiseDescriptorLimit();  // before connections are counted against it
  ASSIGN_OR_RETURN(const std::shared_ptr<Tuner> tuner, OpenTuner(config, logger));
  const BackendOptions options{.threads = config.threads,
                               .cpu_isa = config.cpu_isa,
                               .chooser = tuner,
                               .cache_folder = config.cache_folder.string()};
  const BackendFactory create_device = [create, options](const std::string& name) {
    return create(name, options);
  };
  ASSIGN_OR_RETURN(const DeviceList devices, OpenDevices(config, create_device, logger));
  ASSIGN_OR_RETURN(ModelCatalog catalog, OpenModels(config, devices, logger));
  std::unique_ptr<Server> server(
      new Server(config, logger, std::move(catalog), devices, create_device));
  RETURN_IF_ERROR(server->OpenSandbox());
  if (config.model_repositories.size() > (config.bundled_models_last ? 1u : 0u)) {
    server->handlers_.model_folder = config.model_repositories.front();
  }
  server->OpenResults(tuner == nullptr ? std::function<std::string()>()
                                       : [tuner] { return tuner->table().Choices(); });
  RETURN_IF_ERROR(server->OpenIdentity());
  RETURN_IF_ERROR(server->OpenRecords());
  RETURN_IF_ERROR(server->OpenPorts());
  return server;
}

Server::Server(const ServerConfig& config, Logger& logger, ModelCatalog catalog,
               const DeviceList& devices, BackendFactory create)
    : config_(config),
      logger_(logger),
      clock_(Clock::Real()),
      catalog_(std::move(catalog)),
      device_classes_(ClassNames(devices)),
      metrics_({.version = kVersion, .device = DeviceNames(devices)}, ProcessProbe().start_time()),
      trace_failures_(logger_, clock_, "could not hand over spans of traces"),
      admission_(config_.limits, config_.memory_budget_bytes, clock_),
      supervisor_(devices, clock_, logger_,
                  {.create = std::move(create),
                   .probe = [this](Device& device) -> absl::Status {
                     ASSIGN_OR_RETURN(const auto model, catalog_.Find(""));
                     return WarmUpDevice(device, *model);
                   },
                   .restore = [this](auto device) { quarantine_.Restore(std::move(device)); },
                   .on_change = [this] { grpc_->health().Refresh(); }}),
      quarantine_(devices, [this](const Device& device,
                                  const absl::Status& fault) { OnDeviceChanged(device, fault); }),
      chooser_(quarantine_, [this] { return scheduler_.work(); }),
      scheduler_(quarantine_, clock_, {}, &metrics_),
      grpc_connections_(ConnectionLimitsOf(config_)),
      http_connections_(ConnectionLimitsOf(config_)),
      admin_connections_(ConnectionLimitsOf(config_)),
      offences_(logger_, clock_, "ended a connection"),
      denials_(logger_, clock_, "refused a caller"),
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
             .registry = registry_,
             .clock = clock_,
             .on_finished = [this](const RequestRecord& record) { OnFinished(record); },
             .start_timeout = config_.start_timeout,
             .stall_timeout = config_.stall_timeout,
             .peer = [this](const std::string& name) { return peers_.Find(name); }},
      workers_(config_.limits.max_concurrent_requests),
      grpc_(std::make_unique<GrpcServer>(
          GrpcServerOptions{.max_connection_age = config_.max_connection_age,
                            .idle_timeout = config_.idle_timeout,
                            .transport_bytes = config_.transport_memory_bytes,
                            .output_queue_bytes = config_.output_ring_bytes,
                            .limits = config_.limits},
          handlers_, calls_)),
      readiness_(
          {.self_call =
               [this] { return CallSelf(SelfTarget(config_, *grpc_port_), kSelfCallTimeout); },
           .resources = [this] { return resources_.Check(probe_.Read()); }},
          {.on_change = [this](bool ready) { grpc_->health().SetReady(ready); },
           .on_served = [] { NotifyServiceManager("WATCHDOG=1"); }},
          logger_) {}

Server::~Server() {
  readiness_.Stop();
  Drain(absl::ZeroDuration());
  // Before what they call goes: a thread may still tell of a device whose tiles another one ended.
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
    return absl::OkStatus();
  }
  sandbox_ = *std::move(sandbox);
  handlers_.open_image = [this](const ImageHeader& header, ByteSource& source,
                                const DecodeLimits& limits, Cancellation* cancellation) {
    return sandbox_->Open(header, source, limits, cancellation);
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
  if (config_.auth_keys.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(authenticator_,
                   Authenticator::Load(config_.auth_keys, clock_,
                                       [this](const DeniedCaller& caller) { OnDenied(caller); }));
  calls_.authenticator = authenticator_.get();
  keys_reload_ = std::make_unique<PeriodicTask>(housekeeping_, kFileWatchInterval,
                                                [this] { ReloadKeysIfChanged(); });
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
    ASSIGN_OR_RETURN(audit_, AuditLog::Open(config_.audit_log, on_lost));
  }
  if (!config_.usage_db.empty()) {
    const auto on_failure = [this](const absl::Status& failure) {
      const std::string reason(failure.message());
      const LogField fields[] = {{"reason", reason}};
      logger_.Log(LogLevel::kError, "usage could not be written", fields);
    };
    ASSIGN_OR_RETURN(usage_, UsageLedger::Open(config_.usage_db, on_failure));
    handlers_.usage = usage_.get();
  }
  if (!config_.trace_endpoint.empty()) {
    const auto on_failure = [this](int64_t spans, const absl::Status& reason) {
      const std::string text(reason.message());
      trace_failures_.OnOffence({{"spans", spans}, {"reason", text}});
    };
    traces_ = std::make_unique<TraceExporter>(TraceExporterOptions{
        .url = config_.trace_endpoint, .version = kVersion, .on_failure = on_failure});
    calls_.trace_ratio = config_.trace_ratio;
  }
  return absl::OkStatus();
}

absl::Status Server::OpenPorts() {
  if (config_.tls.enabled()) {
    ASSIGN_OR_RETURN(tls_, TlsContext::Load({.cert = config_.tls.cert,
                                             .key = config_.tls.key,
                                             .client_ca = config_.tls.client_ca}));
    tls_reload_ =
        std::make_unique<PeriodicTask>(housekeeping_, kFileWatchInterval, [this] { ReloadTls(); });
  }
  RETURN_IF_ERROR(OpenGrpcPort());
  if (!config_.http.empty()) RETURN_IF_ERROR(OpenHttpPort());
  if (!config_.admin.empty()) RETURN_IF_ERROR(OpenAdminPort());
  const std::string grpc_address = WithPort(config_.listen, grpc_port());
  const std::string http_address = http_ == nullptr ? "" : WithPort(config_.http, http_port());
  const std::string admin_address = admin_ == nullptr ? "" : WithPort(config_.admin, admin_port());
  const LogField fields[] = {
      {"grpc", grpc_address}, {"http", http_address}, {"admin", admin_address}};
  logger_.Log(LogLevel::kInfo, "listening", fields);
  return absl::OkStatus();
}

absl::StatusOr<BodyRoomOptions> Server::FindBodyRoom() {
  std::error_code ignored;
  BodyRoomOptions room{.spool_dir = config_.spool_dir.empty()
                                        ? std::filesystem::temp_directory_path(ignored).string()
                                        : config_.spool_dir.string(),
                       .spool_bytes = static_cast<size_t>(config_.spool_bytes)};
  if (room.spool_bytes == 0) return room;
  const absl::Status usable = OpenSpoolFile(room.spool_dir).status();
  if (usable.ok()) return room;
  if (!config_.spool_dir.empty()) return usable;
  const std::string reason(usable.message());
  const LogField fields[] = {{"reason", reason}};
  logger_.Log(LogLevel::kWarning, "bodies of HTTP are kept in memory alone", fields);
  room.spool_bytes = 0;
  return room;
}

absl::Status Server::OpenGrpcPort() {
  RETURN_IF_ERROR(grpc_->Start());
  Http2PortOptions options{.address = config_.listen,
                           .tls = tls_.get(),
                           .stall_timeout = config_.stall_timeout,
                           .threads = RelayThreads()};
  options.on_connection = HandTo(grpc_->intake(), peers_);
  options.on_offence = [this](const PeerAddress& peer, Offence offence) {
    offences_.OnOffence({{"peer", peer.name}, {"reason", OffenceName(offence)}});
  };
  ASSIGN_OR_RETURN(grpc_port_, Http2Port::Start(std::move(options), grpc_connections_));
  return absl::OkStatus();
}

absl::Status Server::OpenHttpPort() {
  ASSIGN_OR_RETURN(BodyRoomOptions bodies, FindBodyRoom());
  ASSIGN_OR_RETURN(FetchOptions fetch, ToFetchOptions(config_));
  rest_ = std::make_unique<RestService>(
      handlers_, calls_,
      RestOptions{
          .web = config_.web, .cors_origins = config_.cors_origins, .fetch = std::move(fetch)});
  HttpServerOptions options{.address = config_.http,
                            .title = kHttpTitle,
                            .routes = rest_->Routes(),
                            .guard = MakeHttpGuard(authenticator_.get(), calls_),
                            .fault_answer = rest_->FaultAnswer(),
                            .limits = {.stall_timeout = config_.stall_timeout},
                            .bodies = std::move(bodies),
                            .tls = tls_.get()};
  for (HttpRoute& route : HealthRoutes(HealthTexts())) options.routes.push_back(std::move(route));
  ASSIGN_OR_RETURN(http_, HttpServer::Start(std::move(options), http_connections_));
  return absl::OkStatus();
}

absl::Status Server::OpenAdminPort() {
  // Probes, scrapers and operators of this machine need neither TLS nor a key.
  ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(config_.admin));
  const bool local = IsLocal(endpoint);
  const TlsContext* const tls = local ? nullptr : tls_.get();
  const Authenticator* const authenticator = local ? nullptr : authenticator_.get();
  ASSIGN_OR_RETURN(admin_grpc_, AdminServer::Start(handlers_, calls_, authenticator));
  ASSIGN_OR_RETURN(
      admin_grpc_port_,
      Http2Port::Start({.tls = tls, .on_connection = HandTo(admin_grpc_->intake(), peers_)},
                       admin_connections_));
  std::vector<HttpRoute> routes = AdminRoutes(HealthTexts(), [this] { return RenderMetrics(); });
  routes.push_back(UsageRoute(handlers_, calls_));
  HttpServerOptions admin{.address = config_.admin,
                          .title = kAdminTitle,
                          .routes = std::move(routes),
                          .guard = MakeHttpGuard(authenticator, calls_),
                          .tls = tls,
                          .on_http2 = [this](AcceptedConnection connection) {
                            admin_grpc_port_->Take(std::move(connection));
                          }};
  ASSIGN_OR_RETURN(admin_, HttpServer::Start(std::move(admin), admin_connections_));
  return absl::OkStatus();
}

void Server::ReopenAuditLog() {
  const absl::Status reopened = audit_->Reopen();
  if (reopened.ok()) return logger_.Info("opened the audit log anew");
  const std::string error(reopened.message());
  const LogField fields[] = {{"error", error}};
  logger_.Log(LogLevel::kError, "the audit log stays the file that it was", fields);
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
  const absl::StatusOr<bool> reloaded = authenticator_->ReloadIfChanged();
  if (!reloaded.ok() || *reloaded) TellKeys(reloaded.status());
}

void Server::TellKeys(const absl::Status& reloaded) {
  const std::string error(reloaded.message());
  const LogField failed[] = {{"error", error}};
  const LogField read[] = {{"keys", static_cast<int64_t>(authenticator_->key_count())}};
  if (reloaded.ok()) return logger_.Log(LogLevel::kInfo, "reloaded the keys", read);
  logger_.Log(LogLevel::kError, "the keys stay as they were", failed);
}

void Server::OnDenied(const DeniedCaller& caller) {
  metrics_.OnCallerDenied(std::string(DenialName(caller.denial)));
  // Whoever has none yet, as the page before somebody has typed one, does nothing wrong.
  if (caller.denial == Denial::kNoKey) return;
  std::vector<LogField> fields = {{"peer", caller.address}, {"reason", DenialName(caller.denial)}};
  if (!caller.key.empty()) fields.push_back({"key", caller.key});
  if (!caller.why.empty()) fields.push_back({"why", caller.why});
  denials_.OnOffence(std::move(fields));
}

HealthSource Server::HealthTexts() {
  return {.why_not_live = [] { return std::string(); },
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
  const LogField fields[] = {{"model", catalog_.default_model()},
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
  const ModelVariant* const variant = &WarmVariant(*model->card);
  ASSIGN_OR_RETURN(
      const DeviceChooser::Choice choice,
      chooser_.Load(*model->card, {&variant, 1}, model->default_precision, /*pixels=*/0));
  // Every server needs that much, whatever its clients do.
  const DeviceExecutable& executable = *choice.executables.front();
  const size_t scratch_bytes = executable.ScratchBytes(executable.PreferredTile());
  return admission_.Reserve({.scratch_bytes = static_cast<int64_t>(scratch_bytes)}).status();
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
  if (authenticator_ != nullptr) TellKeys(Try([this] { return authenticator_->Reload(); }));
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

std::string Server::WhyNotReady() const {
  if (const absl::Status state = readiness_.state(); !state.ok()) {
    return std::string(state.message());
  }
  if (quarantine_.working().empty()) return "no device works";
  return grpc_->health().serving() ? "" : "not ready: it starts, or it drains";
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
  StartLameDuck();
  admission_.StartDraining();
  if (http_ != nullptr) http_->StartDraining();
  finished_in_time_ = admission_.AwaitIdle(timeout);
  if (!finished_in_time_) registry_.CancelAll(Draining());
  return finished_in_time_;
}

void Server::Close() {
  if (std::exchange(closed_, true)) return;
  admin_.reset();
  for (Http2Port* port : {admin_grpc_port_.get(), grpc_port_.get()}) {
    if (port != nullptr) port->StopAccepting();
  }
  // Tiles that are running still end. Should one not, the process does: see HardEnd.
  admission_.AwaitIdle(absl::InfiniteDuration());
  for (Http2Port* port : {admin_grpc_port_.get(), grpc_port_.get()}) {
    if (port != nullptr) port->Hurry(kFarewell);
  }
  // First, as gRPC's end cancels all calls: those of HTTP may still be sending what they have.
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
  for (const std::shared_ptr<Device>& device : quarantine_.working()) {
    models += device->models().loaded_count();
  }
  const LogDrops drops = logger_.drops();
  std::vector<DeviceReading> devices;
  for (const DeviceState& device : supervisor_.states())
    devices.push_back({device.name, device.up});
  return metrics_.Render({.requests_in_flight = state.requests,
                          .queue_pixels = QueuePixels(state.queue_cost),
                          .queue_cost = state.queue_cost,
                          .queue_time = state.queue_time,
                          .queue_tiles = scheduler_.load().queued_tiles,
                          .memory_reserved_bytes = state.memory_bytes + state.scratch_bytes,
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
                          .spool_bytes = http_ == nullptr ? 0 : http_->spool_bytes_in_use()});
}

}  // namespace upscaled::server

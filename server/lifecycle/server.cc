#include "server/lifecycle/server.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/autotune/tuner.h"
#include "engine/base/files.h"
#include "engine/base/status_macros.h"
#include "server/base/error.h"
#include "server/config/version.h"
#include "server/lifecycle/warm_up.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kIdleWorkerTimeout = absl::Seconds(60);

absl::Status Draining() {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kDraining,
                   "the server is shutting down");
}

// `address` with the port that it got.
std::string WithPort(const std::string& address, int port) {
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

// "" where there is none.
absl::StatusOr<std::string> ReadPem(const std::filesystem::path& path) {
  constexpr size_t kMaxPemBytes = size_t{16} << 20;
  if (path.empty()) return std::string();
  return ReadFile(path, kMaxPemBytes, {.pipes = true});
}

// The devices that `auto` chooses from, and why it cannot use others.
void LogDevices(const DeviceEnumeration& enumeration, Logger& logger) {
  for (const DeviceEnumeration::Device& device : enumeration.devices) {
    const LogField fields[] = {{"device", device.name}, {"description", device.description}};
    logger.Log(LogLevel::kInfo, "found a device", fields);
  }
  for (const std::string& note : enumeration.notes) {
    const LogField fields[] = {{"reason", note}};
    logger.Log(LogLevel::kInfo, "found no device", fields);
  }
}

absl::StatusOr<BackendOptions> MakeBackendOptions(const ServerConfig& config, Logger& logger) {
  BackendOptions options{.threads = config.threads,
                         .cpu_isa = config.cpu_isa,
                         .cache_folder = config.cache_folder.string()};
  if (config.tune != TuneMode::kOff) {
    const bool full = config.tune == TuneMode::kFull;
    ASSIGN_OR_RETURN(options.chooser,
                     Tuner::Create({.file = config.tune_file,
                                    .measure = full || config.tune == TuneMode::kFast,
                                    .budget = absl::Milliseconds(full ? 500 : 50),
                                    .warn = [&logger](const std::string& text) {
                                      logger.Log(LogLevel::kWarning, text);
                                    }}));
  }
  return options;
}

absl::StatusOr<DeviceList> OpenDevices(const std::vector<std::string>& names,
                                       const BackendFactory& create, Logger& logger) {
  std::vector<std::unique_ptr<Backend>> backends;
  for (const std::string& name : names) {
    if (name != "auto") {
      ASSIGN_OR_RETURN(backends.emplace_back(), create(name));
      continue;
    }
    const DeviceEnumeration enumeration = EnumerateDevices();
    LogDevices(enumeration, logger);
    ASSIGN_OR_RETURN(backends.emplace_back(), CreateBest(enumeration, create));
  }
  return MakeDevices(std::move(backends));
}

absl::StatusOr<ModelCatalog> OpenModels(const ServerConfig& config, const DeviceList& devices,
                                        Logger& logger) {
  ASSIGN_OR_RETURN(ModelRepository repository, ModelRepository::Open(config.model_repositories));
  return ModelCatalog::Create(
      std::move(repository),
      {.default_model = config.default_model,
       .default_precision = config.precision,
       .on_exact =
           [&logger](const std::string& model, const absl::Status& why) {
             const std::string reason(why.message());
             const LogField fields[] = {{"model", model}, {"reason", reason}};
             logger.Log(LogLevel::kWarning, "runs in exact unless a request says otherwise",
                        fields);
           }},
      [&devices](const Network& network, Precision precision) {
        return TryPrecision(devices, network, precision);
      });
}

std::string DeviceNames(const DeviceList& devices) {
  return absl::StrJoin(devices, ",", [](std::string* out, const std::shared_ptr<Device>& device) {
    out->append(device->name());
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerConfig& config, Logger& logger,
                                                      const DeviceFactory& create) {
  ASSIGN_OR_RETURN(const BackendOptions options, MakeBackendOptions(config, logger));
  const BackendFactory create_device = [create, options](const std::string& name) {
    return create(name, options);
  };
  ASSIGN_OR_RETURN(const DeviceList devices, OpenDevices(config.devices, create_device, logger));
  ASSIGN_OR_RETURN(ModelCatalog catalog, OpenModels(config, devices, logger));
  std::unique_ptr<Server> server(
      new Server(config, logger, std::move(catalog), devices, create_device));
  RETURN_IF_ERROR(server->OpenPorts());
  return server;
}

Server::Server(const ServerConfig& config, Logger& logger, ModelCatalog catalog,
               const DeviceList& devices, BackendFactory create)
    : config_(config),
      logger_(logger),
      clock_(Clock::Real()),
      catalog_(std::move(catalog)),
      metrics_({.version = kVersion, .device = DeviceNames(devices)}, clock_.Now()),
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
      workers_(config_.limits.max_concurrent_requests, kIdleWorkerTimeout),
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
             .stall_timeout = config_.stall_timeout} {}

Server::~Server() {
  Drain(absl::ZeroDuration());
  // Before what they call goes: a thread may still tell of a device whose tiles another one ended.
  scheduler_.Stop(Draining());
  supervisor_.Stop();
}

absl::Status Server::OpenPorts() {
  GrpcServerOptions options{.listen = config_.listen,
                            .max_connection_age = config_.max_connection_age,
                            .output_queue_bytes = config_.output_ring_bytes,
                            .limits = config_.limits};
  ASSIGN_OR_RETURN(options.tls.cert_chain, ReadPem(config_.tls.cert));
  ASSIGN_OR_RETURN(options.tls.private_key, ReadPem(config_.tls.key));
  ASSIGN_OR_RETURN(options.tls.client_ca, ReadPem(config_.tls.client_ca));
  ASSIGN_OR_RETURN(grpc_, GrpcServer::Start(options, handlers_, calls_));
  if (!config_.http.empty()) {
    ASSIGN_OR_RETURN(
        http_,
        HttpServer::Start(config_.http, {.live = [] { return true; },
                                         .ready = [this] { return grpc_->health().serving(); },
                                         .metrics = [this] { return RenderMetrics(); }}));
  }
  const std::string grpc_address = WithPort(config_.listen, grpc_port());
  const std::string http_address = http_ == nullptr ? "" : WithPort(config_.http, http_port());
  const LogField fields[] = {{"grpc", grpc_address}, {"http", http_address}};
  logger_.Log(LogLevel::kInfo, "listening", fields);
  return absl::OkStatus();
}

absl::Status Server::WarmUp() {
  RETURN_IF_ERROR(WarmUpDevices());
  supervisor_.Start();
  grpc_->health().SetServing();
  if (!grpc_->health().serving()) return absl::OkStatus();  // a drain or a failure came first
  for (const DeviceState& device : supervisor_.states()) {
    const LogField fields[] = {
        {"device", device.name}, {"description", device.description}, {"streams", device.streams}};
    logger_.Log(LogLevel::kInfo, "computes on", fields);
  }
  const LogField fields[] = {{"model", catalog_.default_model()},
                             {"models", static_cast<int64_t>(catalog_.entries().size())}};
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

bool Server::Drain(absl::Duration timeout) {
  if (std::exchange(drained_, true)) return true;
  if (grpc_ != nullptr) grpc_->health().Stop();
  admission_.StartDraining();
  const bool finished = admission_.AwaitIdle(timeout);
  if (!finished) {
    registry_.CancelAll(Draining());
    admission_.AwaitIdle(absl::InfiniteDuration());  // tiles that are running still end
  }
  if (grpc_ != nullptr) grpc_->Shutdown(Draining());
  http_.reset();
  return finished;
}

void Server::OnFinished(const RequestRecord& record) {
  metrics_.OnRequest(record);
  logger_.LogRequest(record);
}

std::string Server::RenderMetrics() {
  const AdmissionState state = admission_.state();
  int models = 0;
  for (const std::shared_ptr<Device>& device : quarantine_.working()) {
    models += device->models().loaded_count();
  }
  std::vector<DeviceReading> devices;
  for (const DeviceState& device : supervisor_.states())
    devices.push_back({device.name, device.up});
  return metrics_.Render({.requests_in_flight = state.requests,
                          .queue_pixels = state.queue_pixels,
                          .queue_tiles = scheduler_.load().queued_tiles,
                          .memory_reserved_bytes = state.memory_bytes + state.scratch_bytes,
                          .memory_budget_bytes = admission_.memory_budget_bytes(),
                          .models_loaded = models,
                          .devices = std::move(devices)});
}

}  // namespace upscaled::server

#include "server/lifecycle/server.h"

#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/autotune/tuner.h"
#include "engine/base/status_macros.h"
#include "server/admission/error.h"
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

absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path) {
  if (path.empty()) return std::string();
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.good() && !file.eof()) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path.string()));
  }
  return text;
}

// What `auto` chooses from, and what it cannot use.
void LogDevices(Logger& logger) {
  const DeviceSurvey survey = SurveyDevices();
  for (const DeviceSurvey::Device& device : survey.devices) {
    const LogField fields[] = {{"device", device.name}, {"description", device.description}};
    logger.Log(LogLevel::kInfo, "found a device", fields);
  }
  for (const std::string& note : survey.notes) {
    const LogField fields[] = {{"reason", note}};
    logger.Log(LogLevel::kInfo, "found no device", fields);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerConfig& config, Logger& logger,
                                                      const BackendFactory& create_backend) {
  ASSIGN_OR_RETURN(ModelRepository repository, ModelRepository::Open(config.model_repositories));
  ASSIGN_OR_RETURN(ModelCatalog catalog,
                   ModelCatalog::Create(std::move(repository), config.default_model));
  BackendOptions options{.threads = config.threads,
                         .cpu_isa = config.cpu_isa,
                         .cache_folder = config.cache_folder.string()};
  if (config.tune != TuneMode::kOff) {
    ASSIGN_OR_RETURN(options.chooser, Tuner::Create({.file = config.tune_file,
                                                     .measure = config.tune == TuneMode::kMeasure,
                                                     .warn = [&logger](const std::string& text) {
                                                       logger.Log(LogLevel::kWarning, text);
                                                     }}));
  }
  if (config.device == "auto") LogDevices(logger);
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, create_backend(config.device, options));
  std::unique_ptr<Server> server(
      new Server(config, logger, std::move(catalog), std::move(backend)));
  RETURN_IF_ERROR(server->OpenPorts());
  return server;
}

Server::Server(const ServerConfig& config, Logger& logger, ModelCatalog catalog,
               std::unique_ptr<Backend> backend)
    : config_(config),
      logger_(logger),
      clock_(Clock::Real()),
      catalog_(std::move(catalog)),
      backend_(std::move(backend)),
      metrics_({.version = kVersion, .device = std::string(backend_->name())}, clock_.Now()),
      models_(*backend_),
      admission_(config_.limits, config_.memory_budget_bytes, clock_),
      scheduler_(*backend_, clock_, {}, &metrics_),
      workers_(config_.limits.max_concurrent_requests, kIdleWorkerTimeout),
      handlers_{.catalog = catalog_,
                .models = models_,
                .admission = admission_,
                .scheduler = scheduler_,
                .backend = *backend_,
                .clock = clock_,
                .default_precision = config_.precision,
                .version = kVersion},
      calls_{.admission = admission_,
             .workers = workers_,
             .registry = registry_,
             .clock = clock_,
             .on_finished = [this](const RequestRecord& record) { OnFinished(record); },
             .stall_timeout = config_.stall_timeout} {}

Server::~Server() { Drain(absl::ZeroDuration()); }

absl::Status Server::OpenPorts() {
  GrpcServerOptions options{.listen = config_.listen,
                            .max_connection_age = config_.max_connection_age,
                            .output_queue_bytes = config_.output_ring_bytes,
                            .limits = config_.limits};
  ASSIGN_OR_RETURN(options.tls.cert_chain, ReadFile(config_.tls.cert));
  ASSIGN_OR_RETURN(options.tls.private_key, ReadFile(config_.tls.key));
  ASSIGN_OR_RETURN(options.tls.client_ca, ReadFile(config_.tls.client_ca));
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
  RETURN_IF_ERROR(RunWarmUp(handlers_));
  grpc_->health().SetServing();
  if (!grpc_->health().serving()) return absl::OkStatus();  // a drain has begun meanwhile
  const std::string description = backend_->description();
  const LogField fields[] = {{"model", catalog_.default_model()},
                             {"models", static_cast<int64_t>(catalog_.entries().size())},
                             {"device", backend_->name()},
                             {"description", description},
                             {"streams", backend_->StreamCount()}};
  logger_.Log(LogLevel::kInfo, "ready", fields);
  return absl::OkStatus();
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
  return metrics_.Render({.requests_in_flight = state.requests,
                          .queue_pixels = state.queue_pixels,
                          .queue_tiles = scheduler_.load().queued_tiles,
                          .memory_reserved_bytes = state.memory_bytes + state.scratch_bytes,
                          .memory_budget_bytes = admission_.memory_budget_bytes(),
                          .models_loaded = models_.loaded_count()});
}

}  // namespace upscaled::server

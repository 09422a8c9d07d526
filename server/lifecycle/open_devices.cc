#include "server/lifecycle/open_devices.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/base/build_id.h"
#include "engine/base/status_macros.h"

namespace upscaled::server {
namespace {

// The devices behind `auto`, and why it cannot use others.
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

void LogModel(Logger& logger, const char* message, const std::string& model,
              const absl::Status& why) {
  const std::string reason(why.message());
  const LogField fields[] = {{"model", model}, {"reason", reason}};
  logger.Log(LogLevel::kWarning, message, fields);
}

}  // namespace

absl::StatusOr<std::shared_ptr<Tuner>> OpenTuner(const ServerConfig& config, Logger& logger) {
  if (config.tune == TuneMode::kOff) return nullptr;
  const bool full = config.tune == TuneMode::kFull;
  return Tuner::Create(
      {.file = config.tune_file,
       .measure = full || config.tune == TuneMode::kFast,
       .budget = absl::Milliseconds(full ? 500 : 50),
       .warn = [&logger](const std::string& text) { logger.Log(LogLevel::kWarning, text); }});
}

std::shared_ptr<KernelProofs> OpenKernelProofs(const ServerConfig& config, Logger& logger) {
  const auto prove = [](const std::string& device, const std::string& kernel) {
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
    return RunProver(program.parent_path() / "upscaled-prove", {device, kernel});
  };
  return std::make_shared<KernelProofs>(
      KernelProofOptions{.file = config.tune_file.empty()
                                     ? std::filesystem::path()
                                     : config.tune_file.parent_path() / "kernel-proofs.json",
                         .prove = config.tune != TuneMode::kLoad,
                         .build = BuildId()},
      prove, logger);
}

std::vector<std::string> ProvenKernels(KernelProofs& proofs, const std::string& device) {
  if (!device.starts_with("cuda")) return {};  // no other backend has such kernels
  for (const DeviceEnumeration::Device& found : EnumerateDevices().devices) {
    if (found.name == device || (device == "cuda" && found.name.starts_with(device))) {
      return proofs.ProvenOn(found.name, found.description, found.build, found.unproven_kernels);
    }
  }
  return {};
}

absl::StatusOr<DeviceList> OpenDevices(const ServerConfig& config, const BackendFactory& create,
                                       Logger& logger) {
  std::vector<std::unique_ptr<Backend>> backends;
  for (const std::string& name : config.devices) {
    if (name != "auto") {
      ASSIGN_OR_RETURN(backends.emplace_back(), create(name));
      continue;
    }
    const DeviceEnumeration enumeration = EnumerateDevices();
    LogDevices(enumeration, logger);
    ASSIGN_OR_RETURN(backends.emplace_back(), CreateBest(enumeration, create));
  }
  return MakeDevices(std::move(backends), config.weight_memory_bytes);
}

absl::StatusOr<ModelCatalog> OpenModels(const ServerConfig& config, const DeviceList& devices,
                                        Logger& logger) {
  // Bare files are read to list them; the catalogue, with its look at all of them, need not again.
  constexpr int64_t kReadAheadBytes = int64_t{512} << 20;
  ASSIGN_OR_RETURN(ModelRepository repository,
                   ModelRepository::Open(config.model_repositories, kReadAheadBytes));
  return ModelCatalog::Create(
      std::move(repository),
      {.default_model = config.default_model,
       .allowed_licences = config.allowed_licences,
       .default_precision = config.precision,
       .on_exact =
           [&logger](const std::string& model, const absl::Status& why) {
             LogModel(logger, "runs in exact unless a request says otherwise", model, why);
           },
       .on_refused =
           [&logger](const std::string& model, const absl::Status& why) {
             LogModel(logger, "does not serve a model", model, why);
           }},
      [&devices](const Network& network, Precision precision) {
        return TryPrecision(devices, network, precision);
      },
      [&devices](const Network& network, Precision precision) {
        return PlanMemory(devices, network, precision);
      });
}

}  // namespace upscaled::server

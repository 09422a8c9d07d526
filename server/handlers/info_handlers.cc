#include "server/handlers/info_handlers.h"

#include <memory>
#include <string>
#include <vector>

#include "engine/base/status_macros.h"
#include "server/base/error.h"
#include "server/handlers/convert.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

pb::Model Describe(const HandlerEnvironment& environment, const CatalogEntry& entry) {
  pb::Model model = ToProto(entry, entry.card->name == environment.catalog.default_model());
  const DeviceList devices = environment.quarantine.working();
  for (const Precision precision : entry.card->precisions) {
    if (HasPrecision(devices, precision)) model.add_precisions(ToProto(precision));
  }
  if (const auto time = environment.catalog.TimePerMegapixel(entry)) {
    model.set_seconds_per_megapixel(absl::ToDoubleSeconds(*time));
  }
  return model;
}

}  // namespace

pb::ListModelsResponse ListModels(const HandlerEnvironment& environment) {
  pb::ListModelsResponse response;
  for (const auto& entry : environment.catalog.entries()) {
    *response.add_models() = Describe(environment, *entry);
  }
  for (const RefusedModel& model : environment.catalog.refused()) {
    *response.add_refused() = ToProto(model);
  }
  return response;
}

absl::Status GetModel(const HandlerEnvironment& environment, const pb::GetModelRequest& request,
                      pb::GetModelResponse& response) {
  if (request.name().empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
                     "name is empty; it must be one that ListModels gives");
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<const CatalogEntry> entry,
                   environment.catalog.Find(request.name()));
  *response.mutable_model() = Describe(environment, *entry);
  return absl::OkStatus();
}

absl::Status ReloadModels(const HandlerEnvironment& environment, RequestRecord& record,
                          pb::ReloadModelsResponse& response) {
  const absl::StatusOr<ModelCatalog::Turn> turn = environment.catalog.TryTurn();
  if (turn.ok()) return ReloadModels(environment, *turn, record, response);
  record.message = std::string(turn.status().message());
  return turn.status();
}

absl::Status ReloadModels(const HandlerEnvironment& environment, const ModelCatalog::Turn& turn,
                          RequestRecord& record, pb::ReloadModelsResponse& response) {
  const DeviceList devices = environment.quarantine.working();
  std::vector<ModelCache*> caches;
  for (const auto& device : devices) caches.push_back(&device->models());
  const absl::StatusOr<ReloadReport> report = environment.catalog.Reload(
      turn, caches,
      [&](const Network& network, Precision precision) {
        return TryPrecision(devices, network, precision);
      },
      [&](const Network& network, Precision precision) {
        return PlanMemory(devices, network, precision);
      });
  if (!report.ok()) {
    record.message = std::string(report.status().message());
    return MakeError(report.status().code(), ReasonOf(report.status()),
                     environment.catalog.WithoutDirectories(record.message));
  }
  response.mutable_added()->Assign(report->added.begin(), report->added.end());
  response.mutable_changed()->Assign(report->changed.begin(), report->changed.end());
  response.mutable_removed()->Assign(report->removed.begin(), report->removed.end());
  response.mutable_unchanged()->Assign(report->unchanged.begin(), report->unchanged.end());
  for (const RefusedModel& model : environment.catalog.refused()) {
    *response.add_refused() = ToProto(model);
  }
  return absl::OkStatus();
}

bool AnyDeviceWorks(const HandlerEnvironment& environment) {
  return !environment.quarantine.working().empty();
}

pb::GetServerInfoResponse GetServerInfo(const HandlerEnvironment& environment) {
  pb::GetServerInfoResponse response;
  response.set_version(environment.version);
  for (const DeviceState& state : environment.devices.states()) {
    pb::Device& device = *response.add_devices();
    device = ToProto(state);
    if (environment.proofs == nullptr) continue;
    for (const auto& [kernel, verdict] : environment.proofs->VerdictsOn(state.name)) {
      *device.add_kernels() = ToProto(kernel, verdict);
    }
  }
  *response.mutable_limits() = ToProto(environment.admission.limits());
  for (const ImageFormat format : kImageFormats) {
    const bool is_safe = !NeedsCage(format) || environment.open_image != nullptr;
    if (CanDecode(format) && is_safe) response.add_input_formats(ToProto(format));
    if (CanEncode(format)) response.add_output_formats(ToProto(format));
  }
  return response;
}

}  // namespace upscaled::server

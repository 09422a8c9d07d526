#include "server/handlers/info_handlers.h"

#include <memory>
#include <string>
#include <vector>

#include "engine/base/status_macros.h"
#include "server/base/error.h"
#include "server/options/contract_values.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

pb::Model Describe(const HandlerEnvironment& environment, const CatalogEntry& entry) {
  const ModelCard& card = *entry.card;
  pb::Model model;
  model.set_name(card.name);
  model.set_family(card.family);
  model.set_style(card.style);
  model.set_description(card.description);
  model.set_licence(card.licence);
  model.set_version(card.version);
  for (const int scale : card.Scales()) model.add_scales(scale);
  for (const int level : card.NoiseLevels()) model.add_noise_levels(level);
  for (const ModelVariant& variant : card.variants) {
    pb::ModelVariant& pair = *model.add_variants();
    pair.set_scale(variant.scale);
    pair.set_noise_level(variant.noise_level);
  }
  const DeviceList devices = environment.quarantine.working();
  for (const Precision precision : card.precisions) {
    if (HasPrecision(devices, precision)) model.add_precisions(ToProto(precision));
  }
  model.set_halo_px(entry.halo_px);
  model.set_is_default(card.name == environment.catalog.default_model());
  model.set_default_precision(ToProto(entry.default_precision));
  model.mutable_aliases()->Assign(entry.aliases.begin(), entry.aliases.end());
  model.set_multiply_adds_per_pixel(entry.macs_per_pixel);
  model.set_weight_bytes(entry.weight_bytes);
  model.set_memory_bytes(entry.memory_bytes);
  model.set_architecture(entry.architecture);
  model.set_input_channels(entry.input_channels);
  if (const auto time = environment.catalog.TimePerMegapixel(entry)) {
    model.set_seconds_per_megapixel(absl::ToDoubleSeconds(*time));
  }
  return model;
}

pb::RefusedModel Describe(const RefusedModel& refused) {
  pb::RefusedModel model;
  model.set_name(refused.name);
  model.set_reason(std::string(refused.why.message()));
  return model;
}

pb::Device Describe(const DeviceState& state) {
  pb::Device device;
  device.set_name(state.name);
  device.set_description(state.description);
  device.set_streams(state.streams);
  device.set_state(state.up ? pb::DEVICE_STATE_UP : pb::DEVICE_STATE_FAILED);
  device.set_failures(state.failures);
  if (!state.up) device.set_error(std::string(state.fault.message()));
  return device;
}

pb::KernelVerdict Describe(const std::string& kernel, const KernelVerdict& verdict) {
  pb::KernelVerdict proto;
  proto.set_kernel(kernel);
  proto.set_verdict(verdict.verdict);
  proto.set_reason(verdict.reason);
  proto.set_times_as_fast(verdict.speed);
  return proto;
}

pb::Limits Describe(const Limits& limits) {
  pb::Limits proto;
  proto.set_max_source_pixels(limits.max_source_pixels);
  proto.set_max_result_pixels(limits.max_result_pixels);
  proto.set_max_source_bytes(limits.max_source_bytes);
  proto.set_max_unary_bytes(limits.max_unary_bytes);
  proto.set_max_tile_pixels(limits.max_tile_pixels);
  proto.set_max_concurrent_requests(limits.max_concurrent_requests);
  proto.set_max_queue_pixels(limits.max_queue_pixels);
  proto.set_max_metadata_bytes(limits.max_metadata_bytes);
  proto.set_max_jpeg_scans(limits.max_jpeg_scans);
  proto.set_max_frames(limits.max_frames);
  return proto;
}

}  // namespace

pb::ListModelsResponse ListModels(const HandlerEnvironment& environment) {
  pb::ListModelsResponse response;
  for (const auto& entry : environment.catalog.entries()) {
    *response.add_models() = Describe(environment, *entry);
  }
  for (const RefusedModel& model : environment.catalog.refused()) {
    *response.add_refused() = Describe(model);
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
    *response.add_refused() = Describe(model);
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
    device = Describe(state);
    if (environment.proofs == nullptr) continue;
    for (const auto& [kernel, verdict] : environment.proofs->VerdictsOn(state.name)) {
      *device.add_kernels() = Describe(kernel, verdict);
    }
  }
  *response.mutable_limits() = Describe(environment.admission.limits());
  for (const ImageFormat format : kImageFormats) {
    const bool is_safe = !NeedsCage(format) || environment.open_image != nullptr;
    if (CanDecode(format) && is_safe) response.add_input_formats(ToProto(format));
    if (CanEncode(format)) response.add_output_formats(ToProto(format));
  }
  return response;
}

}  // namespace upscaled::server

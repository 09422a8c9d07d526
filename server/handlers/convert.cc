#include "server/handlers/convert.h"

#include <string>

namespace upscaled::server {

namespace pb = upscale::v1;

pb::Model ToProto(const CatalogEntry& entry, bool is_default) {
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
  model.set_halo_px(entry.halo_px);
  model.set_is_default(is_default);
  model.set_default_precision(ToProto(entry.default_precision));
  model.mutable_aliases()->Assign(entry.aliases.begin(), entry.aliases.end());
  model.set_multiply_adds_per_pixel(entry.macs_per_pixel);
  model.set_weight_bytes(entry.weight_bytes);
  model.set_memory_bytes(entry.memory_bytes);
  model.set_architecture(entry.architecture);
  model.set_input_channels(entry.input_channels);
  return model;
}

pb::RefusedModel ToProto(const RefusedModel& refused) {
  pb::RefusedModel model;
  model.set_name(refused.name);
  model.set_reason(std::string(refused.why.message()));
  return model;
}

pb::Device ToProto(const DeviceState& state) {
  pb::Device device;
  device.set_name(state.name);
  device.set_description(state.description);
  device.set_streams(state.streams);
  device.set_state(state.up ? pb::DEVICE_STATE_UP : pb::DEVICE_STATE_FAILED);
  device.set_failures(state.failures);
  if (!state.up) device.set_error(std::string(state.fault.message()));
  return device;
}

pb::KernelVerdict ToProto(const std::string& kernel, const KernelVerdict& verdict) {
  pb::KernelVerdict proto;
  proto.set_kernel(kernel);
  proto.set_verdict(verdict.verdict);
  proto.set_reason(verdict.reason);
  proto.set_times_as_fast(verdict.speed);
  return proto;
}

pb::Limits ToProto(const Limits& limits) {
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

}  // namespace upscaled::server

#include "server/handlers/result_sharing.h"

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/image/arithmetic.h"

namespace upscaled::server {

ResultSharing::ResultSharing(ResultSharingOptions options)
    : options_(std::move(options)),
      image_arithmetic_(ImageArithmetic()),
      workers_(options_.max_computations) {}

absl::StatusOr<Digest> ResultSharing::KeyOf(const std::string& tenant, const Digest& source,
                                            const RequestOptions& options,
                                            const ResolvedJob& resolved) {
  ResultParts parts{.tenant = tenant,
                    .source = source,
                    .frame = resolved.frame,
                    .frame_is_asked = resolved.frame_is_asked,
                    .part = resolved.part,
                    .result = resolved.result,
                    .prefilter = options.prefilter,
                    .tta = options.tta,
                    .seamless = options.seamless,
                    .encode = resolved.encode,
                    .sample_type = resolved.sample_type,
                    .precision = resolved.precision,
                    .alpha = resolved.alpha,
                    .alpha_colour = resolved.alpha_colour,
                    .keep_colours = resolved.keep_colours,
                    .metadata = options.metadata,
                    .fill_damage = options.fill_damage,
                    .warnings = resolved.warnings};
  for (const ModelPass& pass : resolved.passes) {
    ASSIGN_OR_RETURN(parts.networks.emplace_back(), networks_.Of(*pass.model, *pass.variant));
  }
  return RequestKey(parts);
}

std::string ResultSharing::NameOf(const Digest& key, std::string_view arithmetic) const {
  return ResultName(key, {.software = options_.software,
                          .image = image_arithmetic_,
                          .tuning = options_.tuning ? options_.tuning() : "",
                          .device = std::string(arithmetic)});
}

std::vector<std::string> ResultSharing::NamesOf(const Digest& key, const ResolvedJob& resolved,
                                                const DeviceQuarantine& devices) const {
  if (resolved.passes.empty()) return {NameOf(key, "")};
  std::vector<std::string> names;
  for (const std::shared_ptr<Device>& device : devices.working()) {
    std::string name = NameOf(key, device->arithmetic());
    if (!std::ranges::count(names, name)) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace upscaled::server

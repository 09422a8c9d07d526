#include "server/results/result_key.h"

#include "engine/image/format_options.h"

namespace upscaled::server {
namespace {

// To be counted up whenever the fields below change their meaning.
constexpr std::string_view kRequestFormat = "upscaled request 6";
constexpr std::string_view kResultFormat = "upscaled result 2";

int64_t FormatOption(const EncodeOptions& encode) {
  return UsesCompression(encode.format) ? encode.compression : encode.quality;
}

// 0: not set; otherwise its value, counted from 1.
template <typename T>
int64_t Choice(const std::optional<T>& choice) {
  return choice.has_value() ? 1 + static_cast<int64_t>(*choice) : 0;
}

}  // namespace

Digest RequestKey(const ResultParts& parts) {
  Sha256 hash;
  hash.Field(kRequestFormat).Field(parts.tenant).Field(AsText(parts.source));
  hash.Field(static_cast<int64_t>(parts.networks.size()));
  for (const Digest& network : parts.networks) hash.Field(AsText(network));
  for (const int side : {parts.frame, parts.part.x, parts.part.y, parts.part.width,
                         parts.part.height, parts.result.width, parts.result.height}) {
    hash.Field(int64_t{side});
  }
  hash.Field(int64_t{parts.prefilter.has_value()});
  if (parts.prefilter.has_value()) {
    hash.Field(parts.prefilter->sigma_space).Field(parts.prefilter->sigma_range);
  }
  hash.Field(FormatName(parts.encode.format)).Field(FormatOption(parts.encode));
  hash.Field(static_cast<int64_t>(SampleBytes(parts.sample_type)));
  hash.Field(Choice(parts.alpha)).Field(Choice(parts.alpha_colour));
  hash.Field(Choice(parts.keep_colours));
  hash.Field(static_cast<int64_t>(parts.metadata)).Field(int64_t{parts.fill_damage});
  hash.Field(int64_t{parts.frame_is_asked})
      .Field(int64_t{parts.seamless})
      .Field(std::ssize(parts.warnings));
  for (const std::string& warning : parts.warnings) hash.Field(warning);
  if (!parts.networks.empty()) {  // nothing else knows flips and precisions
    hash.Field(int64_t{parts.tta}).Field(PrecisionName(parts.precision));
  }
  return hash.Finish();
}

std::string ResultName(const Digest& request_key, const EngineFingerprint& engine) {
  Sha256 hash;
  hash.Field(kResultFormat).Field(AsText(request_key));
  hash.Field(engine.software).Field(engine.image).Field(engine.device);
  if (!engine.device.empty()) hash.Field(engine.tuning);
  return ToHex(hash.Finish());
}

}  // namespace upscaled::server

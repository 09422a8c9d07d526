#include "server/handlers/result_headers.h"

#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/options/contract_values.h"

namespace upscaled::server {

namespace pb = upscale::v1;

namespace {

// To be counted up whenever the text of a source changes.
constexpr int kSourceFormat = 3;
constexpr size_t kSourceFields = 9;

}  // namespace

pb::UpscaleImageHeader HeaderOf(const ImageRequest& request, const std::string& name) {
  const ImageSpec& source = request.source.spec;
  const ResolvedJob& resolved = request.resolved;
  pb::UpscaleImageHeader header;
  header.set_source_width_px(source.width_px);
  header.set_source_height_px(source.height_px);
  header.set_result_width_px(resolved.result.width);
  header.set_result_height_px(resolved.result.height);
  header.set_format(ToProto(resolved.encode.format));
  header.set_bits_per_sample(static_cast<int>(8 * SampleBytes(resolved.sample_type)));
  header.set_channels(OutputSpecFor(resolved.encode.format, source).channels);
  header.set_model(request.models.name());
  if (resolved.noise_level != kNoDenoise) header.set_noise_level(resolved.noise_level);
  header.set_frames(resolved.encode.animation.value_or(Animation()).frames);
  header.set_etag(name);
  for (const std::string& warning : resolved.warnings) header.add_warnings(warning);
  header.set_not_modified(true);
  return header;
}

pb::UpscaleImageHeader StoredHeader(pb::UpscaleImageHeader announced,
                                    const pb::UpscaleSummary& summary) {
  announced.mutable_warnings()->MergeFrom(summary.warnings());
  return announced;
}

std::string SourceToText(const ImageHeader& source) {
  // The header depends on the requested frame.
  if (source.animation.has_value() || source.may_move) return "";
  const JpegCoding jpeg = source.jpeg.value_or(JpegCoding{});
  return absl::StrJoin(
      {kSourceFormat, static_cast<int>(source.format), source.spec.width_px, source.spec.height_px,
       source.spec.channels, static_cast<int>(source.spec.type), jpeg.quality,
       static_cast<int>(jpeg.subsampled), static_cast<int>(source.lossless_webp)},
      " ");
}

std::optional<ImageHeader> SourceFromText(const std::string& text) {
  std::vector<int> fields;
  for (const absl::string_view field : absl::StrSplit(text, ' ')) {
    if (!absl::SimpleAtoi(field, &fields.emplace_back())) return std::nullopt;
  }
  if (fields.size() != kSourceFields || fields[0] != kSourceFormat) return std::nullopt;
  ImageHeader header;
  header.format = static_cast<ImageFormat>(fields[1]);
  header.spec = {fields[2], fields[3], fields[4], static_cast<SampleType>(fields[5])};
  header.lossless_webp = fields[8] != 0;
  if (fields[6] > 0) header.jpeg = JpegCoding{.quality = fields[6], .subsampled = fields[7] != 0};
  return header;
}

}  // namespace upscaled::server

#include "server/handlers/result_headers.h"

#include "server/handlers/convert.h"

namespace upscaled::server {

namespace pb = upscale::v1;

pb::UpscaleImageHeader HeaderOf(const ImageSpec& source, const ResolvedJob& resolved,
                                const ModelCard& model, const std::string& name) {
  pb::UpscaleImageHeader header;
  header.set_source_width_px(source.width_px);
  header.set_source_height_px(source.height_px);
  header.set_result_width_px(resolved.result.width);
  header.set_result_height_px(resolved.result.height);
  header.set_format(ToProto(resolved.encode.format));
  header.set_bits_per_sample(static_cast<int>(8 * SampleBytes(resolved.sample_type)));
  header.set_channels(OutputSpecFor(resolved.encode.format, source).channels);
  header.set_model(model.name);
  header.set_etag(name);
  header.set_not_modified(true);
  return header;
}

std::string SourceToText(const ImageHeader& source) {
  pb::UpscaleImageHeader text;
  text.set_source_width_px(source.spec.width_px);
  text.set_source_height_px(source.spec.height_px);
  text.set_format(ToProto(source.format));
  text.set_channels(source.spec.channels);
  text.set_bits_per_sample(static_cast<int>(8 * SampleBytes(source.spec.type)));
  return text.SerializeAsString();
}

ImageHeader SourceFromText(const std::string& text) {
  pb::UpscaleImageHeader parsed;
  if (!parsed.ParseFromString(text)) parsed.Clear();
  ImageHeader header;
  header.format = FromProto(parsed.format()).value_or(ImageFormat::kPng);
  header.spec = {.width_px = parsed.source_width_px(),
                 .height_px = parsed.source_height_px(),
                 .channels = parsed.channels(),
                 .type = parsed.bits_per_sample() == 16 ? SampleType::kU16 : SampleType::kU8};
  return header;
}

}  // namespace upscaled::server

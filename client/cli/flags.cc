#include "client/cli/flags.h"

#include <utility>

#include "absl/strings/ascii.h"

namespace upscaled::client {

void ConnectionFlags::AddTo(CLI::App& command) {
  CLI::Option_group& group = *command.add_option_group("Connection");
  group
      .add_option("--server", server,
                  "HOST:PORT of the server, or a list a:1,b:2 to share the work")
      ->envname("UPSCALE_SERVER")
      ->capture_default_str();
  group
      .add_option("--timeout", timeout_s, "Seconds a call may take, retries included; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  group
      .add_option("--retries", retries,
                  "Further tries when the server is full or cannot be reached")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  CLI::Option* use_tls = group.add_flag("--tls", tls, "Encrypt the connection");
  group.add_option("--tls-ca", tls_options.ca_file, "PEM file of certificates to trust")
      ->needs(use_tls);
  group.add_option("--tls-cert", tls_options.cert_file, "PEM file of our certificate")
      ->needs(use_tls);
  group.add_option("--tls-key", tls_options.key_file, "PEM file of its key")->needs(use_tls);
  group
      .add_option("--tls-server-name", tls_options.server_name,
                  "Name on the server's certificate, when not HOST")
      ->needs(use_tls);
}

absl::StatusOr<ClientOptions> ConnectionFlags::ToOptions() const {
  ClientOptions options;
  absl::StatusOr<std::vector<std::string>> endpoints = ParseEndpoints(server);
  if (!endpoints.ok()) return endpoints.status();
  options.channel.endpoints = *std::move(endpoints);
  if (tls) options.channel.tls = tls_options;
  options.retry.max_retries = retries;
  if (timeout_s > 0) options.timeout = absl::Seconds(timeout_s);
  return options;
}

absl::StatusOr<std::unique_ptr<UpscaleClient>> ConnectionFlags::MakeClient() const {
  const absl::StatusOr<ClientOptions> options = ToOptions();
  if (!options.ok()) return options.status();
  return UpscaleClient::Create(*options);
}

void UpscaleFlags::AddTo(CLI::App& command) {
  command.add_option("-m,--model", model, "Model, see 'upscale models'; default: the server's");
  command.add_option("-n,--noise", noise, "Noise level to remove: -1 none, 0 weak to 3 strong")
      ->check(CLI::Range(-1, 3));
  CLI::Option* scale_flag =
      command.add_option("-s,--scale", scale, "Factor up to 16; default: the model's own")
          ->check(CLI::Range(1e-3, 16.0));
  command.add_option("--width", width_px, "Width of the result in pixels, instead of a factor")
      ->check(CLI::PositiveNumber)
      ->excludes(scale_flag);
  command.add_option("--height", height_px, "Height; one of the two alone keeps the proportions")
      ->check(CLI::PositiveNumber)
      ->excludes(scale_flag);
  command.add_flag("-x,--tta", tta, "Average over 8 flips and turns: better, 8 times the work");
  command
      .add_option("-t,--tile", tile_px, "Largest tile side in pixels; default: the server's choice")
      ->check(CLI::Range(32, 4096));
  command.add_option("--precision", precision, "exact (32 bit) or fast (16 bit where there is)")
      ->check(CLI::IsMember({"exact", "fast"}));
}

v1::Precision UpscaleFlags::ToPrecision() const {
  if (precision == "exact") return v1::PRECISION_EXACT;
  return precision == "fast" ? v1::PRECISION_FAST : v1::PRECISION_UNSPECIFIED;
}

v1::UpscaleOptions UpscaleFlags::ToProto() const {
  v1::UpscaleOptions options;
  options.set_model(model);
  if (noise.has_value()) options.set_noise_level(*noise);
  if (scale.has_value()) {
    options.set_scale(*scale);
  } else if (width_px > 0 || height_px > 0) {
    options.mutable_size()->set_width_px(width_px);
    options.mutable_size()->set_height_px(height_px);
  }
  options.set_tta(tta);
  options.set_precision(ToPrecision());
  options.set_tile_px(tile_px);
  return options;
}

v1::ImageFormat ParseFormat(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  if (lower == "png") return v1::IMAGE_FORMAT_PNG;
  if (lower == "jpg" || lower == "jpeg") return v1::IMAGE_FORMAT_JPEG;
  if (lower == "webp") return v1::IMAGE_FORMAT_WEBP;
  return v1::IMAGE_FORMAT_UNSPECIFIED;
}

std::string FormatName(v1::ImageFormat format) {
  switch (format) {
    case v1::IMAGE_FORMAT_PNG:
      return "png";
    case v1::IMAGE_FORMAT_JPEG:
      return "jpeg";
    case v1::IMAGE_FORMAT_WEBP:
      return "webp";
    default:
      return "";
  }
}

std::string PrecisionName(v1::Precision precision) {
  switch (precision) {
    case v1::PRECISION_EXACT:
      return "exact";
    case v1::PRECISION_FAST:
      return "fast";
    default:
      return "";
  }
}

}  // namespace upscaled::client

#include "client/cli/flags.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {

void ConnectionFlags::AddTo(CLI::App& command) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->type_name(type)->group("Connection");
  };
  add("--server", server, "HOST:PORT", "The server, or a list a:1,b:2 to share the work")
      ->envname("UPSCALE_SERVER")
      ->each([this](const std::string&) { names_server = true; })
      ->capture_default_str();
  add("--timeout", timeout_s, "SECONDS", "Longest time for a call, retries included; 0: no limit")
      ->check(Between(0.0, 1e9))
      ->capture_default_str();
  add("--retries", retries, "N", "Further tries when the server is full or cannot be reached")
      ->check(Between(0, 100))
      ->capture_default_str();
  CLI::Option* use_tls = command.add_flag("--tls", tls, "Encrypt the connection");
  use_tls->group("Connection");
  add("--tls-ca", tls_options.ca_file, "PEM", "Certificates to trust")->needs(use_tls);
  add("--tls-cert", tls_options.cert_file, "PEM", "Our certificate")->needs(use_tls);
  add("--tls-key", tls_options.key_file, "PEM", "Its key")->needs(use_tls);
  add("--tls-server-name", tls_options.server_name, "NAME",
      "Name on the server's certificate, when it is not HOST")
      ->needs(use_tls);
}

absl::StatusOr<ClientOptions> ConnectionFlags::ToOptions() const {
  ClientOptions options;
  ASSIGN_OR_RETURN(options.channel.endpoints, ParseEndpoints(server));
  if (tls) options.channel.tls = tls_options;
  options.retry.max_retries = retries;
  if (timeout_s > 0) options.timeout = absl::Seconds(timeout_s);
  return options;
}

absl::StatusOr<std::unique_ptr<UpscaleClient>> ConnectionFlags::MakeClient() const {
  ASSIGN_OR_RETURN(const ClientOptions options, ToOptions());
  return UpscaleClient::Create(options);
}

void UpscaleFlags::AddTo(CLI::App& command) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->type_name(type);
  };
  add("-m,--model", model, "NAME", "Model, see 'upscale models'; default: the server's");
  add("-n,--noise", noise, "N", "Noise level to remove: -1 none, 0 weak to 3 strong; default: -1")
      ->check(Between(-1, 3));
  CLI::Option* scale_flag =
      add("-s,--scale", scale, "FACTOR", "Above 0 to 16; default: the model's own")
          ->check(Between(1e-3, 16.0));
  add("--width", width_px, "PIXELS", "Width of the result, instead of a factor")
      ->check(Between(1, 1 << 30))
      ->excludes(scale_flag);
  add("--height", height_px, "PIXELS", "Height; one of the two alone keeps the proportions")
      ->check(Between(1, 1 << 30))
      ->excludes(scale_flag);
  CLI::Option* space = add("--prefilter-space", prefilter_space, "PIXELS",
                           "Smooth the source first (bilateral filter): its reach, 0.1 to 8")
                           ->check(Between(0.1, 8.0));
  CLI::Option* range = add("--prefilter-range", prefilter_range, "LEVELS",
                           "And how different colours it mixes, 0.1 to 255 of 255")
                           ->check(Between(0.1, 255.0))
                           ->needs(space);
  space->needs(range);
  command.add_flag("-x,--tta", tta, "Average over 8 flips and turns: better, 8 times the work");
  add("-t,--tile", tile_px, "PIXELS", "Largest tile side, 32 to 4096; default: the server's choice")
      ->check(Between(32, 4096));
  add("--precision", precision, "exact|fast", "32 bit, or 16 bit where the server has it")
      ->check(CLI::IsMember({"exact", "fast"}).description(""));
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
  if (prefilter_space > 0) {
    options.mutable_prefilter()->set_sigma_space(prefilter_space);
    options.mutable_prefilter()->set_sigma_range(prefilter_range);
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

#include "client/cli/flags.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/api_key.h"
#include "client/cli/errors.h"
#include "client/cli/ncnn_habits.h"
#include "client/http/http_client.h"
#include "engine/base/status_macros.h"
#include "proto/json/enum_names.h"

namespace upscaled::client {

namespace {

// The default of upscaled's --admin.
constexpr char kAdminServer[] = "127.0.0.1:8002";

constexpr char kServerVariable[] = "UPSCALE_SERVER";
constexpr size_t kMaxTraceparentBytes = 256;

// Returns the environment's trace by convention; "" without one, and for a text not fit for a
// header. Servers look at the rest.
std::string TraceOfCommand() {
  const char* const variable = std::getenv("TRACEPARENT");
  const std::string text = variable == nullptr ? "" : variable;
  const bool sendable = text.size() <= kMaxTraceparentBytes &&
                        std::all_of(text.begin(), text.end(), absl::ascii_isgraph);
  return sendable ? text : "";
}

// 0 for "all"; nullopt: no choice of frames.
std::optional<int> FrameNumber(const std::string& frame) {
  int number = 0;
  if (frame == "all") return 0;
  if (frame == "first") return 1;
  return absl::SimpleAtoi(frame, &number) && number > 0 ? std::optional(number) : std::nullopt;
}

CLI::Validator FrameChoice() {
  return CLI::Validator(
      [](const std::string& frame) {
        return FrameNumber(frame).has_value()
                   ? std::string()
                   : absl::StrCat("must be all, first or a number from 1 on, not ", frame);
      },
      "");
}

}  // namespace

void ConnectionFlags::AddTo(CLI::App& command) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->type_name(type)->group("Connection");
  };
  add("--server", server, "HOST:PORT",
      "The server (also unix:PATH, or http:// and https:// for its HTTP port), or a list a:1,b:2 "
      "to "
      "share the work")
      ->envname(kServerVariable)
      ->each([this](const std::string&) { names_server = true; })
      ->capture_default_str();
  add("--timeout", timeout_s, "SECONDS", "Longest time for a call, retries included; 0: no limit")
      ->check(Between(0.0, 1e9))
      ->capture_default_str();
  add("--retries", retries, "N", "Further tries when the server is full or cannot be reached")
      ->check(Between(0, 100))
      ->capture_default_str();
  command.add_flag("--tls", tls, "Encrypt the connection; https:// servers need no flag")
      ->group("Connection");
  add("--tls-ca", tls_options.ca_file, "PEM", "Certificates to trust");
  add("--tls-cert", tls_options.cert_file, "PEM", "Our certificate");
  add("--tls-key", tls_options.key_file, "PEM", "Its key");
  add("--tls-server-name", tls_options.server_name, "NAME",
      "Name on the server's certificate, when it is not HOST");
  add("--api-key-file", api_key_file, "FILE",
      "Holds the key for servers that want one; default: the value of UPSCALE_API_KEY");
  add("--trace-endpoint", trace_endpoint, "URL",
      "Collector of traces (OTLP over HTTP) that gets a span of each call; default: none");
}

absl::StatusOr<std::shared_ptr<Tracer>> ConnectionFlags::MakeTracer() const {
  if (trace_endpoint.empty()) return nullptr;
  auto tracer = Tracer::Create(trace_endpoint, [](const absl::Status& failure) {
    std::fprintf(stderr, "upscale: warning: spans are lost: %s\n", ErrorLine(failure).c_str());
  });
  if (tracer.ok()) return tracer;
  return absl::InvalidArgumentError(absl::StrCat("--trace-endpoint: ", tracer.status().message()));
}

void ConnectionFlags::WarnOfOpenKey(const std::string& key) const {
  const std::string warning = key.empty() ? "" : OpenKeyWarning(server, tls);
  if (!warning.empty()) std::fprintf(stderr, "upscale: warning: %s\n", warning.c_str());
}

void ConnectionFlags::AddLocalTo(CLI::App& command) {
  CLI::Option* const use_local = command.add_flag(
      "--local", local,
      "Use no --server, but one of its own for as long as the command runs; of UPSCALED_* settings "
      "it takes those of models, devices, memory and limits");
  use_local->group("Connection");
  command
      .add_option("--local-server", local_program,
                  "Its program; default: upscaled next to upscale, or in PATH")
      ->type_name("FILE")
      ->group("Connection")
      ->needs(use_local);
}

void ConnectionFlags::AddPriorityTo(CLI::App& command, const std::string& by_default) {
  priority = by_default;
  command
      .add_option(
          "--priority", priority,
          absl::StrCat("background: runs while the server has no interactive work; default: ",
                       by_default.empty() ? "the tenant's" : by_default))
      ->type_name("interactive|background")
      ->group("Connection")
      ->check(CLI::IsMember({"interactive", "background"}).description(""));
}

absl::StatusOr<std::unique_ptr<LocalServer>> ConnectionFlags::StartLocal(
    std::stop_token stop) const {
  if (!local) return nullptr;
  const char* const variable = std::getenv(kServerVariable);
  const bool explicit_server = names_server && (variable == nullptr || server != variable);
  if (tls || explicit_server || !api_key_file.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--local and ",
                                                   tls               ? "--tls"
                                                   : explicit_server ? "--server"
                                                                     : "--api-key-file",
                                                   " exclude each other"));
  }
  std::string program = local_program;
  if (program.empty()) {
    ASSIGN_OR_RETURN(program, FindServerProgram());
  }
  return LocalServer::Start(program, std::move(stop));
}

bool ConnectionFlags::names_tls_files() const {
  return !(tls_options.ca_file.empty() && tls_options.cert_file.empty() &&
           tls_options.key_file.empty() && tls_options.server_name.empty());
}

absl::StatusOr<ClientOptions> ConnectionFlags::ToOptions(const LocalServer* own) const {
  ClientOptions options;
  if (names_tls_files() && !tls) {
    return absl::InvalidArgumentError(
        "--tls-ca, --tls-cert, --tls-key and --tls-server-name need --tls, or an https:// server");
  }
  if (own != nullptr) {
    options.channel.endpoints = {own->endpoint()};
  } else if (IsHttpUrl(server)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "this needs a gRPC server, HOST:PORT or unix:PATH, and ", server, " is one for HTTP"));
  } else {
    ASSIGN_OR_RETURN(options.channel.endpoints, ParseEndpoints(server));
    ASSIGN_OR_RETURN(options.api_key, FindApiKey(api_key_file));
    WarnOfOpenKey(options.api_key);
  }
  if (tls) options.channel.tls = tls_options;
  options.traceparent = TraceOfCommand();
  ASSIGN_OR_RETURN(options.tracer, MakeTracer());
  options.retry = retry();
  options.timeout = timeout();
  options.priority = priority;
  return options;
}

absl::StatusOr<std::unique_ptr<UpscaleClient>> ConnectionFlags::MakeClient() const {
  ASSIGN_OR_RETURN(const ClientOptions options, ToOptions(nullptr));
  return UpscaleClient::Create(options);
}

absl::StatusOr<std::unique_ptr<UpscaleClient>> ConnectionFlags::MakeAdminClient() const {
  ConnectionFlags admin = *this;
  if (!names_server) admin.server = kAdminServer;
  return admin.MakeClient();
}

absl::StatusOr<Connection> ConnectionFlags::Connect(std::stop_token stop) const {
  Connection connection;
  if (!local && IsHttpUrl(server)) {
    HttpClientOptions options{.server = server,
                              .retry = retry(),
                              .timeout = timeout(),
                              .traceparent = TraceOfCommand(),
                              .priority = priority};
    if (tls || names_tls_files()) options.tls = tls_options;
    ASSIGN_OR_RETURN(options.api_key, FindApiKey(api_key_file));
    ASSIGN_OR_RETURN(options.tracer, MakeTracer());
    ASSIGN_OR_RETURN(connection.service, HttpClient::Create(options));
    WarnOfOpenKey(options.api_key);
    return connection;
  }
  ASSIGN_OR_RETURN(connection.local, StartLocal(std::move(stop)));
  ASSIGN_OR_RETURN(const ClientOptions options, ToOptions(connection.local.get()));
  ASSIGN_OR_RETURN(connection.service, UpscaleClient::Create(options));
  return connection;
}

void UpscaleFlags::AddTo(CLI::App& command) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->type_name(type);
  };
  add("-m,--model", model, "NAME",
      "Model, see 'upscale models', or several to run one after the other: 1x-dejpg,4x-foo; "
      "default: the server's")
      ->check(ModelName());
  add("-n,--noise", noise, "N",
      "Noise level to remove: -1 none, 0 weak to 3 strong, or auto: by the compression of a JPEG; "
      "default: auto")
      ->check(NoiseLevel());
  CLI::Option* scale_flag =
      add("-s,--scale", scale, "FACTOR", "Above 0 to 16; default: the model's own")
          ->check(Between(1e-3, 16.0));
  CLI::Option* width =
      add("-w,--width", width_px, "PIXELS", "Width of the result, instead of a factor")
          ->transform(WidthWithoutFilter())
          ->check(Between(1, 1 << 30))
          ->excludes(scale_flag);
  CLI::Option* height = add("--height", height_px, "PIXELS",
                            "Height; if you give one of the two, the proportions stay")
                            ->check(Between(1, 1 << 30))
                            ->excludes(scale_flag);
  add("--short-side", short_side_px, "PIXELS", "The shorter side, instead of width and height")
      ->check(Between(1, 1 << 30))
      ->excludes(scale_flag);
  add("--long-side", long_side_px, "PIXELS", "The longer side, instead of width and height")
      ->check(Between(1, 1 << 30))
      ->excludes(scale_flag);
  add("--fit", fit, "contain|cover|stretch",
      "Into both --width and --height: keep the proportions, cut off both ends, or distort")
      ->check(CLI::IsMember({"contain", "cover", "stretch"}).description(""))
      ->needs(width)
      ->needs(height);
  add("--max-pixels", max_pixels, "N", "Most pixels of the result; larger ones are made smaller")
      ->check(Between(int64_t{1}, int64_t{1} << 40));
  command.add_flag("--no-enlarge", no_enlarge, "Never make an image larger than it is");
  add("--alpha", alpha, "network|resample", "How alpha is enlarged; default: network")
      ->check(CLI::IsMember({"network", "resample"}).description(""));
  add("--alpha-colour", alpha_colour, "bleed|keep",
      "Colours of transparent pixels: bled from visible ones (logos), or kept (game textures); "
      "default: bleed")
      ->check(CLI::IsMember({"bleed", "keep"}).description(""));
  add("--keep-colours", keep_colours, "on|off", "Keep the source's colours; default: on")
      ->check(CLI::IsMember({"on", "off"}).description(""));
  add("--on-damage", on_damage, "fail|fill", "If a file lacks pixels: fail (default), or fill them")
      ->check(CLI::IsMember({"fail", "fill"}).description(""));
  CLI::Option* space = add("--prefilter-space", prefilter_space, "PIXELS",
                           "Smooth the source first (bilateral filter): its reach, 0.1 to 8")
                           ->check(Between(0.1, 8.0));
  CLI::Option* range = add("--prefilter-range", prefilter_range, "LEVELS",
                           "And how different colours it mixes, 0.1 to 255 of 255")
                           ->check(Between(0.1, 255.0))
                           ->needs(space);
  space->needs(range);
  command.add_flag("-x,--tta", tta, "Average over 8 flips and turns: better, 8 times the work");
  command.add_flag("--seamless", seamless,
                   "For textures laid side by side: borders go on at the opposite ones");
  add("-t,--tile", tile_px, "PIXELS",
      "Largest tile side, 32 to 4096; 0 or default: the server's choice")
      ->transform(TileSide());
  add("--precision", precision, "exact|fast", "32 bit, or 16 bit where the server has it")
      ->check(CLI::IsMember({"exact", "fast"}).description(""));
}

v1::Precision UpscaleFlags::ToPrecision() const {
  if (precision == "exact") return v1::PRECISION_EXACT;
  return precision == "fast" ? v1::PRECISION_FAST : v1::PRECISION_UNSPECIFIED;
}

absl::Status UpscaleFlags::CheckForFilm() const {
  if (noise != "auto") return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--noise auto reads how strongly a JPEG is compressed, which frames of a film do not tell; "
      "give a level");
}

v1::UpscaleOptions UpscaleFlags::ToProto() const {
  v1::UpscaleOptions options;
  options.set_model(model);
  int noise_level = 0;
  if (absl::SimpleAtoi(noise, &noise_level)) options.set_noise_level(noise_level);
  options.set_auto_noise(noise == "auto");
  if (scale.has_value()) {
    options.set_scale(*scale);
  } else if (width_px > 0 || height_px > 0 || short_side_px > 0 || long_side_px > 0) {
    v1::TargetSize& size = *options.mutable_size();
    size.set_width_px(width_px);
    size.set_height_px(height_px);
    size.set_short_side_px(short_side_px);
    size.set_long_side_px(long_side_px);
    size.set_fit(EnumNamed<v1::Fit>(fit));
  }
  options.set_max_pixels(max_pixels);
  options.set_no_enlarge(no_enlarge);
  options.set_alpha(EnumNamed<v1::AlphaMethod>(alpha));
  options.set_alpha_colour(EnumNamed<v1::AlphaColour>(alpha_colour));
  if (!keep_colours.empty()) options.set_keep_colours(keep_colours == "on");
  options.set_on_damage(EnumNamed<v1::DamagePolicy>(on_damage));
  if (prefilter_space > 0) {
    options.mutable_prefilter()->set_sigma_space(prefilter_space);
    options.mutable_prefilter()->set_sigma_range(prefilter_range);
  }
  options.set_tta(tta);
  options.set_seamless(seamless);
  options.set_precision(ToPrecision());
  options.set_tile_px(tile_px);
  return options;
}

void FormatFlags::AddTo(CLI::App& command) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->type_name(type);
  };
  add("-f,--format", format, "png|jpeg|webp|avif|jxl|tiff",
      "Default: by the output's name, else the input's own")
      ->check(CLI::IsMember({"png", "jpg", "jpeg", "webp", "avif", "jxl", "tif", "tiff"},
                            CLI::ignore_case)
                  .description(""));
  add("-q,--quality", quality, "N",
      "Of JPEG, WebP, AVIF, JPEG XL, 1 to 100 (lossless but for JPEG); default: 90")
      ->check(Between(1, 100));
  add("--png-compression", png_compression, "N", "0 fastest to 9 smallest")->check(Between(0, 9));
  add("--depth", depth, "auto|8|16",
      "Bits a sample; auto (default): the input's, if the format holds them")
      ->check(CLI::IsMember({"auto", "8", "16"}).description(""));
  command.add_flag("--16-bit", keep_16_bit, "As --depth auto, which came later");
  add("--metadata", metadata, "keep|strip|strip-location|icc",
      "Metadata in the result: all (default), nothing, all but the place, the colour profile")
      ->check(CLI::IsMember({"keep", "strip", "strip-location", "icc"}).description(""));
  add("--frame", frame, "all|first|N",
      "Of an animation: all frames (default), the first, or one counted from 1")
      ->check(FrameChoice());
}

void FormatFlags::ApplyTo(v1::UpscaleOptions& options) const {
  options.set_frame(FrameNumber(frame).value_or(0));
  options.set_quality(quality);
  if (png_compression.has_value()) options.set_png_compression(*png_compression);
  options.set_keep_16_bit(keep_16_bit);
  options.set_depth(EnumNamed<v1::Depth>(depth));
  options.set_metadata(EnumNamed<v1::MetadataPolicy>(metadata));
}

v1::ImageFormat ParseFormat(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  if (lower == "png") return v1::IMAGE_FORMAT_PNG;
  if (lower == "jpg" || lower == "jpeg") return v1::IMAGE_FORMAT_JPEG;
  if (lower == "webp") return v1::IMAGE_FORMAT_WEBP;
  if (lower == "avif") return v1::IMAGE_FORMAT_AVIF;
  if (lower == "jxl" || lower == "jpeg xl") return v1::IMAGE_FORMAT_JXL;
  if (lower == "tif" || lower == "tiff") return v1::IMAGE_FORMAT_TIFF;
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
    case v1::IMAGE_FORMAT_AVIF:
      return "avif";
    case v1::IMAGE_FORMAT_JXL:
      return "jxl";
    case v1::IMAGE_FORMAT_TIFF:
      return "tiff";
    case v1::IMAGE_FORMAT_GIF:
      return "gif";
    case v1::IMAGE_FORMAT_BMP:
      return "bmp";
    case v1::IMAGE_FORMAT_HEIC:
      return "heic";
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

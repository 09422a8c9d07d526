#include "server/rest/upscale_parameters.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "engine/base/alternatives.h"
#include "engine/base/string_view.h"
#include "engine/image/codec.h"
#include "proto/json/enum_names.h"
#include "server/base/error.h"
#include "server/options/contract_values.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

constexpr size_t kMaxShownBytes = 64;  // of a name or a value in an error
constexpr size_t kMaxWebhookBytes = 2048, kMaxReferenceBytes = 256;

// Reads a value into the parameters; false: it is not one of `values`.
using Setter = bool (*)(const std::string& value, UpscaleParameters& parameters);

struct Parameter {
  std::string_view name;
  std::string_view short_name;  // "": none
  std::string_view values;      // that it takes, for an error; "": see ValuesOf
  Setter set;
  bool is_switch = false;
};

template <typename Set>
bool ReadInteger(const std::string& value, Set set) {
  int32_t number = 0;
  if (!absl::SimpleAtoi(value, &number)) return false;
  set(number);
  return true;
}

template <typename Set>
bool ReadNumber(const std::string& value, Set set) {
  double number = 0;
  if (!absl::SimpleAtod(value, &number)) return false;
  set(number);
  return true;
}

template <typename Set>
bool ReadSwitch(const std::string& value, Set set) {
  bool on = absl::EqualsIgnoreCase(value, "on");
  if (!on && !absl::EqualsIgnoreCase(value, "off") && !absl::SimpleAtob(value, &on)) return false;
  set(on);
  return true;
}

template <typename Enum, typename Set>
bool ReadEnum(const std::string& name, Set set) {
  const Enum value = EnumNamed<Enum>(name);
  if (value != Enum()) set(value);
  return value != Enum();
}

bool SetNoiseLevel(const std::string& value, UpscaleParameters& p) {
  p.options.set_auto_noise(value == "auto");
  if (p.options.auto_noise()) return true;
  return ReadInteger(value, [&](int32_t n) { p.options.set_noise_level(n); });
}

bool SetFrame(const std::string& value, UpscaleParameters& p) {
  if (value == "all" || value == "first") {
    p.options.set_frame(value == "first" ? 1 : 0);
    return true;
  }
  return ReadInteger(value, [&](int32_t n) { p.options.set_frame(n); }) && p.options.frame() > 0;
}

bool SetDepth(const std::string& value, UpscaleParameters& p) {
  if (value != "auto")
    return ReadEnum<pb::Depth>(value, [&](pb::Depth d) { p.options.set_depth(d); });
  p.options.set_depth(pb::DEPTH_UNSPECIFIED);
  return true;
}

bool SetPrecision(const std::string& value, UpscaleParameters& p) {
  return ReadEnum<pb::Precision>(value, [&](pb::Precision x) { p.options.set_precision(x); });
}

bool SetFormat(const std::string& value, UpscaleParameters& p) {
  const std::optional<ImageFormat> format =
      FormatFromName(std::string(absl::StripPrefix(value, "IMAGE_FORMAT_")));
  if (!format.has_value() || !CanEncode(*format)) return false;
  p.options.set_format(ToProto(*format));
  return true;
}

bool SetTimeout(const std::string& value, UpscaleParameters& p) {
  return absl::SimpleAtod(value, &p.timeout_s) && p.timeout_s > 0;
}

constexpr std::string_view kInteger = "a whole number", kNumber = "a number",
                           kSwitch = "1 or 0, true or false, on or off", kText = "a text";

bool SetWebhook(const std::string& value, UpscaleParameters& parameters) {
  std::string_view host = value;
  const bool is_http =
      absl::StartsWithIgnoreCase(value, "http://") || absl::StartsWithIgnoreCase(value, "https://");
  if (is_http) host.remove_prefix(host.find("//") + 2);
  host = host.substr(0, host.find_first_of("/?#"));
  parameters.webhook = value;
  return is_http && value.size() <= kMaxWebhookBytes && !host.empty() &&
         host.find('@') == std::string_view::npos &&
         std::ranges::all_of(value, [](char c) { return c > ' ' && c != 127; });
}

constexpr Parameter kParameters[] = {
    {"model", "", kText,
     [](const std::string& v, UpscaleParameters& p) {
       p.options.set_model(v);
       return true;
     }},
    {"noise_level", "noise", "a whole number or auto", SetNoiseLevel},
    {"scale", "", kNumber,
     [](const std::string& v, UpscaleParameters& p) {
       return ReadNumber(v, [&](double n) { p.options.set_scale(n); });
     }},
    {"width_px", "width", kInteger,
     [](const std::string& v, UpscaleParameters& p) {
       return ReadInteger(v, [&](int32_t n) { p.options.mutable_size()->set_width_px(n); });
     }},
    {"height_px", "height", kInteger,
     [](const std::string& v, UpscaleParameters& p) {
       return ReadInteger(v, [&](int32_t n) { p.options.mutable_size()->set_height_px(n); });
     }},
    {"short_side_px", "short_side", kInteger,
     [](const std::string& v, UpscaleParameters& p) {
       return ReadInteger(v, [&](int32_t n) { p.options.mutable_size()->set_short_side_px(n); });
     }},
    {"long_side_px", "long_side", kInteger,
     [](const std::string& v, UpscaleParameters& p) {
       return ReadInteger(v, [&](int32_t n) { p.options.mutable_size()->set_long_side_px(n); });
     }},
    {"fit", "", "contain, cover or stretch",
     [](const std::string& v, UpscaleParameters& p) {
       return ReadEnum<pb::Fit>(v, [&](pb::Fit fit) { p.options.mutable_size()->set_fit(fit); });
     }},
    {"max_pixels", "", kInteger,
     [](const std::string& v, UpscaleParameters& p) {
       int64_t pixels = 0;
       if (!absl::SimpleAtoi(v, &pixels)) return false;
       p.options.set_max_pixels(pixels);
       return true;
     }},
    {"no_enlarge", "", kSwitch,
     [](const std::string& v, UpscaleParameters& p) {
       return ReadSwitch(v, [&](bool on) { p.options.set_no_enlarge(on); });
     },
     true},
    {"tta", "", kSwitch,
     [](const std::string& v, UpscaleParameters& p) {
       return ReadSwitch(v, [&](bool on) { p.options.set_tta(on); });
     },
     true},
    {"seamless", "", kSwitch,
     [](const std::string& v, UpscaleParameters& p) {
       return ReadSwitch(v, [&](bool on) { p.options.set_seamless(on); });
     },
     true},
    {"format", "", "", SetFormat},
    {"quality", "", kInteger,
     [](const std::string& v, UpscaleParameters& p) {
       return ReadInteger(v, [&](int32_t n) { p.options.set_quality(n); });
     }},
    {"png_compression", "", kInteger,
     [](const std::string& v, UpscaleParameters& p) {
       return ReadInteger(v, [&](int32_t n) { p.options.set_png_compression(n); });
     }},
    {"keep_16_bit", "", kSwitch,
     [](const std::string& v, UpscaleParameters& p) {
       return ReadSwitch(v, [&](bool on) { p.options.set_keep_16_bit(on); });
     },
     true},
    {"depth", "", "auto, 8 or 16", SetDepth},
    {"alpha", "", "network or resample",
     [](const std::string& v, UpscaleParameters& p) {
       return ReadEnum<pb::AlphaMethod>(
           v, [&](pb::AlphaMethod method) { p.options.set_alpha(method); });
     }},
    {"alpha_colour", "", "bleed or keep",
     [](const std::string& v, UpscaleParameters& p) {
       return ReadEnum<pb::AlphaColour>(
           v, [&](pb::AlphaColour colour) { p.options.set_alpha_colour(colour); });
     }},
    {"keep_colours", "", kSwitch,
     [](const std::string& v, UpscaleParameters& p) {
       return ReadSwitch(v, [&](bool on) { p.options.set_keep_colours(on); });
     },
     true},
    {"metadata", "", "keep, strip, strip-location or icc",
     [](const std::string& v, UpscaleParameters& p) {
       return ReadEnum<pb::MetadataPolicy>(
           v, [&](pb::MetadataPolicy policy) { p.options.set_metadata(policy); });
     }},
    {"on_damage", "", "fail or fill",
     [](const std::string& v, UpscaleParameters& p) {
       return ReadEnum<pb::DamagePolicy>(
           v, [&](pb::DamagePolicy policy) { p.options.set_on_damage(policy); });
     }},
    {"frame", "", "all, first, or the number of a frame from 1 on", SetFrame},
    {"precision", "", "exact or fast", SetPrecision},
    {"tile_px", "", kInteger,
     [](const std::string& v, UpscaleParameters& p) {
       return ReadInteger(v, [&](int32_t n) { p.options.set_tile_px(n); });
     }},
    {"sigma_space", "", kNumber,
     [](const std::string& v, UpscaleParameters& p) {
       return ReadNumber(v, [&](double n) { p.options.mutable_prefilter()->set_sigma_space(n); });
     }},
    {"sigma_range", "", kNumber,
     [](const std::string& v, UpscaleParameters& p) {
       return ReadNumber(v, [&](double n) { p.options.mutable_prefilter()->set_sigma_range(n); });
     }},
    {"timeout", "", "a number of seconds above 0", SetTimeout},
    {"url", "", kText,
     [](const std::string& v, UpscaleParameters& p) {
       p.url = v;
       return true;
     }},
    {"request_id", "", kText,
     [](const std::string& v, UpscaleParameters& p) {
       p.request_id = v;
       return true;
     }},
    {"dry_run", "", kSwitch,
     [](const std::string& v, UpscaleParameters& p) {
       return ReadSwitch(v, [&](bool on) { p.dry_run = on; });
     },
     true},
    {"on_error", "", "problem or original",
     [](const std::string& v, UpscaleParameters& p) {
       p.original_on_error = v == "original";
       return p.original_on_error || v == "problem";
     }},
    {"download", "", kText,
     [](const std::string& v, UpscaleParameters& p) {
       p.download = v;
       return true;
     }},
    {"webhook", "", "an http(s) URL of at most 2048 bytes without a user", SetWebhook},
    {"reference", "", "a text of at most 256 bytes",
     [](const std::string& v, UpscaleParameters& p) {
       p.reference = v;
       return v.size() <= kMaxReferenceBytes;
     }},
};

// "png, jpeg or webp": the formats written here.
std::string WritableFormats() {
  std::vector<std::string> names;
  for (const ImageFormat format : kImageFormats) {
    if (CanEncode(format)) names.push_back(ShortName(ToProto(format)));
  }
  return Alternatives(std::move(names));
}

std::string ValuesOf(const Parameter& parameter) {
  return parameter.values.empty() ? WritableFormats() : std::string(parameter.values);
}

std::string Shown(std::string_view text) {
  if (text.size() <= kMaxShownBytes) return absl::StrCat("\"", ToAbsl(text), "\"");
  return absl::StrCat("\"", ToAbsl(text.substr(0, kMaxShownBytes)), "...\"");
}

absl::Status Invalid(const std::string& message, std::string_view field) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption, message,
                   {{"field", std::string(field)}});
}

absl::Status UnknownOption(const std::string& name) {
  std::string names;
  for (const std::string_view known : ParameterNames()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", ToAbsl(known));
  }
  return Invalid(absl::StrCat("there is no option ", Shown(name), "; there are ", names),
                 name.substr(0, kMaxShownBytes));
}

// The given name of an option that excludes `name`: there are two ways to say how large the result
// is. nullopt: nothing excludes it.
std::optional<std::string> OptionAgainst(std::string_view name,
                                         const UpscaleParameters& parameters) {
  constexpr std::string_view kOfSize[] = {"width_px", "height_px", "short_side_px", "long_side_px",
                                          "fit"};
  const auto given = [&](std::string_view other) -> std::optional<std::string> {
    const auto found = parameters.names.find(other);
    return found == parameters.names.end() ? std::nullopt : std::optional(found->second);
  };
  if (name == "scale" && parameters.options.has_size()) {
    for (const std::string_view other : kOfSize)
      if (const auto found = given(other)) return found;
  }
  const bool is_size = std::ranges::count(kOfSize, name) != 0;
  return is_size && parameters.options.has_scale() ? given("scale") : std::nullopt;
}

// `error` of the contract's options, with the names that the caller gave them.
absl::Status WithGivenNames(const absl::Status& error, const UpscaleParameters& parameters) {
  ErrorMetadata metadata = MetadataOf(error);
  std::string message(error.message());
  for (const Parameter& parameter : kParameters) {
    const std::string name(parameter.name);
    const auto found = parameters.names.find(parameter.name);
    const std::string given = found == parameters.names.end() ? name : found->second;
    for (const char* const path : {"size.", "prefilter.", ""}) {
      const std::string field = path + name;
      message = absl::StrReplaceAll(message, {{field, given}});
      if (const auto at = metadata.find("field"); at != metadata.end() && at->second == field)
        at->second = given;
    }
  }
  return MakeError(error.code(), ReasonOf(error), message, metadata);
}

}  // namespace

absl::Status ParameterReader::Read(const FormField& field) {
  const auto* const parameter =
      std::find_if(std::begin(kParameters), std::end(kParameters), [&](const Parameter& p) {
        return field.name == p.name || (!p.short_name.empty() && field.name == p.short_name);
      });
  if (parameter == std::end(kParameters)) return UnknownOption(field.name);
  if (field.value == "") return absl::OkStatus();  // not given, as far as the other fields go, too
  const auto [before, is_new] = parameters_.names.emplace(parameter->name, field.name);
  if (!is_new) {
    const bool same = before->second == field.name;
    return Invalid(absl::StrCat(field.name, " is given more than once",
                                same ? "" : absl::StrCat(", before as ", before->second)),
                   field.name);
  }
  if (!field.value.has_value() && !parameter->is_switch) {
    return Invalid(absl::StrCat(field.name, " has no value; it must be ", ValuesOf(*parameter)),
                   field.name);
  }
  const std::string value = field.value.value_or("1");
  if (const auto other = OptionAgainst(parameter->name, parameters_)) {
    return Invalid(
        absl::StrCat(field.name, " is given next to ", *other, "; only one of them can be"),
        field.name);
  }
  if (parameter->set(value, parameters_)) return absl::OkStatus();
  return Invalid(
      absl::StrCat(field.name, " is ", Shown(value), "; it must be ", ValuesOf(*parameter)),
      field.name);
}

absl::StatusOr<RequestOptions> ReadOptions(const UpscaleParameters& parameters) {
  absl::StatusOr<RequestOptions> options = FromProto(parameters.options);
  if (options.ok()) return options;
  return WithGivenNames(options.status(), parameters);
}

std::vector<std::string_view> ParameterNames() {
  std::vector<std::string_view> names;
  for (const Parameter& parameter : kParameters) {
    names.push_back(parameter.name);
    if (!parameter.short_name.empty()) names.push_back(parameter.short_name);
  }
  return names;
}

}  // namespace upscaled::server
